// One query among keys in the plane, under three scores.
"use strict";

touch.kinds.scores = {
  sliders: () => [
    ["angle", "angle of the query (degrees)", 0, 360, 5, 20],
    ["length", "length of the query", 0, 8, 0.1, 2]],
  points: ({ keys }, values) => [
    ...keys.map((key, s) => ({
      name: `key ${s + 1}`, kind: "key", place: () => key,
      move(x, y) { [key[0], key[1]] = [x, y]; } })),
    { name: "query", kind: "query",
      place: () => touch.rotate([values.length, 0], (values.angle * Math.PI) / 180),
      move(x, y) {
        values.length = Math.min(8, Math.hypot(x, y)); // as far as its slider
        values.angle = ((Math.atan2(y, x) * 180) / Math.PI + 360) % 360;
      } }],
  shown: (_, name, value) => (name === "angle" ? value.toFixed(0) : value.toFixed(1)),
  choices: ["dot", "scaled dot", "cosine"],
  rows({ keys }, { angle, length }, choice) {
    const query = touch.rotate([length, 0], (angle * Math.PI) / 180);
    const norm = (v) => Math.hypot(...v);
    const scores = keys.map((key) => {
      const product = touch.dot(query, key);
      if (choice === "dot") return product;
      if (choice === "scaled dot") return product / Math.sqrt(key.length);
      return product / Math.max(norm(query) * norm(key), 1e-8);
    });
    const weights = touch.softmax(scores), largest = Math.max(...weights);
    const two = (x) => x.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
    return { labels: keys.map((key, s) => `key ${s + 1} (${key.join(", ")}), score ${two(scores[s])}`),
             weights,
             says: `The query is (${query.map(two).join(", ")}). The largest weight, ` +
                   `${two(largest)}, is on key ${weights.indexOf(largest) + 1}.` };
  },
};

// A plane from -8 to 8. Its points, each with name, kind, place() and move(x, y), can be
// dragged, or moved by arrow keys.
touch.plane = (points, changed) => {
  const { make } = touch;
  const svg = make("svg", { viewBox: "-8.5 -8.5 17 17", role: "group", "aria-label": "The plane" },
    ...[-8, -6, -4, -2, 0, 2, 4, 6, 8].flatMap((at) => [
      make("line", { x1: at, x2: at, y1: -9, y2: 9, class: at ? "" : "axis" }),
      make("line", { y1: at, y2: at, x1: -9, x2: 9, class: at ? "" : "axis" })]));
  const drawn = points.map((point) => {
    const arrow = make("line", { x1: 0, y1: 0, class: "arrow" });
    const dot = make("g", { tabindex: "0", role: "button", class: point.kind },
      make("circle", { r: 1.2, class: "reach" }), // for a finger
      make("circle", { r: 0.45 }), make("text", { x: 0.6, y: -0.5 }, point.name));
    const to = (x, y) => {
      point.move(...[x, y].map((z) => Math.max(-8, Math.min(8, Math.round(z * 10) / 10))));
      changed();
    };
    // or a finger would scroll the page
    dot.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    dot.onpointerdown = (event) => dot.setPointerCapture(event.pointerId);
    dot.onpointermove = (event) => {
      if (!dot.hasPointerCapture(event.pointerId)) return;
      const at = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      to(at.x, -at.y);
    };
    dot.onkeydown = (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1],
                    ArrowDown: [0, -1] }[event.key];
      if (!way) return;
      event.preventDefault();
      const [x, y] = point.place();
      to(x + way[0] / 2, y + way[1] / 2);
    };
    svg.append(arrow, dot);
    return { arrow, dot };
  });
  const draw = () => drawn.forEach(({ arrow, dot }, i) => {
    const [x, y] = points[i].place();
    arrow.setAttribute("x2", x);
    arrow.setAttribute("y2", -y);
    dot.setAttribute("transform", `translate(${x} ${-y})`);
    dot.setAttribute("aria-label",
      `${points[i].name} at (${x.toFixed(1)}, ${y.toFixed(1)}); arrow keys move it`);
  });
  return { svg, draw };
};
