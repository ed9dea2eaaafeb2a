"use strict";
const root = JSON.parse(document.getElementById("data").textContent);
const graph = document.getElementById("graph");
const detail = document.getElementById("detail");
const search = document.getElementById("search");
const all = document.getElementById("all");
const HEIGHT = 20;
let zoomed = root;

(function parents(box) {
  for (const inner of box.c || []) {
    inner.up = box;
    parents(inner);
  }
})(root);

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return (unit === 0 ? value : value.toPrecision(3)) + " " + units[unit];
}

function share(part, whole) {
  return (whole ? (100 * part) / whole : 0).toFixed(1) + " %";
}

/* Functions of one name have one color on all pages. */
function hue(name) {
  let hash = 0;
  for (const letter of name) {
    hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  }
  return 8 + (hash % 46);
}

function describe(box) {
  const of = zoomed === root ? "" : ", " + share(box.v, zoomed.v) + " of what is shown";
  detail.textContent =
    box.n + (box.p ? "  " + box.p : "") + ":  " + bytes(box.v) + " in " + box.o + " objects, " + share(box.v, root.v) + of;
}

function matcher() {
  const wanted = search.value.trim().toLowerCase();
  return wanted ? (box) => (box.n + " " + (box.p || "")).toLowerCase().includes(wanted) : null;
}

function draw() {
  const width = graph.clientWidth;
  const fits = matcher();
  const parts = document.createDocumentFragment();
  let deepest = 0;
  function put(box, left, wide, depth, above) {
    deepest = Math.max(deepest, depth);
    const part = document.createElement("div");
    part.className = "box";
    if (box.w) {
      part.classList.add("own");
      part.style.setProperty("--hue", hue(box.n));
    }
    if (above) part.classList.add("above");
    if (fits && fits(box)) part.classList.add("found");
    if (wide < 24) part.classList.add("tiny");
    else part.textContent = box.n;
    part.style.left = left + "px";
    part.style.top = depth * HEIGHT + "px";
    part.style.width = Math.max(wide, 1) + "px";
    part.tabIndex = 0;
    part.title = box.n;
    part.addEventListener("mouseenter", () => describe(box));
    part.addEventListener("focus", () => describe(box));
    part.addEventListener("click", () => zoom(box));
    part.addEventListener("keydown", (event) => {
      if (event.key === "Enter") zoom(box);
    });
    parts.append(part);
  }
  const callers = [];
  for (let box = zoomed.up; box; box = box.up) callers.unshift(box);
  callers.forEach((box, depth) => put(box, 0, width, depth, true));
  const waiting = [[zoomed, 0, callers.length]];
  while (waiting.length) {
    const [box, left, depth] = waiting.pop();
    const scale = zoomed.v ? width / zoomed.v : 0;
    put(box, left, box.v * scale, depth, false);
    let at = left;
    for (const inner of box.c || []) {
      if (inner.v * scale >= 0.7) waiting.push([inner, at, depth + 1]);
      at += inner.v * scale;
    }
  }
  graph.replaceChildren(parts);
  graph.style.height = (deepest + 1) * HEIGHT + "px";
  all.disabled = zoomed === root;
  count(fits);
}

/* A found function inside another one is not counted twice. */
function count(fits) {
  const found = document.getElementById("found");
  if (!fits) {
    found.textContent = "";
    return;
  }
  let sum = 0;
  const waiting = [zoomed];
  while (waiting.length) {
    const box = waiting.pop();
    if (fits(box)) sum += box.v;
    else waiting.push(...(box.c || []));
  }
  found.textContent = "found: " + bytes(sum) + ", " + share(sum, zoomed.v);
}

function zoom(box) {
  zoomed = box;
  draw();
  describe(box);
}

search.addEventListener("input", draw);
all.addEventListener("click", () => zoom(root));
document.getElementById("theme").addEventListener("click", () => {
  const page = document.documentElement;
  const dark = page.dataset.theme ? page.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  page.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape") {
    search.value = "";
    zoom(root);
  }
});
let pending = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(draw);
});
draw();
