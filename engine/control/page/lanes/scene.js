/**
 * What is drawn: elements of SVG as plain data, for the lines and the times that are in view. Pure.
 *
 * @typedef {{tag: string, key?: string, attrs?: Record<string, string|number|undefined>, text?: string, children?: Node[]}} Node
 * @typedef {object} View
 * @property {import("./visible-rows.js").Line[]} lines
 * @property {import("./time-scale.js").TimeScale} scale
 * @property {import("./parallelism.js").Level[]} strip
 * @property {number} levels of the deepest row
 * @property {number} zoom pixels for a drawn second
 * @property {number} left how far it is scrolled
 * @property {number} top
 * @property {number} width of the view
 * @property {number} height
 * @property {number} gutter width of the labels; 0: they are above the bars
 * @property {number} rowHeight
 * @property {number} now what lasts still is drawn until then
 * @property {boolean} live whether time goes on
 * @property {boolean} isStopped whether nothing runs what is not over
 * @property {string} focus the key of the cell that Tab reaches
 * @property {string} ids begins the ids of patterns
 */

import { visible } from "../text.js";
import { AXIS, HEAD, round, STRIP, xOf, yOf } from "./geometry.js";
import { causeOf, clock, duration } from "./lane-words.js";
import { drawRow } from "./row-scene.js";

/** @param {View} view @returns {Node[]} */
export function drawScene(view) {
  const { lines, top, height, rowHeight } = view;
  const first = Math.max(0, Math.floor(top / rowHeight) - 1);
  const last = Math.min(lines.length - 1, Math.ceil((top + height - HEAD) / rowHeight));
  const focused = lines.findIndex((line) => view.focus.startsWith(`${line.row.id}|`));
  const shown = lines.slice(first, last + 1);
  // The focused element must stay in the document, also while it is scrolled out of view.
  if (focused >= 0 && focused < first) shown.unshift(lines[focused]);
  if (focused > last) shown.push(lines[focused]);
  return [
    group("stripes", "rows", shown.filter(({ row }) => row.kind === "turn").map((each) => stripe(view, each))),
    group("back", "plot", [...grid(view), ...bands(view)]),
    { tag: "g", key: "rows", attrs: { role: "rowgroup", "clip-path": `url(#${view.ids}-rows)` }, children: shown.map((line) => drawRow(view, line)) },
    group("front", "plot", [...breaks(view), ...endings(view), ...nowLine(view)]),
    head(view),
  ];

  function group(key, clip, children) {
    return { tag: "g", key, attrs: { "aria-hidden": "true", "clip-path": `url(#${view.ids}-${clip})` }, children };
  }
}

// -- behind the rows ------------------------------------------------------------------------

/** At least this many pixels between two labels of the axis. */
const APART = 76;
/** The width of a label. */
const LABEL = 54;

function ticksOf(view) {
  const from = view.left / view.zoom;
  return view.scale.ticks(APART / view.zoom, from, from + view.width / view.zoom);
}

/** Behind a turn's row, so that turns are found in a long picture. */
function stripe(view, { row, index }) {
  const attrs = { class: "lanes-stripe-turn", x: 0, y: yOf(view, index), width: view.width, height: view.rowHeight };
  return { tag: "rect", key: row.id, attrs };
}

function grid(view) {
  return ticksOf(view).map((time) => line(`grid ${time}`, "grid", xOf(view, time), AXIS, view.height));
}

function line(key, kind, x, from, to) {
  return { tag: "line", key, attrs: { class: `lanes-${kind}`, x1: round(x), x2: round(x), y1: from, y2: to } };
}

function breaks(view) {
  return view.scale.breaks.flatMap((piece) => {
    const to = view.gutter + (piece.at + piece.length) * view.zoom - view.left;
    if (to < view.gutter || to - 12 > view.width) return [];
    const width = Math.min(10, piece.length * view.zoom);
    return [
      { tag: "path", key: `break ${piece.from}`, attrs: { class: "lanes-break", d: zigzag(to - width, width, AXIS, view.height) } },
    ];
  });
}

