// What a layer multiplies, and what is kept, in numbers of four bytes.
"use strict";

touch.kinds.cost = {
  sliders: () => [
    ["t", "length T = S", 5, 15, 1, 9], ["d", "width D", 6, 13, 1, 6],
    ["h", "heads H", 0, 6, 1, 1], ["b", "batch B", 0, 7, 1, 1], ["layers", "layers L", 1, 48, 1, 6]],
  shown: (_, name, value) =>
    (name === "layers" ? String(value) : (2 ** value).toLocaleString("en")),
  rows(_, { t, d, h, b, layers }) {
    const [T, D, H, B] = [t, d, h, b].map((power) => 2 ** power);
    const parts = {
      "attention, its four maps: 4 B T D²": 4 * B * T * D * D,
      "attention, scores and contexts: 2 B T² D": 2 * B * T * T * D,
      "feed-forward network: 8 B T D²": 8 * B * T * D * D,
      "GRU: 6 B T D²": 6 * B * T * D * D,
    };
    const numbers = Object.values(parts);
    const round = (n) => Number(n.toPrecision(3)).toLocaleString("en");
    const weights = (4 * B * H * T * T) / 2 ** 20;
    const cache = (4 * 2 * B * layers * T * D) / 2 ** 20;
    return {
      labels: Object.keys(parts), numbers, weights_mib: weights, cache_mib: cache,
      texts: numbers.map((n) => (n < 1e10 ? `${round(n / 1e6)} million` : `${round(n / 1e9)} billion`)),
      says: `The weights of one layer, B H T² numbers, take ${round(weights)} MiB. The keys and ` +
            `values of ${layers} ${layers > 1 ? "layers" : "layer"}, 2 B L T D numbers, take ${round(cache)} MiB.`,
    };
  },
};
