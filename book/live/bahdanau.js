/* Bahdanau's model in a page: it encodes a sequence, then decodes it step by step.
 *
 * The same lines as `RNNEncoder` and `BahdanauDecoder` of the package, for one sequence
 * instead of a batch. `p` holds the parameters under the names that PyTorch gives them:
 * a matrix is a list of rows, a bias is a list of numbers.
 */
"use strict";

const attention = {
  dot: (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0),

  linear: (weight, x, bias) =>
    weight.map((row, i) => attention.dot(row, x) + (bias ? bias[i] : 0)),

  softmax(scores) {
    const largest = Math.max(...scores);
    if (largest === -Infinity) return scores.map(() => 0); // nothing may be attended to
    const terms = scores.map((score) => Math.exp(score - largest));
    const total = terms.reduce((a, b) => a + b);
    return terms.map((term) => term / total);
  },

  // One step of a GRU; PyTorch stacks the rows of the reset, update and new gates.
  gru(p, name, suffix, x, h) {
    const sigmoid = (z) => 1 / (1 + Math.exp(-z));
    const of = (part) => p[`${name}.${part}${suffix}`];
    const fromX = attention.linear(of("weight_ih"), x, of("bias_ih"));
    const fromH = attention.linear(of("weight_hh"), h, of("bias_hh"));
    const D = h.length;
    return h.map((old, i) => {
      const reset = sigmoid(fromX[i] + fromH[i]);
      const update = sigmoid(fromX[D + i] + fromH[D + i]);
      const proposal = Math.tanh(fromX[2 * D + i] + reset * fromH[2 * D + i]);
      return (1 - update) * proposal + update * old;
    });
  },

  // Read the source in both directions; keep a key and a value for each position.
  encode(p, source) {
    const embedded = source.map((id) => p["encoder.embedding.weight"][id]);
    const read = (direction, inputs) => {
      const name = `encoder.layers.${direction}.0`;
      let h = p[`${name}.weight_hh_l0`][0].map(() => 0);
      return inputs.map((x) => (h = attention.gru(p, name, "_l0", x, h)));
    };
    const forwards = read("forwards", embedded);
    const backwards = read("backwards", embedded.slice().reverse()).reverse();
    const values = forwards.map((h, s) => [...h, ...backwards[s]]);
    const last = [...forwards[forwards.length - 1], ...backwards[0]];
    const bridge = attention.linear(p["decoder.bridge.weight"], last, p["decoder.bridge.bias"]);
    return {
      values,
      keys: values.map((v) => attention.linear(p["decoder.score.key_proj.weight"], v)),
      state: bridge.map(Math.tanh),
    };
  },

  // Ask with the old state, mix the values, update, predict.
  step(p, memory, token, state, forbidden) {
    const query = attention.linear(p["decoder.score.query_proj.weight"], state);
    const scores = memory.keys.map((key, s) =>
      forbidden.has(s)
        ? -Infinity
        : attention.dot(p["decoder.score.energy_proj.weight"][0],
                        key.map((k, i) => Math.tanh(query[i] + k))));
    const weights = attention.softmax(scores);
    const context = memory.values[0].map((_, i) =>
      weights.reduce((sum, w, s) => sum + w * memory.values[s][i], 0));
    const embedded = p["decoder.embedding.weight"][token];
    const next = attention.gru(p, "decoder.rnn", "", [...embedded, ...context], state);
    const features = [...next, ...context, ...embedded];
    const logits = attention.linear(p["decoder.head.weight"], features, p["decoder.head.bias"]);
    return { logits, weights, state: next };
  },

  // Take the most probable token at every step, until the end-of-sequence token.
  greedy(p, source, { bos, eos, steps, forbidden = new Set() }) {
    const memory = attention.encode(p, source);
    const found = [];
    let token = bos, state = memory.state;
    while (found.length < steps) {
      const now = attention.step(p, memory, token, state, forbidden);
      token = now.logits.indexOf(Math.max(...now.logits));
      if (token === eos) break;
      state = now.state;
      found.push({ token, weights: now.weights });
    }
    return found;
  },
};

if (typeof module !== "undefined") module.exports = attention;
