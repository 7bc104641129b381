/* Figures to touch: numbers from the page's run, and what becomes of them.
 *
 * A page writes <div class="touch" data-kind="KIND" data-numbers="JSON">, see
 * `attention_course.live.sliders`. Each kind has a file in `kinds/`. It says
 *   sliders(numbers): name, label, least, most, step, start of each;
 *   choices: what one may choose among, a list or a function of the numbers;
 *   shown(numbers, name, value, choice): a slider's value in words, if not the number;
 *   points(numbers, values): what can be dragged in a plane, see `kinds/scores.js`;
 *   rows(numbers, values, choice): what becomes of it: rows of labels and numbers that are
 *     drawn as bars, a grid of cells, a sentence. Cells with a key can be switched on and
 *     off; `values.on` holds those that are on.
 */
"use strict";

const touch = {
  kinds: {},

  softmax(scores) {
    const largest = Math.max(...scores);
    const terms = scores.map((score) => (score === -Infinity ? 0 : Math.exp(score - largest)));
    const total = terms.reduce((a, b) => a + b, 0);
    return terms.map((term) => (total ? term / total : 0));
  },

  dot: (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0),
  mix: (weights, values) => touch.dot(weights, values),
  rotate: ([x, y], angle) => [
    x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)],

  make(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "circle", "line", "text"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                     : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  },

  // A row per label: its number, and the number as a bar, the longest for `largest`.
  bars({ labels, weights, numbers, texts, largest }) {
    const { make } = touch;
    const shown = weights || numbers;
    const longest = weights ? 1 : largest || Math.max(...shown.map(Math.abs), 1e-9);
    return make("table", { class: "bars" }, make("tbody", {}, ...labels.map((label, i) => {
      const size = `${(100 * Math.abs(shown[i])) / longest}%`;
      return make("tr", {}, make("th", { scope: "row" }, label),
        make("td", {}, texts ? texts[i] : shown[i].toFixed(3).replace("-", "−")),
        make("td", { class: "bar" },
          make("span", { style: `width: ${size}`, class: shown[i] < 0 ? "negative" : "" })));
    })));
  },

  // Cells {text, weight, key, pressed, name}; arrow keys lead from switch to switch.
  grid({ caption, columns, rows, cells, picture }, toggle) {
    const { make } = touch;
    const cell = ({ text = "", weight = 0, key, pressed, name }) => {
      const style = `--weight: ${weight.toFixed(3)}`;
      if (!key) return make("td", { style }, text);
      const button = make("button", { type: "button", "data-key": key, tabindex: "-1",
                                      "aria-pressed": String(pressed), "aria-label": name }, text);
      button.onclick = () => toggle(key);
      return make("td", { style }, button);
    };
    const head = columns ? [make("thead", {}, make("tr", {}, make("td"),
      ...columns.map((name) => make("th", { scope: "col" }, name))))] : [];
    const table = make("table", { class: picture ? "cells over" : "cells" },
      make("caption", {}, caption), ...head,
      make("tbody", {}, ...cells.map((row, t) => make("tr", {},
        ...(rows ? [make("th", { scope: "row" }, rows[t])] : []), ...row.map(cell)))));
    if (picture) table.tBodies[0].style.backgroundImage = `url(${picture})`;
    const buttons = [...table.querySelectorAll("button")];
    if (buttons.length) buttons[0].tabIndex = 0;
    table.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cells[0].length,
                     ArrowDown: cells[0].length }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [...table.querySelectorAll("tbody td")];
      let at = all.indexOf(document.activeElement.parentElement) + step;
      while (all[at] && !all[at].firstElementChild) at += step;
      all[at]?.firstElementChild.focus();
    };
    return table;
  },

  start(place, number) {
    const { make } = touch;
    const kind = touch.kinds[place.dataset.kind];
    const numbers = JSON.parse(place.dataset.numbers);
    const values = { on: new Set() };
    const choices = typeof kind.choices === "function" ? kind.choices(numbers) : kind.choices;
    let choice = choices?.[0];
    const says = make("p", { role: "status" });
    const found = make("div");
    const controls = (kind.sliders?.(numbers) || []).map(([name, label, min, max, step, value]) => {
      values[name] = value;
      const id = `touch-${number}-${name}`;
      const input = make("input", { id, type: "range", min, max, step, value });
      const shown = make("output", { for: id });
      input.oninput = () => { values[name] = Number(input.value); show(); };
      const refresh = () => {
        input.max = kind.most?.(numbers, name, choice) ?? max;
        values[name] = Math.min(values[name], Number(input.max));
        input.value = values[name];
        const text = kind.shown?.(numbers, name, values[name], choice) ?? input.value;
        input.setAttribute("aria-valuetext", text);
        shown.textContent = text;
      };
      return { refresh, element: make("p", {}, make("label", { for: id }, label), input, shown) };
    });
    const elements = controls.map(({ element }) => element);
    if (choices) {
      const select = make("select", { id: `touch-${number}-choice` },
        ...choices.map((name) => make("option", {}, name)));
      select.onchange = () => { choice = select.value; values.on.clear(); show(); };
      elements.unshift(make("p", {}, make("label", { for: select.id }, place.dataset.choice), select));
    }
    const plane = kind.points && touch.plane(kind.points(numbers, values), () => show());
    if (plane) elements.push(plane.svg);
    function toggle(key) {
      values.on.has(key) ? values.on.delete(key) : values.on.add(key);
      show();
      [...found.querySelectorAll("button")].find((b) => b.dataset.key === key).focus();
    }
    function show() {
      controls.forEach(({ refresh }) => refresh());
      plane?.draw();
      const result = kind.rows(numbers, values, choice);
      found.replaceChildren(...(result.grid ? [touch.grid(result.grid, toggle)] : []),
        ...(result.labels ? [touch.bars(result)] : []));
      says.textContent = result.says;
    }
    place.replaceChildren(make("p", { class: "touch-title" }, place.dataset.title), ...elements,
      found, says);
    show();
  },
};

document.addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("div.touch").forEach(touch.start));
