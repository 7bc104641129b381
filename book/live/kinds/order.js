// Self-attention over the same words in another order, with or without positions.
"use strict";

touch.kinds.order = {
  orders({ words }) {
    const all = [[]];
    for (const _ of words)
      all.push(...all.splice(0).flatMap((some) =>
        words.map((__, i) => i).filter((i) => !some.includes(i)).map((i) => [...some, i])));
    return all;
  },
  sliders: ({ words }) => [["order", "order of the words", 1,
    touch.kinds.order.orders({ words }).length, 1, 1]],
  shown: (numbers, _, value) =>
    touch.kinds.order.orders(numbers)[value - 1].map((i) => numbers.words[i]).join(" "),
  choices: ["without positions", "with positions"],
  outputs({ vectors, positions, query, key, value }, order, choice) {
    const x = order.map((i, t) =>
      vectors[i].map((number, d) => number + (choice === "with positions" ? positions[t][d] : 0)));
    const by = (matrix) => x.map((row) => matrix.map((line) => touch.dot(line, row)));
    const [q, k, v] = [query, key, value].map(by);
    const found = [];
    order.forEach((i, t) => {
      const scores = k.map((row) => touch.dot(q[t], row) / Math.sqrt(row.length));
      const weights = touch.softmax(scores);
      found[i] = v[0].map((_, d) => touch.dot(weights, v.map((row) => row[d])));
    });
    return found; // by word, not by place
  },
  rows(numbers, { order }, choice) {
    const { orders, outputs } = touch.kinds.order;
    const all = orders(numbers);
    const [before, after] = [all[0], all[order - 1]].map((one) => outputs(numbers, one, choice));
    const changes = numbers.words.map((_, i) =>
      Math.max(...before[i].map((number, d) => Math.abs(number - after[i][d]))));
    const written = (vector) => `(${vector.map((x) => x.toFixed(2)).join(", ")})`;
    return {
      outputs: after,
      labels: numbers.words.map((word, i) => `${word}: output ${written(after[i])}, changed by`),
      numbers: changes,
      says: order === 1 ? "This is the order of the sentence above."
        : Math.max(...changes) < 1e-9 ? "Each word has the same output as before."
        : "The outputs have changed.",
    };
  },
};
