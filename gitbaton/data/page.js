"use strict";
const rows = [...document.querySelectorAll("li[data-t]")], lists = [...document.querySelectorAll("ol")];
const boxes = [...document.querySelectorAll("fieldset input")], query = document.getElementById("q"), count = document.querySelector("output");
const words = new Map();
for (const needed of [query.form, ...boxes]) needed.hidden = false;

function shown() {
  const off = new Set(boxes.filter(box => !box.checked).map(box => box.value)), asked = query.value.trim().toLowerCase();
  let found = 0;
  for (const row of rows) {
    if (asked && !words.has(row)) words.set(row, row.textContent.toLowerCase());
    row.hidden = off.has(row.dataset.t) || (asked !== "" && !words.get(row).includes(asked));
    found += !row.hidden;
  }
  let day;
  for (const line of document.querySelectorAll("ol > li")) {
    if (line.classList.contains("day")) (day = line).hidden = true;
    else if (!line.hidden) day.hidden = false;
  }
  for (const list of lists) {  // what is not laid out takes as much room as it would
    const lines = list.querySelectorAll(":scope > li:not([hidden])").length;
    list.hidden = !lines;
    list.style.containIntrinsicBlockSize = lines * 1.88 + "em";
  }
  count.value = asked ? found + " found" : "";
}

function step(by) {
  const heads = rows.filter(row => !row.hidden && row.classList.contains("c")).map(row => row.querySelector("summary"));
  if (!heads.length) return;
  const at = heads.indexOf(document.activeElement);
  const to = heads[Math.min(Math.max(at < 0 ? 0 : at + by, 0), heads.length - 1)];
  to.focus();
  to.scrollIntoView({ block: "center" });
}

let waiting = 0;
query.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(shown, 120); });
query.form.addEventListener("submit", event => { event.preventDefault(); shown(); step(0); });
boxes.forEach(box => box.addEventListener("change", shown));
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === query) { if (event.key === "Escape") { query.value = ""; shown(); query.blur(); } return; }
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/") { event.preventDefault(); query.focus(); }
});
