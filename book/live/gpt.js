/* A small GPT-2 in a page: byte-pair pieces, one step with a cache, and sampling.
 *
 * The same lines as `TransformerLM` of the package with the parts of `models.gpt2`.
 * The maps, norms and heads are those of transformer.js.
 */
"use strict";

const gpt = {
  // Bytes that are no visible characters stand in the vocabulary as others, as in GPT-2.
  bytes: (() => {
    const visible = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    let next = 256;
    return Array.from({ length: 256 }, (_, b) => String.fromCharCode(visible(b) ? b : next++));
  })(),

  // Cut a text into pieces: words first, then merges in the order in which they were learned.
  encode({ pieces, merges }, text) {
    const rank = new Map(merges.map((pair, i) => [pair, i]));
    const ids = new Map(pieces.map((piece, i) => [piece, i]));
    const found = [];
    const words = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
    for (const word of text.match(words) || []) {
      let parts = [...new TextEncoder().encode(word)].map((b) => gpt.bytes[b]);
      for (;;) {
        let best = -1;
        for (let i = 0; i + 1 < parts.length; i++) {
          const here = rank.get(`${parts[i]} ${parts[i + 1]}`);
          if (here !== undefined && (best < 0 || here < rank.get(`${parts[best]} ${parts[best + 1]}`)))
            best = i;
        }
        if (best < 0) break;
        const pair = [parts[best], parts[best + 1]];
        const merged = [];
        for (let i = 0; i < parts.length; i++)
          if (parts[i] === pair[0] && parts[i + 1] === pair[1]) merged.push(pair[0] + parts[++i]);
          else merged.push(parts[i]);
        parts = merged;
      }
      found.push(...parts.map((part) => ids.get(part)));
    }
    return found;
  },

  decode({ pieces, special }, tokens) {
    const text = tokens.filter((id) => id >= special).map((id) => pieces[id]).join("");
    const codes = [...text].map((c) => gpt.bytes.indexOf(c));
    return new TextDecoder().decode(new Uint8Array(codes));
  },

  gelu: (z) => (z / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3))),

  // Read one more token; `cache[l]` grows by its key and its value.
  step({ p, layers, heads }, token, cache) {
    const { add, map, norm, remember, ask } = transformer;
    let x = add(p["embedding.table.weight"][token],
                p["embedding.positions.table.weight"][cache[0].length]);
    for (let l = 0; l < layers; l++) {
      const block = `blocks.${l}`;
      let read = norm(p, `${block}.around_self.norm`, x);
      cache[l].push(remember(p, `${block}.self_attention`, read));
      x = add(x, ask(p, `${block}.self_attention`, heads, read, cache[l], new Set()).context);
      read = norm(p, `${block}.around_feed_forward.norm`, x);
      const hidden = map(p, `${block}.feed_forward.0`, read).map(gpt.gelu);
      x = add(x, map(p, `${block}.feed_forward.2`, hidden));
    }
    return attention.linear(p["embedding.table.weight"], norm(p, "norm", x)); // a tied table
  },

  // The logits after each of the tokens.
  read(model, tokens) {
    const cache = Array.from({ length: model.layers }, () => []);
    return { cache, logits: tokens.map((token) => gpt.step(model, token, cache)) };
  },

  // Probabilities of the next token: a temperature, then the k most probable, then the nucleus.
  probabilities(logits, { tau = 1, k = logits.length, p = 1 }) {
    const order = logits.map((_, i) => i).sort((a, b) => logits[b] - logits[a]);
    const first = attention.softmax(logits.map((z) => z / tau));
    const kept = new Set(order.slice(0, k));
    const total = [...kept].reduce((sum, i) => sum + first[i], 0);
    let before = 0;
    for (const i of order.slice(0, k)) {
      if (before >= p * total - 1e-9) kept.delete(i);
      before += first[i];
    }
    const rest = [...kept].reduce((sum, i) => sum + first[i], 0);
    return first.map((q, i) => (kept.has(i) ? q / rest : 0));
  },

  // The token at which the sum of the probabilities passes a random number from 0 to 1.
  sample(probabilities, random) {
    let sum = 0;
    for (let i = 0; i < probabilities.length; i++) {
      sum += probabilities[i];
      if (random < sum) return i;
    }
    return probabilities.lastIndexOf(Math.max(...probabilities));
  },

  // The figure: a prompt, three sliders, the next token's bars, and a text that grows.
  start(place, number) {
    const { element } = live;
    const settings = { tau: 1, k: 0, p: 1 };
    let tokens = [], written = 0, run = 0; // each press of a button ends the run before
    const id = `writer-${number}`;
    const prompt = element("textarea", { id, rows: "2", spellcheck: "false" }, place.dataset.example);
    const text = element("p", { class: "writer-text", tabindex: "0" });
    const said = element("p", { role: "status" }, "Press a button, or change the text.");
    const bars = element("tbody");
    const slider = (name, label, min, max, step, value, shown = String) => {
      settings[name] = value;
      const input = element("input", { id: `${id}-${name}`, type: "range", min, max, step, value });
      const output = element("output", { for: input.id }, shown(value));
      input.setAttribute("aria-valuetext", shown(value));
      input.oninput = () => {
        settings[name] = Number(input.value);
        output.textContent = shown(input.value);
        input.setAttribute("aria-valuetext", output.textContent);
        show();
      };
      return element("p", {}, element("label", { for: input.id }, label), input, output);
    };
    const button = (label, act) => {
      const made = element("button", { type: "button" }, label);
      made.onclick = act;
      return made;
    };
    const all = 64;
    place.replaceChildren(
      element("label", { for: id }, place.dataset.label), prompt,
      slider("tau", "temperature τ", 0.1, 2, 0.1, 1),
      slider("k", "top-k: the k most probable", 1, all, 1, all, (k) => (Number(k) === all ? "all" : k)),
      slider("p", "top-p: the nucleus of p", 0.05, 1, 0.05, 1),
      element("p", { class: "live-examples" },
        button("Draw the next token", () => write(1, ++run)), " ",
        button("Write 40 tokens", () => write(40, ++run)), " ",
        button("Stop", () => { run++; }), " ",
        button("Start again", () => restart())),
      text, said, element("table", {}, bars));

    const ready = (then) => live.load(place.dataset.model, (model) => {
      if (!tokens.length) tokens = [model.bos, ...gpt.encode(model, prompt.value.slice(0, 1000))];
      then(model);
    });
    const restart = () => { run++; tokens = []; written = 0; show(); };
    const next = (model) => {
      // a text that fills the window goes on from its last half
      const window = tokens.length < model.window ? tokens : tokens.slice(-model.window / 2);
      const { logits } = gpt.read(model, window);
      const asked = { ...settings, k: settings.k === all ? undefined : settings.k };
      const banned = logits[logits.length - 1].map((z, i) => // it does not say what is no text
        i < model.special && i !== model.eos ? -1e9 : z);
      return gpt.probabilities(banned, asked);
    };
    // While it writes, a screen reader is told nothing.
    const show = (quiet) => ready((model) => {
      const probabilities = next(model);
      const possible = probabilities.filter((q) => q > 0).length;
      const order = probabilities.map((_, i) => i).sort((a, b) => probabilities[b] - probabilities[a]);
      const name = (i) => (i === model.eos ? "(end of the text)" : gpt.decode(model, [i]).replace(/ /g, "␣").replace(/\n/g, "⏎"));
      bars.replaceChildren(...order.slice(0, Math.min(8, possible)).map((i) => element("tr", {},
        element("th", { scope: "row" }, name(i)),
        element("td", {}, probabilities[i].toFixed(3)),
        element("td", { class: "bar" }, element("span", { style: `width: ${100 * probabilities[i]}%` })))));
      const start = tokens.length - written;
      text.replaceChildren(gpt.decode(model, tokens.slice(0, start)),
        element("mark", {}, gpt.decode(model, tokens.slice(start))));
      if (quiet === true) return;
      said.textContent = `${possible} ${possible > 1 ? "tokens" : "token"} can come next; the most probable first:` +
        (prompt.value.length > 1000 ? " Only the first 1,000 characters of your text were read." : "");
    });
    const write = (left, mine) => ready((model) => {
      if (mine !== run) return;
      const token = gpt.sample(next(model), Math.random());
      tokens.push(token);
      written += 1;
      show(left > 1 && token !== model.eos);
      if (left > 1 && token !== model.eos) setTimeout(() => write(left - 1, mine), 0);
    });
    prompt.oninput = restart;
    prompt.onfocus = show;
  },
};

if (typeof document !== "undefined")
  document.addEventListener("DOMContentLoaded", () =>
    document.querySelectorAll("div.writer").forEach(gpt.start));
