"use strict";
// Tables sort by a click on a heading, filter by a text, and show the columns that a reader picks; what is wider than
// the window says so. Without this script they are plain tables with all their columns.

function key(row, column) {
  const cell = row.cells[column];
  return cell.dataset.key === undefined ? cell.textContent.trim() : Number(cell.dataset.key);
}

// Numbers before text, and what is empty last, in either direction.
function compare(one, other, direction) {
  const rank = (value) => (typeof value === "number" ? 0 : value === "" || value === "–" ? 2 : 1);
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  const order = typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
  return direction * order;
}

function sort(table, column, heading) {
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.querySelectorAll("[aria-sort]")) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((one, other) => compare(key(one, column), key(other, column), direction));
  body.append(...rows);
}

function addSorting(table) {
  [...table.querySelectorAll("tr.headings th")].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sort(table, column, heading));
  });
}

function addFilter(bar, table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 12) return;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const counted = document.createElement("span");
  input.type = "search";
  input.placeholder = "words in a row";
  counted.setAttribute("role", "status");
  label.append("Filter ", input);
  bar.append(label, counted);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    counted.textContent = `${shown} of ${rows.length} rows`;
  });
}

function show(table, column, isShown) {
  for (const row of table.rows) if (!row.matches(".groups")) row.cells[column].hidden = !isShown;
  // A heading above headings is as wide as what is shown below it.
  const headings = [...table.querySelectorAll("tr.headings th")];
  let start = 0;
  for (const group of table.querySelectorAll("tr.groups th")) {
    group.dataset.width ??= group.colSpan;
    const end = start + Number(group.dataset.width);
    const width = headings.slice(start, end).filter((heading) => !heading.hidden).length;
    group.hidden = width === 0;
    if (width) group.colSpan = width;
    start = end;
  }
}

function addPicker(bar, table) {
  const headings = [...table.querySelectorAll("tr.headings th")];
  if (!headings.some((heading) => "away" in heading.dataset)) return;
  const picker = document.createElement("details");
  const counted = document.createElement("summary");
  const list = document.createElement("ul");
  const tell = () => {
    counted.textContent = `${headings.filter((heading) => !heading.hidden).length} of ${headings.length} columns`;
  };
  picker.className = "picker";
  picker.append(counted, list);
  headings.forEach((heading, column) => {
    show(table, column, !("away" in heading.dataset));
    // The first names the row.
    if (column === 0) return;
    const item = document.createElement("li");
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !heading.hidden;
    box.addEventListener("change", () => {
      show(table, column, box.checked);
      tell();
    });
    label.append(box, ` ${heading.textContent}`);
    item.append(label);
    list.append(item);
  });
  tell();
  bar.append(picker);
}

function addHint(bar, region, table) {
  const hint = document.createElement("span");
  hint.className = "hint";
  hint.textContent = "scrolls sideways →";
  bar.append(hint);
  const watcher = new ResizeObserver(() => {
    hint.hidden = region.scrollWidth <= region.clientWidth + 1;
  });
  watcher.observe(region);
  watcher.observe(table);
}

for (const region of document.querySelectorAll(".table")) {
  const table = region.querySelector("table");
  const bar = document.createElement("div");
  bar.className = "bar";
  // Before the headings become buttons: the picker has their words.
  addFilter(bar, table);
  addPicker(bar, table);
  addHint(bar, region, table);
  addSorting(table);
  region.before(bar);
}

// What is folded is printed all the same, but for lists of runs.
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.runs)")) part.open = true;
});

// A link to a row that the filter hides, or that is folded away, shows it again.
function unfold() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place) return;
  place.hidden = false;
  let wasFolded = false;
  for (let part = place.closest("details"); part; part = part.parentElement.closest("details")) {
    wasFolded ||= !part.open;
    part.open = true;
  }
  if (place.matches("tr")) place.scrollIntoView({ block: "center" });
  else if (wasFolded) place.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
unfold();
