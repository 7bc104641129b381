// The softmax that reads its scores once.
"use strict";

touch.kinds.running = {
  sliders: ({ scores }) => [["read", "scores read so far", 1, scores.length, 1, 1]],
  rows({ scores, values }, { read }) {
    let m = -Infinity, l = 0, o = 0;
    for (let s = 0; s < read; s++) {
      const larger = Math.max(m, scores[s]);
      const shrink = Math.exp(m - larger), term = Math.exp(scores[s] - larger);
      [m, l, o] = [larger, l * shrink + term, o * shrink + term * values[s]];
    }
    const weights = touch.softmax(scores.map((e, s) => (s < read ? e : -Infinity)));
    return { labels: scores.map((e, s) => `score ${e}, value ${values[s]}`), weights, state: [m, l, o],
             says: `m = ${m}, l = ${l.toFixed(2)}, o = ${o.toFixed(2)}; ` +
                   `the context so far is o / l = ${(o / l).toFixed(2)}.` };
  },
};
