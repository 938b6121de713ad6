// Small drawings. They repeat what stands beside them in words, so screen readers skip them.

import { s } from "./dom.js";

const PATHS = {
  idle: ["M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z"],
  busy: ["M8 2.5v3", "M8 10.5v3", "M2.5 8h3", "M10.5 8h3", "M4.1 4.1l2.1 2.1", "M9.8 9.8l2.1 2.1", "M11.9 4.1 9.8 6.2", "M6.2 9.8l-2.1 2.1"],
  retry: ["M12.8 8a4.8 4.8 0 1 1-1.6-3.6", "M11.6 1.8v2.9H8.7"],
  waiting: ["M8 1.8 14.2 8 8 14.2 1.8 8z", "M6.7 6.4a1.4 1.4 0 1 1 1.9 1.3c-.4.2-.6.4-.6.9", "M8 10.6v.1"],
  ending: ["M3.8 3.8h8.4v8.4H3.8z"],
  parked: ["M5.6 3.5v9", "M10.4 3.5v9"],
  interrupted: ["M9 1.8 4 9h3.6l-.8 5.2L12 7H8.3z"],
  elsewhere: ["M3 5.4h9.2", "M9.8 3 12.4 5.4 9.8 7.8", "M13 10.6H3.8", "M6.2 8.2 3.6 10.6 6.2 13"],
  done: ["M3.2 8.6 6.4 11.8 12.8 4.6"],
  failed: ["M4 4l8 8", "M12 4l-8 8"],
  denied: ["M8 2.6a5.4 5.4 0 1 0 0 10.8A5.4 5.4 0 0 0 8 2.6z", "M4.3 11.7l7.4-7.4"],
  queued: ["M8 2.6a5.4 5.4 0 1 0 0 10.8A5.4 5.4 0 0 0 8 2.6z", "M8 5.2V8l2 1.6"],
  open: ["M6 4l4 4-4 4"],
  plus: ["M8 3v10", "M3 8h10"],
  back: ["M10 3.5 5.5 8l4.5 4.5"],
  search: ["M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4z", "M10.2 10.2l3.2 3.2"],
  settings: ["M2.5 4.5h6", "M11.5 4.5h2", "M2.5 11.5h2", "M7.5 11.5h6", "M10 3v3", "M6 10v3"],
  clip: ["M12.6 7.4 7.8 12.2a3 3 0 0 1-4.2-4.2l5.2-5.2a2 2 0 0 1 2.8 2.8L6.5 10.8a1 1 0 0 1-1.4-1.4l4.4-4.4"],
  send: ["M8 13V3.4", "M4 7.2 8 3.2l4 4"],
  stop: ["M4 4h8v8H4z"],
  lanes: ["M2.5 4h7", "M5.5 8h8", "M4 12h5"],
  diff: ["M5 2.5v6", "M2 5.5h6", "M8.5 12h5.5"],
  gauge: ["M2.6 11.4a6 6 0 1 1 10.8 0", "M8 9.4l2.6-3.6"],
  more: ["M3.4 8h.1", "M8 8h.1", "M12.6 8h.1"],
  copy: ["M5.5 5.5h7.5v7.5H5.5z", "M10.5 5.5V3H3v7.5h2.5"],
  close: ["M4 4l8 8", "M12 4l-8 8"],
  down: ["M8 3v9.4", "M4 8.6l4 4 4-4"],
  undo: ["M3 6.2h6.4a3.4 3.4 0 0 1 0 6.8H6", "M5.8 3.2 2.8 6.2l3 3"],
  redo: ["M13 6.2H6.6a3.4 3.4 0 0 0 0 6.8H10", "M10.2 3.2l3 3-3 3"],
  folder: ["M2 4.2h4.2l1.4 1.6H14v7H2z"],
  warning: ["M8 2.4 14.4 13.4H1.6z", "M8 6.4v3.2", "M8 11.5v.1"],
  offline: ["M2.5 6.4a8.4 8.4 0 0 1 11 0", "M4.8 9a5 5 0 0 1 6.4 0", "M8 12.2v.1", "M3 2.5l10 11"],
  file: ["M4 2h5.2L12 4.8V14H4z", "M9 2v3h3"],
  pencil: ["M3 13l.8-3L11 2.8 13.2 5 6 12.2z"],
  person: ["M8 8.2a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2z", "M3.2 13.4a4.9 4.9 0 0 1 9.6 0"],
  bin: ["M3 4.4h10", "M6.4 4.4V2.8h3.2v1.6", "M4.4 4.4 5 13.4h6l.6-9"],
};
const FILLED = new Set(["ending", "stop", "interrupted"]);

/** Return the drawing of that name. */
export function icon(name, className = "") {
  const paint = FILLED.has(name) ? "currentColor" : "none";
  return s(
    "svg",
    {
      class: `icon icon-${name} ${className}`.trim(),
      viewBox: "0 0 16 16",
      width: 16,
      height: 16,
      fill: paint,
      stroke: "currentColor",
      "stroke-width": 1.5,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
      "aria-hidden": "true",
    },
    ...PATHS[name].map((d) => s("path", { d })),
  );
}
