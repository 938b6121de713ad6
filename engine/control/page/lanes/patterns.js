/** The patterns of bars, so that no state is shown by its colour alone. Pure. */

/** Of each look: the size of its tile, and the path that is drawn in it. @type {Record<string, [size: number, d: string, width?: number]>} */
const TILES = {
  request: [6, "M1.5 3h.01M4.5 0h.01M4.5 6h.01", 1.6],
  stream: [6, "M0 1.5h6M0 4.5h6"],
  retry: [10, "M0 5l2.5 -2.5l2.5 2.5l2.5 -2.5l2.5 2.5"],
  receiving: [5, "M1.2 1.2h.01M3.7 3.7h.01", 1.9],
  judged: [5, "M2.5 0v5"],
  permission: [8, "M-2 10l12 -12M-2 2l4 -4M6 10l4 -4", 1.8],
  question: [8, "M-2 10l12 -12M-2 2l4 -4M6 10l4 -4", 1.8],
  compaction: [8, "M4 0l4 4l-4 4l-4 -4z"],
  completed: [10, "M2.5 1v3M7.5 6v3"],
  failed: [6, "M-1 7l8 -8M-1 1l2 -2M5 7l2 -2", 1.4],
  error: [6, "M0 0l6 6M6 0l-6 6", 1.3],
  denied: [6, "M0 3h6", 2.4],
  aborted: [6, "M-1 -1l8 8M-1 5l2 2M5 -1l2 2", 1.4],
  unknown: [7, "M0 0l7 7M7 0l-7 7", 1.7],
  gone: [6, "M3 0v2M3 4v2"],
  background: [10, "M0 5h5"],
  "turn-ended": [6, "M-1 -1l8 8M-1 5l2 2M5 -1l2 2", 1.2],
};

/**
 * @param {string} ids begins the ids
 * @returns {import("./scene.js").Node[]}
 */
export function patternNodes(ids) {
  return Object.entries(TILES).map(([look, [size, d, width]]) => ({
    tag: "pattern",
    key: look,
    attrs: { id: `${ids}-${look}`, width: size, height: size, patternUnits: "userSpaceOnUse" },
    children: [{ tag: "path", key: "path", attrs: { class: "lanes-tile", d, "stroke-width": width ?? 1 } }],
  }));
}

/** Areas that are cut off: the plot without the labels, the rows without the head, a lane within its row. */
export function clipNodes(ids, { width, height, gutter, head, rowHeight }) {
  const area = (name, x, y, w, h) => ({
    tag: "clipPath",
    key: name,
    attrs: { id: `${ids}-${name}` },
    children: [{ tag: "rect", key: "rect", attrs: { x, y, width: Math.max(0, w), height: Math.max(0, h) } }],
  });
  return [
    area("plot", gutter, 0, width - gutter, height),
    area("rows", 0, head, width, height - head),
    area("lane", gutter, -4, width - gutter, rowHeight + 8),
  ];
}