function zigzag(x, width, from, to) {
  const points = [];
  for (let y = from, n = 0; y < to + 8; y += 8, n += 1) points.push(`${round(x + (n % 2 ? width * 0.45 : 0))} ${y}`);
  const back = points.map((point) => {
    const [px, py] = point.split(" ").map(Number);
    return `${round(px + width * 0.55)} ${py}`;
  });
  return `M${points.join("L")}L${back.reverse().join("L")}Z`;
}

/** The turns in view that were ended early, with the lines of the picture that they reach over. */
function endingLines(view) {
  return view.lines.filter(({ row, index, last }) => {
    if (row.ending === null) return false;
    return yOf(view, last + 1) > HEAD && yOf(view, index) < view.height;
  });
}

function bands(view) {
  return endingLines(view)
    .filter(({ row }) => row.depth === 0)
    .map(({ row, index, last }) => {
      const [from, to] = [xOf(view, row.ending.at), xOf(view, row.ending.until)];
      const y = yOf(view, index);
      const attrs = { class: "lanes-grace", x: round(from), y, width: round(Math.max(3, to - from)), height: yOf(view, last + 1) - y };
      return { tag: "rect", key: `band ${row.id}`, attrs };
    });
}

// -- in front of them -----------------------------------------------------------------------

function endings(view) {
  return endingLines(view).flatMap(({ row, index, last }) => {
    const [from, to] = [xOf(view, row.ending.at), xOf(view, row.ending.until)];
    const [y, bottom] = [Math.max(HEAD, yOf(view, index)), yOf(view, last + 1)];
    const kind = row.depth === 0 ? "ending" : "ending lanes-ending-below";
    const drawn = [line(`ending ${row.id}`, kind, from, y, bottom)];
    if (to - from > 6) drawn.push(line(`until ${row.id}`, "until", to, y, bottom));
    return drawn;
  });
}

function nowLine(view) {
  return view.live ? [line("now", "now", xOf(view, view.now), AXIS, view.height)] : [];
}

// -- above them: the axis and the strip --------------------------------------------------------

function head(view) {
  const { width, gutter, ids } = view;
  /** @type {Node[]} */
  const children = [
    { tag: "rect", key: "paper", attrs: { class: "lanes-paper", x: 0, y: 0, width, height: HEAD } },
    { tag: "g", key: "axis", attrs: { "clip-path": `url(#${ids}-plot)` }, children: [...labels(view), ...level(view), ...flags(view)] },
    { tag: "line", key: "edge", attrs: { class: "lanes-edge", x1: 0, x2: width, y1: HEAD - 0.5, y2: HEAD - 0.5 } },
  ];
  const most = view.strip.reduce((all, each) => Math.max(all, each.running), 0);
  if (gutter > 0) {
    children.push(
      { tag: "rect", key: "corner", attrs: { class: "lanes-paper", x: 0, y: 0, width: gutter, height: HEAD - 1 } },
      { tag: "text", key: "most", attrs: { class: "lanes-caption", x: gutter - 8, y: AXIS + STRIP / 2 + 4, "text-anchor": "end" }, text: most ? `running at once, at most ${most}` : "" },
    );
  }
  return { tag: "g", key: "head", attrs: { "aria-hidden": "true" }, children };
}

