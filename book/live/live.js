/* What a page needs to let its reader try a model: see `attention_course.live`.
 *
 * A page names a model with <div class="live" data-model="NAME">. The model's weights
 * are a script, models/NAME.js, which is loaded when the reader first touches
 * the figure.
 */
"use strict";

const live = {
  models: {},
  folder: document.currentScript.src.replace(/[^/]*$/, ""),

  // 16 bits: sign, five bits of exponent, ten of fraction.
  half(bits) {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024);
    return bits >> 15 ? -size : size;
  },

  // Called by NAME.js: turn codes back into numbers, of 8 bits and a scale per row or of 16.
  model(name, packed) {
    const p = {};
    for (const [key, { shape, scales, codes }] of Object.entries(packed.parameters)) {
      const bytes = atob(codes);
      const width = shape[shape.length - 1];
      const number = scales
        ? (i, j) => ((bytes.charCodeAt(i * width + j) << 24) >> 24) * scales[i]
        : (i, j) => live.half(bytes.charCodeAt(2 * (i * width + j)) |
                              (bytes.charCodeAt(2 * (i * width + j) + 1) << 8));
      const rows = Array.from({ length: shape.length === 1 ? 1 : shape[0] }, (_, i) =>
        Array.from({ length: width }, (_, j) => number(i, j)));
      p[key] = shape.length === 1 ? rows[0] : rows;
    }
    live.models[name] = { ...packed, p };
  },

  load(name, ready) {
    if (live.models[name]) return ready(live.models[name]);
    const script = document.createElement("script");
    script.src = `${live.folder}models/${name}.js`;
    script.onload = () => ready(live.models[name]);
    document.head.append(script);
  },

  // For each kind of model: what it writes, and the maps that a reader may look at.
  engines: {
    bahdanau(model, ids, forbidden) {
      const found = attention.greedy(model.p, ids, { ...model, forbidden });
      return { tokens: found.map(({ token }) => token),
               maps: { attention: { heads: [found.map(({ weights }) => weights)] } } };
    },

    transformer(model, ids, forbidden, muted) {
      const { found, encoder } = transformer.greedy(model.p, ids, model, muted);
      const range = (n) => Array.from({ length: n }, (_, i) => i);
      const maps = {};
      for (const l of range(model.layers))
        for (const [label, part] of [["decoder to source", "cross"], ["decoder to itself", "self"]])
          maps[`${label}, layer ${l + 1}`] = {
            name: `decoder.blocks.${l}.${part}_attention`,
            own: part === "self",
            heads: range(model.heads).map((h) => found.map(({ weights }) => weights[part][l][h])),
          };
      for (const l of range(model.layers))
        maps[`encoder to itself, layer ${l + 1}`] = {
          name: `encoder.blocks.${l}.self_attention`, encoder: true, heads: encoder[l] };
      return { tokens: found.map(({ token }) => token), maps };
    },
  },

  element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children); // text is text: whatever the reader types is not markup
    return made;
  },

  start(place, number) {
    const { element } = live;
    const forbidden = new Set(), muted = new Set();
    const input = element("input", { id: `live-${number}`, type: "text", value: place.dataset.example,
                                     autocomplete: "off", spellcheck: "false" });
    const said = element("p", { class: "live-said", role: "status" }, "Select an example, or type.");
    const frame = element("div", { class: "live-map", tabindex: "0", role: "region",
                                   "aria-label": "Map of the weights" });
    const hint = element("p", { class: "live-examples" });
    const examples = element("p", { class: "live-examples" });
    const again = element("button", { type: "button" });
    const which = element("select", { "aria-label": "Which map" });
    const head = element("select", { "aria-label": "Which head" });
    const mute = element("button", { type: "button", "aria-pressed": "false" }, "Mute this head");
    const choices = element("p", { class: "live-choices" }, which, " ", head, " ", mute);
    choices.hidden = again.hidden = true;
    place.replaceChildren(
      element("label", { for: input.id }, place.dataset.label), input, examples, said, choices, hint, frame, again);

    const show = () => live.load(place.dataset.model, (model) => {
      const read = model.words ? input.value.toLowerCase().match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) || [] : [...input.value];
      const unknown = [...new Set(read)].filter((c) => !model.source.includes(c));
      const things = model.words ? "words" : "characters";
      const trouble =
        !read.length ? "Type something for the model to read."
        : read.length > model.longest
        ? `The model reads at most ${model.longest} ${things}, and this is ${read.length}.`
        : "";
      again.hidden = !forbidden.size && !muted.size;
      again.textContent = model.heads ? "Let all heads speak again" : "Allow all characters again";
      choices.hidden = !model.heads || Boolean(trouble);
      if (trouble) {
        said.textContent = trouble;
        frame.replaceChildren();
        hint.textContent = "";
        return;
      }
      const ids = read.map((c) => Math.max(model.source.indexOf(c), model.unknown));
      const { tokens, maps } = live.engines[model.kind](model, ids, forbidden, muted);
      const written = tokens.map((token) => model.target[token]);
      said.textContent = `The model writes ${written.join(model.words ? " " : "") || "nothing"}.` +
        (muted.size ? ` ${muted.size} of its heads ${muted.size > 1 ? "are" : "is"} muted.` : "") +
        (forbidden.size ? ` It may not look at ${forbidden.size} of the characters.` : "") +
        (unknown.length ? ` It has never seen ${unknown.map((c) => `“${c}”`).join(", ")}.` : "") +
        (forbidden.size === read.length ? " It may look at nothing." : "");
      if (!which.options.length && model.heads) {
        which.append(...Object.keys(maps).map((name) => element("option", {}, name)));
        head.append(...Array.from({ length: model.heads }, (_, h) =>
          element("option", { value: h }, `head ${h + 1}`)));
      }
      const shown = maps[model.heads ? which.value : "attention"];
      const h = Number(head.value || 0);
      mute.setAttribute("aria-pressed", String(muted.has(`${shown.name} ${h}`)));
      mute.onclick = () => {
        const name = `${shown.name} ${h}`;
        muted.has(name) ? muted.delete(name) : muted.add(name);
        show();
      };
      hint.textContent = "Weights in percent: a row asks, a column is asked." +
        (model.heads ? "" : " Select a character to forbid it.");
      const columns = shown.own ? ["(start)", ...written.slice(0, -1)] : read;
      frame.replaceChildren(map(columns, shown.encoder ? read : written, shown.heads[h], model));
    });

    // A row per token that asks, a column per token that is asked.
    function map(columns, rows, weights, model) {
      const heads = columns.map((c, s) => {
        if (model.heads) return element("th", { scope: "col", class: "word" }, c);
        const button = element("button", { type: "button", "aria-pressed": String(forbidden.has(s)),
          "aria-label": `Forbid character ${s + 1}, ${c === " " ? "space" : c}` }, c === " " ? "␣" : c);
        button.onclick = () => {
          forbidden.has(s) ? forbidden.delete(s) : forbidden.add(s);
          show();
          frame.querySelectorAll("thead button")[s].focus();
        };
        return element("th", { scope: "col" }, button);
      });
      const cell = (w) => element("td", { style: `--weight: ${(w || 0).toFixed(3)}` },
                                  w >= 0.095 ? String(Math.round(100 * w)) : "");
      return element("table", {},
        element("thead", {}, element("tr", {}, element("td"), ...heads)),
        element("tbody", {}, ...rows.map((name, t) =>
          element("tr", {}, element("th", { scope: "row" }, name),
            ...columns.map((_, s) => cell(weights[t][s]))))));
    }

    const restart = () => { forbidden.clear(); muted.clear(); show(); };
    for (const text of JSON.parse(place.dataset.examples)) {
      const button = element("button", { type: "button" }, text);
      button.onclick = () => { input.value = text; forbidden.clear(); show(); };
      examples.append(button, " ");
    }
    input.oninput = () => { forbidden.clear(); show(); };
    input.onfocus = show;
    which.onchange = head.onchange = show;
    again.onclick = () => { restart(); input.focus(); };
  },
};

document.addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("div.live").forEach(live.start));
