// A beam in a tree of two steps, of which the reader sets the first.
"use strict";

touch.kinds.beam = {
  sliders: ({ tree }) => [
    ["size", "beam size", 1, Object.keys(tree).length, 1, 1],
    ["p", `P(${Object.keys(tree)[0]}), the first token`, 0.5, 0.95, 0.01, 0.6]],
  shown: (_, name, value) => (name === "p" ? value.toFixed(2) : String(value)),
  rows({ tree }, { size, p }) {
    const firsts = Object.keys(tree);
    const chances = firsts.map((_, i) => (i ? (1 - p) / (firsts.length - 1) : p));
    const best = (list, key) => [...list].sort((a, b) => key(b) - key(a));
    const kept = best(firsts.keys(), (i) => chances[i]).slice(0, size);
    const all = firsts.flatMap((first, i) => Object.entries(tree[first]).map(([second, q]) => ({
      text: `${first} ${second}`, p: chances[i] * q, seen: kept.includes(i) })));
    const found = best(all.filter(({ seen }) => seen), (one) => one.p);
    const top = best(all, (one) => one.p)[0];
    return {
      found: found[0].text,
      labels: all.map((one) => `${one.text}  (${!one.seen ? "never looked at"
        : found.indexOf(one) < size ? "kept" : "dropped"})`),
      weights: all.map((one) => one.p),
      says: `The beam returns “${found[0].text}” with probability ${found[0].p.toFixed(3)}. ` +
            (found[0] === top ? "No sentence has a higher one."
              : `The most probable sentence is “${top.text}”, with ${top.p.toFixed(3)}.`),
    };
  },
};
