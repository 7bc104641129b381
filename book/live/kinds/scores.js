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
        values.length = Math.hypot(x, y);
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
    return { labels: keys.map((key, s) => `key ${s + 1} (${key.join(", ")}), score ${scores[s].toFixed(2)}`),
             weights: touch.softmax(scores),
             says: `The query is (${query.map((x) => x.toFixed(2)).join(", ")}).` };
  },
};
