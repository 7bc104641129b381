/* What a page needs to let its reader try a model: see `attention_course.live`.
 *
 * A page names a model with <div class="live" data-model="NAME">. The model's weights
 * are a script beside this one, NAME.js, which is loaded when the reader first touches
 * the figure. It works from a folder, without a server.
 */
"use strict";

const live = {
  models: {},
  folder: document.currentScript.src.replace(/[^/]*$/, ""),

  // Called by NAME.js: turn 8-bit codes and a scale per row back into numbers.
  model(name, packed) {
    const p = {};
    for (const [key, { shape, scales, codes }] of Object.entries(packed.parameters)) {
      const bytes = atob(codes);
      const width = shape[shape.length - 1];
      const rows = scales.map((scale, i) =>
        Array.from({ length: width }, (_, j) =>
          ((bytes.charCodeAt(i * width + j) << 24) >> 24) * scale));
      p[key] = shape.length === 1 ? rows[0] : rows;
    }
    live.models[name] = { ...packed, p };
  },

  load(name, ready) {
    if (live.models[name]) return ready(live.models[name]);
    const script = document.createElement("script");
    script.src = `${live.folder}${name}.js`;
    script.onload = () => ready(live.models[name]);
    document.head.append(script);
  },

  element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children); // text is text: whatever the reader types is not markup
    return made;
  },

  start(place, number) {
    const { element } = live;
    const name = place.dataset.model;
    const forbidden = new Set();
    const input = element("input", { id: `live-${number}`, type: "text", value: place.dataset.example,
                                     autocomplete: "off", spellcheck: "false" });
    const said = element("p", { class: "live-said", role: "status" });
    const frame = element("div", { class: "live-map", tabindex: "0", role: "region",
                                   "aria-label": "Map of the weights" });
    const examples = element("p", { class: "live-examples" });
    const again = element("button", { type: "button" }, "Allow all characters again");
    again.hidden = true;
    place.replaceChildren(
      element("label", { for: input.id }, place.dataset.label), input, examples, said, frame, again);

    const show = () => live.load(name, (model) => {
      const characters = [...input.value];
      const unknown = [...new Set(characters)].filter((c) => !model.source.includes(c));
      const trouble =
        !characters.length ? "Type something for the model to read."
        : characters.length > model.longest
        ? `The model reads at most ${model.longest} characters, and this is ${characters.length}.`
        : "";
      again.hidden = !forbidden.size;
      if (trouble) {
        said.textContent = trouble;
        frame.replaceChildren();
        return;
      }
      const ids = characters.map((c) => Math.max(model.source.indexOf(c), model.unknown));
      const found = attention.greedy(model.p, ids, { ...model, forbidden });
      const written = found.map(({ token }) => model.target[token]).join("");
      said.textContent = `The model writes ${written || "nothing"}.` +
        (unknown.length ? ` It has never seen ${unknown.map((c) => `“${c}”`).join(", ")}.` : "") +
        (forbidden.size === characters.length ? " It may look at nothing." : "");
      frame.replaceChildren(map(characters, found, model));
    });

    // A row per written character, a column per character read; click one to forbid it.
    function map(characters, found, model) {
      const heads = characters.map((c, s) => {
        const button = element("button", { type: "button", "aria-pressed": String(forbidden.has(s)),
          "aria-label": `Forbid character ${s + 1}, ${c === " " ? "space" : c}` }, c === " " ? "␣" : c);
        button.onclick = () => {
          forbidden.has(s) ? forbidden.delete(s) : forbidden.add(s);
          show();
          frame.querySelectorAll("thead button")[s].focus();
        };
        return element("th", { scope: "col" }, button);
      });
      const rows = found.map(({ token, weights }) =>
        element("tr", {}, element("th", { scope: "row" }, model.target[token]),
          ...weights.map((w) => element("td", { style: `--weight: ${w.toFixed(3)}` },
                                        w >= 0.095 ? String(Math.round(100 * w)) : ""))));
      return element("table", {},
        element("caption", {}, "Each row is one written character, with its weights in percent. Select a character above to forbid it."),
        element("thead", {}, element("tr", {}, element("td"), ...heads)),
        element("tbody", {}, ...rows));
    }

    for (const text of JSON.parse(place.dataset.examples)) {
      const button = element("button", { type: "button" }, text);
      button.onclick = () => { input.value = text; forbidden.clear(); show(); };
      examples.append(button, " ");
    }
    input.oninput = () => { forbidden.clear(); show(); };
    input.onfocus = show;
    again.onclick = () => { forbidden.clear(); show(); input.focus(); };
  },
};

document.addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("div.live").forEach(live.start));
