// A mask that one paints, and what has reached each position after some layers.
"use strict";

touch.kinds.mask = {
  sliders: () => [["layers", "layers", 1, 5, 1, 1]],
  choices: ["itself and the position before", "itself and all before (causal mask)",
            "itself and both neighbours", "itself alone"],
  rows({ tokens }, { layers, on }, choice) {
    const range = tokens.map((_, t) => t);
    const begin = {
      "itself and the position before": (t, s) => t - s === 1,
      "itself and all before (causal mask)": (t, s) => s < t,
      "itself and both neighbours": (t, s) => Math.abs(t - s) === 1,
      "itself alone": () => false,
    }[choice];
    // each position keeps what it has: the residual connection
    const sees = range.map((t) => range.map((s) => s === t || begin(t, s) !== on.has(`${t} ${s}`)));
    let reached = sees;
    for (let layer = 1; layer < layers; layer++)
      reached = reached.map((row) => range.map((s) => row.some((yes, u) => yes && sees[u][s])));
    const cells = range.map((t) => range.map((s) => ({
      text: sees[t][s] ? "●" : reached[t][s] ? "○" : "",
      weight: sees[t][s] ? 0.5 : reached[t][s] ? 0.2 : 0,
      key: s === t ? "" : `${t} ${s}`,
      pressed: sees[t][s],
      name: `${tokens[t]} may attend to ${tokens[s]}${!sees[t][s] && reached[t][s] ? ", and is reached by it" : ""}`,
    })));
    const heard = range.filter((s) => reached[tokens.length - 1][s]).length;
    const early = range.find((t) => range.some((s) => s > t && reached[t][s]));
    return {
      reached,
      grid: { caption: "A row asks. ● it may attend to this position; ○ this position reaches it " +
                       "through other layers. Select a cell to change the mask.",
              columns: tokens, rows: tokens, cells },
      says: `After ${layers} ${layers > 1 ? "layers" : "layer"}, the output at “${tokens.at(-1)}” ` +
            `depends on ${heard} of ${tokens.length} inputs. ` +
            (early === undefined ? "No output depends on a later input."
              : `The output at “${tokens[early]}” depends on a later input, so a decoder could ` +
                "read its answer."),
    };
  },
};
