/* Figures with sliders: numbers from the page's run, and what becomes of them.
 *
 * A page writes <div class="touch" data-kind="KIND" data-numbers="JSON">, see
 * `attention_course.live.sliders`. A kind says which sliders there are and turns their
 * values and the page's numbers into rows of a table: a label, a number that is drawn
 * as a bar, and a sentence below. Sliders work by mouse, touch and keyboard.
 */
"use strict";

const touch = {
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

  kinds: {
    // A query on a line asks keys on that line: a Gaussian kernel, then the mixture.
    kernel: {
      sliders: ({ keys }) => [
        ["x", "query x", Math.min(...keys), Math.max(...keys), 0.1, keys[Math.floor(keys.length / 2)]],
        ["width", "bandwidth ρ", 0.1, 5, 0.1, 1]],
      rows({ keys, values }, { x, width }) {
        const weights = touch.softmax(keys.map((key) => -(((x - key) / width) ** 2) / 2));
        const context = touch.mix(weights, values);
        return { labels: keys.map((k, s) => `key ${k}, value ${values[s]}`), weights,
                 says: `The context is ${context.toFixed(2)}.`, context };
      },
    },

    // One query among keys in the plane, under three scores.
    scores: {
      sliders: () => [
        ["angle", "angle of the query (degrees)", 0, 360, 5, 20],
        ["length", "length of the query", 0, 8, 0.25, 2]],
      choices: ["dot", "scaled dot", "cosine"],
      rows({ keys }, { angle, length }, choice) {
        const query = touch.rotate([length, 0], (angle * Math.PI) / 180);
        const norm = (v) => Math.hypot(...v);
        const scores = keys.map((key) => {
          const product = touch.dot(query, key);
          if (choice === "dot") return product;
          if (choice === "scaled dot") return product / Math.sqrt(key.length);
          return product / Math.max(norm(query) * norm(key), 1e-8);
        });
        return { labels: keys.map((key, s) => `key (${key.join(", ")}), score ${scores[s].toFixed(2)}`),
                 weights: touch.softmax(scores),
                 says: `The query is (${query.map((x) => x.toFixed(2)).join(", ")}).` };
      },
    },

    // Luong's local attention on one row of scores: a window, then a bell.
    window: {
      sliders: ({ scores, half_width }) => [
        ["p", "predicted position pₜ", 0, scores.length - 1, 0.1, Math.floor(scores.length / 2)],
        ["w", "half-width w", 1, Math.max(scores.length - 1, 2), 1, half_width]],
      choices: ["global", "window alone", "window and bell (local-p)"],
      rows({ tokens, scores }, { p, w }, choice) {
        const seen = scores.map((score, s) =>
          choice === "global" || Math.abs(s - p) <= w ? score : -Infinity);
        const bell = (s) =>
          choice.endsWith("(local-p)") ? Math.exp(-(((s - p) / (w / 2)) ** 2) / 2) : 1;
        const weights = touch.softmax(seen).map((weight, s) => weight * bell(s));
        const sum = weights.reduce((a, b) => a + b, 0);
        return { labels: tokens.map((token, s) => `${s}  ${token}`), weights,
                 says: `The weights sum to ${sum.toFixed(2)}.` };
      },
    },

    // What a token is drawn from.
    sampling: {
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
    },

    // A query and a key, each rotated by its position.
    rotary: {
      sliders: ({ longest }) => [
        ["t", "position t of the query", 0, longest, 1, 3],
        ["s", "position s of the key", 0, longest, 1, 1]],
      rows({ query, key, angles }, { t, s }) {
        const pairs = angles.map((angle, i) => {
          const q = touch.rotate(query.slice(2 * i, 2 * i + 2), (t * angle * Math.PI) / 180);
          const k = touch.rotate(key.slice(2 * i, 2 * i + 2), (s * angle * Math.PI) / 180);
          return touch.dot(q, k);
        });
        const score = pairs.reduce((a, b) => a + b, 0);
        return { labels: angles.map((angle, i) => `plane ${i + 1}, turned by ${angle}° per position`),
                 numbers: pairs, score,
                 says: `The distance t − s is ${t - s}, and the score is ${score.toFixed(3)}.` };
      },
    },

    // The softmax that reads its scores once.
    running: {
      sliders: ({ scores }) => [["read", "scores read so far", 1, scores.length, 1, 1]],
      rows({ scores, values }, { read }) {
        let m = -Infinity, l = 0, o = 0;
        for (let s = 0; s < read; s++) {
          const larger = Math.max(m, scores[s]);
          const shrink = Math.exp(m - larger), term = Math.exp(scores[s] - larger);
          [m, l, o] = [larger, l * shrink + term, o * shrink + term * values[s]];
        }
        const weights = touch.softmax(scores.map((e, s) => (s < read ? e : -Infinity)));
        return { labels: scores.map((e, s) => `score ${e}, value ${values[s]}`), weights, state: [m, l, o],
                 says: `m = ${m}, l = ${l.toFixed(4)}, o = ${o.toFixed(4)}; ` +
                       `the context so far is o / l = ${(o / l).toFixed(4)}.` };
      },
    },
  },

  start(place, number) {
    const make = (tag, attributes = {}, ...children) => {
      const element = document.createElement(tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      element.append(...children);
      return element;
    };
    const kind = touch.kinds[place.dataset.kind];
    const numbers = JSON.parse(place.dataset.numbers);
    const values = {};
    const says = make("p", { role: "status" });
    const body = make("tbody");
    const controls = kind.sliders(numbers).map(([name, label, min, max, step, value]) => {
      values[name] = value;
      const id = `touch-${number}-${name}`;
      const input = make("input", { id, type: "range", min, max, step, value });
      const shown = make("output", { for: id }, String(value));
      input.oninput = () => {
        values[name] = Number(input.value);
        shown.textContent = input.value;
        show();
      };
      return make("p", {}, make("label", { for: id }, label), input, shown);
    });
    let choice = kind.choices?.[0];
    if (kind.choices) {
      const select = make("select", { id: `touch-${number}-choice` },
        ...kind.choices.map((name) => make("option", {}, name)));
      select.onchange = () => { choice = select.value; show(); };
      controls.unshift(make("p", {}, make("label", { for: select.id }, place.dataset.choice), select));
    }
    function show() {
      const found = kind.rows(numbers, values, choice);
      const shown = found.weights || found.numbers;
      const largest = found.weights ? 1 : Math.max(...shown.map(Math.abs), 1e-9);
      body.replaceChildren(...found.labels.map((label, i) => {
        const size = `${(100 * Math.abs(shown[i])) / largest}%`;
        return make("tr", {}, make("th", { scope: "row" }, label),
          make("td", {}, shown[i].toFixed(3)),
          make("td", { class: "bar" },
            make("span", { style: `width: ${size}`, class: shown[i] < 0 ? "negative" : "" })));
      }));
      says.textContent = found.says;
    }
    place.replaceChildren(make("p", { class: "touch-title" }, place.dataset.title), ...controls,
      make("table", {}, body), says);
    show();
  },
};

document.addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("div.touch").forEach(touch.start));
