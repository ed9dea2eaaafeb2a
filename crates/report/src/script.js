"use strict";
/* Tables: a click on a heading sorts by it, a second one the other way round. */
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  for (const heading of table.tHead.rows[0].cells) {
    if (!heading.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[heading.cellIndex];
        return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
      };
      const order = (one, other) => {
        const [a, b] = [key(one), key(other)];
        /* What has no number stands at the end, either way. */
        if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
        const by = typeof a === "number" ? a - b : a.localeCompare(b);
        return up ? by : -by;
      };
      body.append(...[...body.rows].sort(order));
    });
  }
}
/* Lines: a cursor that reads the values of a moment out of the chart's own table. */
for (const figure of document.querySelectorAll("figure.lines")) {
  const table = figure.querySelector("table");
  const readout = figure.querySelector(".readout");
  const rows = [...table.tBodies[0].rows];
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  if (!rows.length) continue;
  let at = -1;
  const show = (row) => {
    at = Math.max(0, Math.min(rows.length - 1, row));
    const cells = [...rows[at].cells].map((cell) => cell.textContent);
    readout.replaceChildren(
      ...cells.map((text, column) => {
        const part = document.createElement("span");
        const name = document.createElement("b");
        name.textContent = names[column] + " ";
        part.append(name, text);
        return part;
      }),
    );
    for (const cursor of figure.querySelectorAll("line.cursor")) {
      const { left, right } = cursor.dataset;
      const x = Number(left) + Number(rows[at].dataset.across) * (right - left);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
  };
  for (const svg of figure.querySelectorAll("svg")) {
    svg.setAttribute("tabindex", "0");
    const cursor = svg.querySelector("line.cursor");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const { left, right } = cursor.dataset;
      const across = (x - left) / (right - left);
      let best = 0;
      rows.forEach((row, index) => {
        const far = (row) => Math.abs(Number(row.dataset.across) - across);
        if (far(row) < far(rows[best])) best = index;
      });
      svg.classList.add("points-at");
      show(best);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -rows.length, End: rows.length }[event.key];
      if (!step) return;
      event.preventDefault();
      svg.classList.add("points-at");
      show(at + step);
    });
    for (const end of ["pointerleave", "blur"]) svg.addEventListener(end, () => svg.classList.remove("points-at"));
  }
}
