// A query and a key, each rotated by its position.
"use strict";

touch.kinds.rotary = {
  sliders: ({ longest }) => [
    ["t", "position t of the query", 0, longest, 1, 3],
    ["s", "position s of the key", 0, longest, 1, 1]],
  rows({ query, key, angles }, { t, s }) {
    const pairs = angles.map((angle, i) => {
      const q = touch.rotate(query.slice(2 * i, 2 * i + 2), (t * angle * Math.PI) / 180);
      const k = touch.rotate(key.slice(2 * i, 2 * i + 2), (s * angle * Math.PI) / 180);
      return touch.dot(q, k);
    });
    const score = pairs.reduce((a, b) => a + b, 0);
    // at most, when the two point the same way
    const largest = Math.max(...angles.map((_, i) =>
      Math.hypot(...query.slice(2 * i, 2 * i + 2)) * Math.hypot(...key.slice(2 * i, 2 * i + 2))));
    return { largest, labels: angles.map((angle, i) => `plane ${i + 1}, turned by ${angle}° per position`),
             numbers: pairs, score,
             says: `The distance t − s is ${t - s}, and the score is ${score.toFixed(3)}.` };
  },
};
