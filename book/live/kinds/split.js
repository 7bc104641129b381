// Where each number of a sentence goes when the last axis is split into heads.
"use strict";

touch.kinds.split = {
  choices: ["transpose: x.unflatten(-1, (H, -1)).transpose(1, 2)", "view: x.view(B, H, T, -1)"],
  sliders: ({ words }) => [["word", "word to follow", 1, words, 1, 1]],
  shown: (_, name, value) => `token ${value - 1}`,
  // Token and entry of each number of each head, row by row.
  heads({ words, width, heads }, choice) {
    const part = width / heads;
    return Array.from({ length: heads }, (_, h) => Array.from({ length: words }, (__, t) =>
      Array.from({ length: part }, (___, d) => {
        if (choice.startsWith("transpose")) return [t, h * part + d];
        const place = (h * words + t) * part + d; // as it lies in memory
        return [Math.floor(place / width), place % width];
      })));
  },
  rows(numbers, { word }, choice) {
    const heads = touch.kinds.split.heads(numbers, choice);
    const mine = heads.map((head) => head.flat().filter(([t]) => t === word - 1).length);
    const cells = heads[0].map((_, t) => heads.flatMap((head) => head[t].map(([from, entry]) => ({
      text: `${from}.${entry}`, weight: from === word - 1 ? 0.5 : 0 }))));
    return {
      grid: { caption: `What the heads hold. “2.3” is entry 3 of token 2; the shaded numbers ` +
                       `are those of token ${word - 1}.`,
              columns: heads.flatMap((head, h) => head[0].map((_, d) => `head ${h + 1}, ${d}`)),
              rows: heads[0].map((_, t) => `position ${t}`), cells },
      says: `Of the ${numbers.width} numbers of token ${word - 1}, ` +
            mine.map((n, h) => `head ${h + 1} has ${n}`).join(" and ") + ". " +
            (heads.every((head) => head.every((row, t) => row.every(([from]) => from === t)))
              ? "Position and token agree everywhere." : "Some positions hold numbers of another token."),
    };
  },
};
