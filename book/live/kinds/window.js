// Luong's local attention on one row of scores: a window, then a bell.
"use strict";

touch.kinds.window = {
  sliders: ({ scores, half_width }) => [
    ["p", "predicted position pₜ", 0, scores.length - 1, 0.1, Math.floor(scores.length / 2)],
    ["w", "half-width w", 1, Math.max(scores.length - 1, 2), 1, half_width]],
  choices: ["window and bell (local-p)", "window alone", "global"],
  rows({ tokens, scores }, { p, w }, choice) {
    const seen = scores.map((score, s) =>
      choice === "global" || Math.abs(s - p) <= w ? score : -Infinity);
    const bell = (s) =>
      choice.endsWith("(local-p)") ? Math.exp(-(((s - p) / (w / 2)) ** 2) / 2) : 1;
    const weights = touch.softmax(seen).map((weight, s) => weight * bell(s));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { labels: tokens.map((token, s) => `${s}  ${token}`), weights,
             says: `The weights sum to ${sum.toFixed(2)}, and ` +
                   `${weights.filter((w) => w > 0).length} of them are not zero.` };
  },
};
