
// A mark of a picture says which setting it is. Without this script the browser says so, a little later.
const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);

for (const mark of document.querySelectorAll(".mark")) {
  const title = mark.querySelector("title");
  const text = title.textContent;
  title.remove();
  mark.setAttribute("aria-label", text);
  const tell = () => {
    const box = mark.getBoundingClientRect();
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(box.right + 8, window.innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 8 + tip.offsetHeight <= window.innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below ? box.bottom + 8 : box.top - 8 - tip.offsetHeight}px`;
  };
  const hide = () => {
    tip.hidden = true;
  };
  mark.addEventListener("pointerenter", tell);
  mark.addEventListener("focus", tell);
  mark.addEventListener("pointerleave", hide);
  mark.addEventListener("blur", hide);
}
