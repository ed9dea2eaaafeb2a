(() => {
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const name = (element) => element.tagName.toLowerCase() + " '" + element.textContent.trim().slice(0, 40) + "'";
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  const found = {
    title: document.title,
    width: innerWidth,
    page_width: document.documentElement.scrollWidth,
    is_dark: matchMedia("(prefers-color-scheme: dark)").matches,
    charts: 0, texts: 0,
    overlaps: [], cut_off: [], small: [], faint: [], nameless: [],
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    errors: window.vcmErrors,
  };
  document.querySelectorAll("img, link, iframe, object, embed").forEach((element) => found.loaded.push(element.outerHTML));
  /* WCAG 2.1: luminance and contrast. */
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((part) => (part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return rgba("#fff");
  };
  const judge = (element, colour) => {
    const ratio = contrast(rgba(colour), ground(element));
    if (ratio < 4.5) found.faint.push(name(element) + " " + ratio.toFixed(2));
  };
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    found.charts += 1;
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent);
    found.texts += texts.length;
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, at) => {
      const box = boxes[at];
      const size = parseFloat(text.getAttribute("font-size")) * scale;
      if (size < 9.5) found.small.push(name(text) + " " + size.toFixed(1));
      if (box.left < frame.left - 3 || box.right > frame.right + 3 || box.top < frame.top - 3 || box.bottom > frame.bottom + 3) {
        found.cut_off.push(name(text));
      }
      judge(text, getComputedStyle(text).fill);
      for (let next = at + 1; next < texts.length; next += 1) {
        const other = boxes[next];
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        /* Boxes have some air around the letters. */
        if (wide > 1 && high > 5) found.overlaps.push(name(text) + " and " + name(texts[next]));
      }
    });
    /* What is drawn, not written, asks for less. */
    for (const mark of svg.querySelectorAll("path[style], rect[style], circle[style], polygon[style]")) {
      const style = getComputedStyle(mark);
      const colour = style.fill === "none" ? style.stroke : style.fill;
      if (contrast(rgba(colour), ground(svg)) < 2.9) found.faint.push("mark " + colour);
    }
  }
  for (const element of document.querySelectorAll("h1, h2, h3, p, li, small, summary, dt, dd, th, td, code, figcaption strong, button")) {
    if (shown(element) && element.textContent.trim()) judge(element, getComputedStyle(element).color);
  }
  for (const element of document.querySelectorAll("button, a, svg, [tabindex]")) {
    const label = element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || element.textContent.trim();
    if (!label) found.nameless.push(name(element));
  }
  return found;
})()
