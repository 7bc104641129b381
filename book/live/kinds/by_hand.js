// Weights that the reader sets, and what the model answers with them.
"use strict";

touch.kinds.by_hand = {
  choices: ({ models }) => Object.keys(models),
  sliders: ({ words }) => [
    ["word", "word that gets more", 1, words.length, 1, 1],
    ["share", "share of the weight that it gets", 0, 1, 0.05, 0.5]],
  shown: ({ words }, name, value) => (name === "word" ? `${words[value - 1]} (${value})` : value.toFixed(2)),
  // What the answer's logit leads by, for weights over the words.
  lead({ values, bias, out, out_bias, tanh }, weights) {
    const sums = bias.map((b, d) => b + touch.dot(weights, values.map((row) => row[d])));
    return touch.dot(sums.map((x) => (tanh ? Math.tanh(x) : x)), out) + out_bias;
  },
  rows({ words, models, answers }, { word, share }, choice) {
    const model = models[choice], { lead } = touch.kinds.by_hand;
    const weights = model.weights.map((w, s) => (1 - share) * w + (s === word - 1 ? share : 0));
    const sure = (w) => 1 / (1 + Math.exp(-lead(model, w)));
    const [own, now] = [sure(model.weights), sure(weights)];
    const moved = touch.dot(weights.map((w, s) => Math.abs(w - model.weights[s])), words.map(() => 0.5));
    return {
      labels: words.map((name, s) => `${s + 1}  ${name}`), weights, probability: now,
      says: `The probability of “${answers[1]}” is ${now.toFixed(3)}; with the model's own weights ` +
            `it is ${own.toFixed(3)}. You have moved ${(100 * moved).toFixed(0)} % of the weight, and ` +
            `the answer ${now > 0.5 === own > 0.5 ? "is the same" : "has changed"}.`,
    };
  },
};
