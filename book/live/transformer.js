/* A Transformer in a page: the encoder reads, the decoder writes with a cache.
 *
 * The same lines as `TransformerEncoder` and `TransformerDecoder` of the package with
 * pre-norm blocks, for one sequence instead of a batch. `p` holds the parameters under
 * the names that PyTorch gives them. A head whose name is in `muted` returns zeros.
 */
"use strict";

const transformer = {
  // An embedding times the root of its width, plus sines and cosines of the position.
  embed(p, name, id, position) {
    const row = p[`${name}.embedding.table.weight`][id];
    return row.map((x, i) => {
      const angle = position / 10000 ** ((i - (i % 2)) / row.length);
      return x * Math.sqrt(row.length) + (i % 2 ? Math.cos(angle) : Math.sin(angle));
    });
  },

  map: (p, name, x) => attention.linear(p[`${name}.weight`], x, p[`${name}.bias`]),

  add: (a, b) => a.map((x, i) => x + b[i]),

  norm(p, name, x) {
    const mean = x.reduce((a, b) => a + b) / x.length;
    const variance = x.reduce((sum, a) => sum + (a - mean) ** 2, 0) / x.length;
    return x.map((a, i) =>
      ((a - mean) / Math.sqrt(variance + 1e-5)) * p[`${name}.weight`][i] + p[`${name}.bias`][i]);
  },

  feedForward(p, name, x) {
    const hidden = transformer.map(p, `${name}.inner`, x).map((z) => Math.max(0, z));
    return transformer.map(p, `${name}.outer`, hidden);
  },

  // What a position is found by and what it hands out, one key and one value.
  remember: (p, name, x) => ({
    key: transformer.map(p, `${name}.key_proj`, x),
    value: transformer.map(p, `${name}.value_proj`, x),
  }),

  // One query asks all positions of the memory, once per head.
  ask(p, name, heads, x, memory, muted) {
    const query = transformer.map(p, `${name}.query_proj`, x);
    const width = query.length / heads;
    const slice = (v, h) => v.slice(h * width, (h + 1) * width);
    const context = [], weights = [];
    for (let h = 0; h < heads; h++) {
      const q = slice(query, h);
      const scores = memory.map(({ key }) => attention.dot(q, slice(key, h)) / Math.sqrt(width));
      weights.push(attention.softmax(scores));
      for (let i = h * width; i < (h + 1) * width; i++)
        context.push(muted.has(`${name} ${h}`) ? 0
          : memory.reduce((sum, { value }, s) => sum + weights[h][s] * value[i], 0));
    }
    return { context: transformer.map(p, `${name}.output_proj`, context), weights };
  },

  // Returns the top layer's states, and weights[layer][head][t][s].
  encode(p, { layers, heads }, source, muted) {
    const weights = [];
    let states = source.map((id, s) => transformer.embed(p, "encoder", id, s));
    for (let l = 0; l < layers; l++) {
      const block = `encoder.blocks.${l}`;
      const read = states.map((x) => transformer.norm(p, `${block}.around_self.norm`, x));
      const memory = read.map((x) => transformer.remember(p, `${block}.self_attention`, x));
      const asked = read.map((x) =>
        transformer.ask(p, `${block}.self_attention`, heads, x, memory, muted));
      weights.push(Array.from({ length: heads }, (_, h) => asked.map((a) => a.weights[h])));
      states = states.map((x, s) => {
        const y = transformer.add(x, asked[s].context);
        const normed = transformer.norm(p, `${block}.around_feed_forward.norm`, y);
        return transformer.add(y, transformer.feedForward(p, `${block}.feed_forward`, normed));
      });
    }
    return { states: states.map((x) => transformer.norm(p, "encoder.norm", x)), weights };
  },

  // Read one more token of the target; `cache[l]` grows by its key and its value.
  step(p, { layers, heads }, memory, token, cache, muted) {
    const weights = { self: [], cross: [] };
    let x = transformer.embed(p, "decoder", token, cache[0].length);
    for (let l = 0; l < layers; l++) {
      const block = `decoder.blocks.${l}`;
      let read = transformer.norm(p, `${block}.around_self.norm`, x);
      cache[l].push(transformer.remember(p, `${block}.self_attention`, read));
      const own = transformer.ask(p, `${block}.self_attention`, heads, read, cache[l], muted);
      x = transformer.add(x, own.context);
      read = transformer.norm(p, `${block}.around_cross.norm`, x);
      const other = transformer.ask(p, `${block}.cross_attention`, heads, read, memory[l], muted);
      x = transformer.add(x, other.context);
      read = transformer.norm(p, `${block}.around_feed_forward.norm`, x);
      x = transformer.add(x, transformer.feedForward(p, `${block}.feed_forward`, read));
      weights.self.push(own.weights);
      weights.cross.push(other.weights);
    }
    const logits = transformer.map(p, "decoder.head", transformer.norm(p, "decoder.norm", x));
    return { logits, weights };
  },

  greedy(p, source, model, muted = new Set()) {
    const encoded = transformer.encode(p, model, source, muted);
    const range = Array.from({ length: model.layers }, (_, l) => l);
    const memory = range.map((l) => encoded.states.map((x) =>
      transformer.remember(p, `decoder.blocks.${l}.cross_attention`, x)));
    const cache = range.map(() => []);
    const found = [];
    let token = model.bos;
    while (found.length < model.steps) {
      const now = transformer.step(p, model, memory, token, cache, muted);
      token = now.logits.indexOf(Math.max(...now.logits));
      if (token === model.eos) break;
      found.push({ token, weights: now.weights });
    }
    return { found, encoder: encoded.weights };
  },
};

if (typeof module !== "undefined") module.exports = transformer;