function labels(view) {
  const digits = APART / view.zoom < 0.1 ? 2 : APART / view.zoom < 1 ? 1 : 0;
  const hidden = flagBoxes(view);
  let free = -Infinity;
  const ticks = [];
  for (const time of ticksOf(view)) {
    const x = xOf(view, time) + 3;
    // On both sides of a break they may be close together.
    if (x < free || hidden.some(({ left, width }) => x > left - LABEL && x < left + width)) continue;
    free = x + LABEL;
    const text = clock(time - view.scale.begin, digits);
    ticks.push({ tag: "text", key: `tick ${time}`, attrs: { class: "lanes-tick", x: round(x), y: AXIS - 8 }, text });
  }
  const folded = view.scale.breaks.map((piece) => ({
    tag: "text",
    key: `folded ${piece.from}`,
    attrs: { class: "lanes-tick lanes-folded", x: round(view.gutter + (piece.at + piece.length) * view.zoom - view.left - 13), y: AXIS + 11, "text-anchor": "end" },
    text: piece.length * view.zoom > 70 ? `${duration(piece.to - piece.from)} of waiting` : "",
  }));
  return [...ticks, ...folded];
}

/** Where the words stand that say what ended a turn. */
function flagBoxes(view) {
  return endingLines(view)
    .filter(({ row }) => row.depth === 0)
    .map(({ row }) => {
      const text = visible(causeOf(row.ending));
      const width = text.length * 6.8 + 14;
      return { row, text, width, left: Math.min(xOf(view, row.ending.at), view.width - width - 4) };
    });
}

/** What ended a turn, at its line. */
function flags(view) {
  return flagBoxes(view).map(({ row, text, width, left }) => ({
    tag: "g",
    key: `flag ${row.id}`,
    children: [
      line("pole", "ending", xOf(view, row.ending.at), 4, HEAD),
      { tag: "rect", key: "flag", attrs: { class: "lanes-flag", x: round(left - 1), y: 4, width: round(width), height: 17, rx: 3 } },
      { tag: "text", key: "cause", attrs: { class: "lanes-cause", x: round(left + 6), y: 16 }, text },
    ],
  }));
}

function level(view) {
  const { strip } = view;
  const most = strip.reduce((all, each) => Math.max(all, each.running), 1);
  const base = AXIS + STRIP;
  // What runs has its scale; of what waits, more than five look alike.
  const y = (count) => round(base - (count / most) * (STRIP - 10));
  const shown = columns(view);
  const area = (count) => {
    let path = "";
    shown.forEach(({ x, level }, n) => {
      const end = shown[n + 1]?.x;
      if (end === undefined || count(level) === 0) {
        path += n > 0 && count(shown[n - 1].level) > 0 ? `V${base}Z` : "";
        return;
      }
      path += `${n > 0 && count(shown[n - 1].level) > 0 ? "" : `M${x} ${base}`}V${y(count(level))}H${end}`;
    });
    return path;
  };
  return [
    { tag: "path", key: "queued", attrs: { class: "lanes-level lanes-level-queued", d: area((each) => each.running + (Math.min(5, each.queued) * most) / 12) } },
    { tag: "path", key: "running", attrs: { class: "lanes-level lanes-level-running", d: area((each) => each.running) } },
  ];
}

/** The levels in view, at most one for each pixel: the highest there; the last one ends the strip. */
function columns(view) {
  const { strip } = view;
  const none = { running: 0, queued: 0 };
  const shown = [];
  strip.forEach((each, n) => {
    const from = xOf(view, each.at);
    const to = n + 1 < strip.length ? xOf(view, strip[n + 1].at) : Math.max(from, xOf(view, view.now));
    if (to < view.gutter || from > view.width) return;
    const x = Math.round(Math.max(from, view.gutter));
    const last = shown.at(-1);
    if (last === undefined || last.x < x) {
      shown.push({ x, level: each });
    } else {
      if (each.running > last.level.running) last.level = each;
      // A peak has its pixel; from the next one on, what it is then counts.
      if (to > last.x + 1) shown.push({ x: last.x + 1, level: each });
    }
    if (n === strip.length - 1) shown.push({ x: Math.round(to), level: none });
  });
  if (shown.length > 0 && shown.at(-1).level !== none) shown.push({ x: view.width, level: none });
  return shown;
}
