// What a token is drawn from.
"use strict";

touch.kinds.sampling = {
  sliders: ({ logits }) => [
    ["tau", "temperature τ", 0.1, 3, 0.1, 1],
    ["k", "top-k: keep the k most probable", 1, logits.length, 1, logits.length],
    ["p", "top-p: keep probability p", 0.05, 1, 0.05, 1]],
  rows({ tokens, logits }, { tau, k, p }) {
    const order = logits.map((_, i) => i).sort((a, b) => logits[b] - logits[a]);
    const first = touch.softmax(logits.map((z, i) =>
      order.indexOf(i) < k ? z / tau : -Infinity));
    let before = 0;
    const kept = new Set(order.filter((i) => {
      const keep = first[i] > 0 && before < p - 1e-9;
      before += first[i];
      return keep;
    }));
    const weights = touch.softmax(logits.map((z, i) => (kept.has(i) ? z / tau : -Infinity)));
    const nats = weights.reduce((h, w) => h - (w ? w * Math.log(w) : 0), 0);
    return { labels: tokens, weights,
             says: `${kept.size} of ${tokens.length} tokens can be drawn; the entropy is ` +
                   `${nats.toFixed(2)} nats.` };
  },
};
