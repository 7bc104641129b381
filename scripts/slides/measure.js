// What does not fit on a slide, or on a page of a PDF: what reaches furthest over its edge,
// frames that would have to be scrolled, and text of figures that is too small.
// What MathJax writes for screen readers is clipped on purpose.
([selector, smallest]) => [...document.querySelectorAll(selector)].map((slide) => {
  const edge = slide.getBoundingClientRect(), found = new Set();
  const name = (element) => [element.localName, ...element.classList].join(".");
  let furthest = 1, which = null;
  for (const element of slide.querySelectorAll("*")) {
    if (element.closest("mjx-assistive-mml, aside, defs, clipPath")) continue;
    if (!element.checkVisibility()) continue;
    if (element.localName === "text" && element.textContent.trim()) {
      const matrix = element.getScreenCTM();
      const size = parseFloat(getComputedStyle(element).fontSize) * Math.hypot(matrix.a, matrix.b);
      if (size < smallest)
        found.add(`the text "${element.textContent.trim()}" is ${size.toFixed(0)} pixels high`);
    }
    const box = element.getBoundingClientRect();
    if (element.closest("svg *") || !box.width || !box.height) continue;
    const over = Math.max(edge.left - box.left, edge.top - box.top,
                          box.right - edge.right, box.bottom - edge.bottom);
    if (over > furthest) [furthest, which] = [over, element];
    const { display, overflowX, overflowY } = getComputedStyle(element);
    if (display === "inline" || element.closest("input, textarea, mjx-container *")) continue;
    if (overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1 ||
        !/visible|clip/.test(overflowY) && element.scrollHeight > element.clientHeight + 1)
      found.add(`${name(element)} would have to be scrolled`);
  }
  if (which) found.add(`${name(which)} reaches ${Math.round(furthest)} pixels over the edge`);
  return [...found];
})
