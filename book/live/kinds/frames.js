// One state after another, each as the page has computed it.
"use strict";

touch.kinds.frames = {
  choices: ({ frames }) => Object.keys(frames),
  sliders: ({ frames, step, start }) => [
    ["at", step, 1, Object.values(frames)[0].length, 1, start]],
  most: ({ frames }, _, choice) => frames[choice].length,
  shown: ({ frames }, _, value, choice) => frames[choice][value - 1].name,
  rows({ frames, width, pictures, caption }, { at }, choice) {
    const frame = frames[choice][at - 1];
    if (!width) return frame;
    const cells = frame.weights.map((weight) => ({
      weight, text: weight >= 0.095 ? String(Math.round(100 * weight)) : "" }));
    return {
      says: frame.says,
      grid: { caption, picture: pictures[choice],
              cells: Array.from({ length: cells.length / width }, (_, row) =>
                cells.slice(row * width, (row + 1) * width)) },
    };
  },
};
