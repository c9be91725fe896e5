"use strict";
// Tables sort by a click on a heading and filter by a text. Without this script they are plain tables.

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

function addFilter(region, table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 12) return;
  const bar = document.createElement("p");
  bar.className = "filter";
  const label = document.createElement("label");
  const input = document.createElement("input");
  const told = document.createElement("span");
  input.type = "search";
  input.placeholder = "words in a row";
  told.setAttribute("role", "status");
  label.append("Filter ", input);
  bar.append(label, " ", told);
  region.before(bar);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    told.textContent = `${shown} of ${rows.length} rows`;
  });
}

for (const region of document.querySelectorAll(".table")) {
  const table = region.querySelector("table");
  addSorting(table);
  addFilter(region, table);
}

// What is folded is printed all the same, but for lists of runs.
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.runs)")) part.open = true;
});

// A link to a row that the filter hides shows it again.
window.addEventListener("hashchange", () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row && row.hidden) row.hidden = false;
  if (row) row.scrollIntoView({ block: "center" });
});
