// A query on a line asks keys on that line: a Gaussian kernel, then the mixture.
"use strict";

touch.kinds.kernel = {
  sliders: ({ keys }) => [
    ["x", "query x", Math.min(...keys), Math.max(...keys), 0.1, keys[Math.floor(keys.length / 2)]],
    ["width", "bandwidth ρ", 0.1, 5, 0.1, 1]],
  rows({ keys, values }, { x, width }) {
    const weights = touch.softmax(keys.map((key) => -(((x - key) / width) ** 2) / 2));
    const context = touch.mix(weights, values);
    return { labels: keys.map((k, s) => `key ${k}, value ${values[s]}`), weights,
             says: `The context is ${context.toFixed(2)}.`, context };
  },
};
