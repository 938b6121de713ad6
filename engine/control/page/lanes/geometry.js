/** Where things are in the picture, in pixels. Pure. */

export const AXIS = 24;
export const STRIP = 26;
/** Where the rows begin. */
export const HEAD = AXIS + STRIP + 4;

/** @param {import("./scene.js").View} view @param {number} time @returns {number} */
export function xOf(view, time) {
  return view.gutter + view.scale.place(time) * view.zoom - view.left;
}

/** @param {import("./scene.js").View} view @param {number} index @returns {number} */
export function yOf(view, index) {
  return HEAD + index * view.rowHeight - view.top;
}

/** @param {number} value @returns {number} */
export function round(value) {
  return Math.round(value * 10) / 10;
}
