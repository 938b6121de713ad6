/** One row as elements of SVG: its label, its bars, its marks. Pure. */

import { visible } from "../text.js";
import { round, xOf, yOf } from "./geometry.js";
import { endingText, labelOf, MARKS, markText, OUTCOMES, outcomeKey, segmentText, STATES, stateOf } from "./lane-words.js";
import { delegates } from "./parallelism.js";
import { allRows, hasFailed } from "./visible-rows.js";

/** @typedef {import("./scene.js").Node} Node */
/** @typedef {import("./scene.js").View} View */

/** Narrower bars have no letter. */
const LETTER = 17;
const LEAST = 2;
const INDENT = 12;
/** Pixels for the deepest row: with many levels each has less. */
const MOST_INDENT = 110;

/**
 * What the arrow keys reach in a row, in the order of time; the label comes first.
 * @param {import("./lane-rows.js").Row} row
 * @returns {{key: string, at: number, segment?: any, mark?: any, ending?: any}[]}
 */
export function cellsOf(row) {
  const cells = [
    ...row.segments.map((segment, n) => ({ key: `${row.id}|bar ${n}`, at: segment.from, segment })),
    ...row.marks.map((mark, n) => ({ key: `${row.id}|mark ${n}`, at: mark.at, mark })),
    ...(row.ending === null ? [] : [{ key: `${row.id}|ending`, at: row.ending.at, ending: row.ending }]),
  ];
  return cells.sort((a, b) => a.at - b.at);
}

/** @param {View} view @param {import("./visible-rows.js").Line} line @returns {Node} */
export function drawRow(view, line) {
  const { row } = line;
  const y = yOf(view, line.index);
  const attrs = {
    role: "row",
    class: `lanes-row lanes-${row.kind}`,
    transform: `translate(0 ${y})`,
    "aria-level": line.level,
    "aria-rowindex": line.index + 1,
    "aria-expanded": row.children.length ? String(!line.folded) : undefined,
  };
  return {
    tag: "g",
    key: row.id,
    attrs,
    children: [
      { tag: "rect", key: "stripe", attrs: { class: "lanes-stripe", x: 0, y: 0, width: view.width, height: view.rowHeight } },
      { tag: "g", key: "cells", attrs: { role: "presentation", "clip-path": `url(#${view.ids}-lane)` }, children: [...track(view, row), ...(line.folded ? foldedCalls(view, row) : []), ...cells(view, row)] },
      label(view, line),
      ...elsewhere(view, row),
    ],
  };
}

function label(view, line) {
  const { row } = line;
  const indent = Math.round(6 + (line.level - 1) * Math.min(INDENT, MOST_INDENT / Math.max(1, view.levels - 1)));
  const height = view.gutter > 0 ? view.rowHeight : 20;
  const middle = height / 2;
  const width = view.gutter > 0 ? view.gutter : view.width;
  /** @type {Node[]} */
  const children = [
    { tag: "rect", key: "back", attrs: { class: view.gutter > 0 ? "lanes-label-back" : "lanes-label-clear", x: 0, y: 0, width: width - 1, height } },
  ];
  if (row.children.length > 0) {
    const d = line.folded ? `M${indent} ${middle - 4}l5 4l-5 4z` : `M${indent - 1} ${middle - 2.5}h8l-4 5.5z`;
    children.push({ tag: "path", key: "twisty", attrs: { class: "lanes-twisty", d } });
  }
  const room = Math.max(4, Math.floor((width - indent - 14) / 6.6));
  const [name, detail] = [visible(row.name), visible(row.detail).replaceAll("\n", " ")];
  children.push({
    tag: "text",
    key: "text",
    attrs: { class: "lanes-label-text", x: indent + 11, y: middle + 4 },
    children: [
      { tag: "tspan", key: "name", attrs: { class: "lanes-name" }, text: shorten(name, room) },
      { tag: "tspan", key: "detail", attrs: { class: "lanes-detail", dx: detail ? 6 : 0 }, text: shorten(detail, room - name.length - 1) },
    ],
  });
  const hidden = line.folded && row.children.length > 0 ? `, ${row.children.length} folded` : "";
  return {
    tag: "g",
    key: "label",
    attrs: cellAttrs(view, `${row.id}|label`, "rowheader", `${visible(labelOf(row))}, ${visible(stateOf(row, view.isStopped))}${hidden}`, "lanes-label"),
    children,
  };
}

function shorten(text, room) {
  if (room < 2) return "";
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}

function cellAttrs(view, key, role, text, kind) {
  return { role, class: kind, "data-cell": key, "aria-label": text, tabindex: view.focus === key ? 0 : -1 };
}

// -- the bars ---------------------------------------------------------------------------------

/** Where bars are within the row. @param {View} view @param {import("./lane-rows.js").Row} row */
function barBox(view, row) {
  const [top, room] = view.gutter > 0 ? [0, view.rowHeight] : [20, view.rowHeight - 20];
  const height = row.kind === "turn" ? Math.min(10, room - 8) : Math.min(18, room - 6);
  return { y: top + (room - height) / 2, height };
}

/** A thin line over the row's whole time: what belongs together where bars have gaps. */
function track(view, row) {
  const { y, height } = barBox(view, row);
  const [from, to] = [xOf(view, row.from), xOf(view, row.to ?? view.now)];
  if (row.kind === "turn" || to < view.gutter || from > view.width) return [];
  const middle = round(y + height / 2);
  const drawn = { tag: "line", key: "track", attrs: { class: "lanes-track", x1: round(from), x2: round(to), y1: middle, y2: middle } };
  return [drawn];
}

/** In a folded row, when the calls inside it ran: a thin line, red where one failed. */
function foldedCalls(view, row) {
  const y = round(barBox(view, row).y + barBox(view, row).height + 1);
  const spans = allRows(row.children)
    .filter((each) => each.kind === "call" && !delegates(each))
    .flatMap((each) => each.segments.filter(({ kind }) => kind === "running").map(({ from, to }) => ({ from: xOf(view, from), to: xOf(view, to ?? view.now), failed: hasFailed(each) })))
    .filter(({ from, to }) => inView(view, from, to))
    .sort((a, b) => a.from - b.from);
  /** @type {typeof spans} */
  const merged = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last !== undefined && span.from < last.to + 1 && span.failed === last.failed) last.to = Math.max(last.to, span.to);
    else merged.push(span);
  }
  return merged.map(({ from, to, failed }, n) => ({
    tag: "rect",
    key: `folded ${n}`,
    attrs: { class: `lanes-is-${failed ? "error" : "completed"}`, x: round(from), y, width: round(Math.max(LEAST, to - from)), height: 3 },
  }));
}

/** An arrow to a row's bars, where all of them are out of view. */
function elsewhere(view, row) {
  const isLeft = xOf(view, row.to ?? view.now) < view.gutter;
  if (!isLeft && xOf(view, row.from) <= view.width) return [];
  const { y, height } = barBox(view, row);
  const middle = round(y + height / 2);
  const d = isLeft ? `M${view.gutter + 12} ${middle - 5}l-7 5l7 5z` : `M${view.width - 12} ${middle - 5}l7 5l-7 5z`;
  return [{ tag: "path", key: "elsewhere", attrs: { class: "lanes-elsewhere", "data-go": row.id, d } }];
}

function cells(view, row) {
  const drawn = [];
  const outcome = outcomeKey(row);
  cellsOf(row).forEach((/** @type {any} */ cell) => {
    if (cell.segment) drawn.push(...bar(view, row, cell, outcome));
    else if (cell.mark) drawn.push(...sign(view, row, cell));
    else drawn.push(...endingCell(view, row, cell));
  });
  return [...drawn, ...cap(view, row, outcome), ...overstay(view, row)];
}

function inView(view, from, to) {
  return to >= view.gutter - 2 && from <= view.width + 2;
}

function bar(view, row, { key, segment }, outcome) {
  const [from, to] = [xOf(view, segment.from), xOf(view, segment.to ?? view.now)];
  if (!inView(view, from, to) && view.focus !== key) return [];
  const box = barBox(view, row);
  const thin = segment.kind === "settled";
  const [y, height] = thin ? [box.y + box.height / 2 - 2, 4] : [box.y, box.height];
  // Far outside of the view nothing is drawn; browsers lose precision there.
  const x = Math.max(from, view.gutter - 20);
  const width = Math.max(LEAST, Math.min(to, view.width + 20) - x);
  const look = segment.kind === "running" && outcome ? outcome : segment.kind === "turn" ? turnLook(row) : segment.kind;
  // What works is in the rows below it.
  const light = segment.kind === "running" && delegates(row) ? " lanes-delegates" : "";
  const shape = { x: round(x), y: round(y), width: round(width), height: round(height), rx: thin ? 1 : 3 };
  /** @type {Node[]} */
  const children = [
    { tag: "rect", key: "fill", attrs: { class: `lanes-fill lanes-is-${look}${light}`, ...shape } },
    { tag: "rect", key: "pattern", attrs: { class: "lanes-pattern", fill: `url(#${view.ids}-${look})`, ...shape } },
  ];
  const letter = STATES[segment.kind]?.[0];
  if (letter && width >= LETTER && !thin) {
    const at = { class: "lanes-letter", x: round(Math.max(x, view.gutter) + 4), y: round(y + height / 2 + 4) };
    children.push({ tag: "text", key: "letter", attrs: at, text: letter });
  }
  const text = visible(`${row.name}: ${segmentText(segment, view.scale.begin, view.now, view.isStopped)}`);
  return [{ tag: "g", key, attrs: cellAttrs(view, key, "gridcell", text, "lanes-cell"), children }];
}

function turnLook(row) {
  if (row.outcome === null) return "turn";
  if (row.outcome.status === "completed") return "turn-completed";
  return row.ending !== null ? "turn-ended" : "turn-stopped";
}

/** How a call ended: a letter in a box at the instant at which it was settled. */
function cap(view, row, outcome) {
  const settled = row.segments.find((segment) => segment.kind === "settled");
  const at = settled?.from ?? row.to;
  if (!outcome || at === null) return [];
  const x = xOf(view, at);
  if (!inView(view, x - 16, x + 16)) return [];
  const { y, height } = barBox(view, row);
  const shape = { x: round(x + 2), y: round(y), width: 14, height: round(height), rx: 3 };
  return [
    {
      tag: "g",
      key: "cap",
      attrs: { "aria-hidden": "true" },
      children: [
        { tag: "line", key: "at", attrs: { class: `lanes-settled lanes-stroke-${outcome}`, x1: round(x), x2: round(x), y1: round(y - 2), y2: round(y + height + 2) } },
        { tag: "rect", key: "box", attrs: { class: `lanes-cap lanes-is-${outcome}`, ...shape } },
        { tag: "text", key: "letter", attrs: { class: "lanes-cap-letter", x: round(x + 9), y: round(y + height / 2 + 4), "text-anchor": "middle" }, text: OUTCOMES[outcome]?.[0] ?? "" },
      ],
    },
  ];
}

/** A task that did not stop within its grace: nobody knows until when it goes on. */
function overstay(view, row) {
  if (!row.outcome?.unknown || row.outcome.reason === "interrupted_by_crash") return [];
  const settled = row.segments.find((segment) => segment.kind === "settled")?.from ?? row.to;
  if (settled === null) return [];
  const x = xOf(view, settled) + 18;
  if (!inView(view, x, x + 40)) return [];
  const { y, height } = barBox(view, row);
  const [h, t] = [round(height), round(y)];
  const d = `M${round(x)} ${t}h34l-6 ${round(h / 4)}l8 ${round(h / 4)}l-8 ${round(h / 4)}l6 ${round(h / 4)}h-34z`;
  return [
    { tag: "path", key: "overstays", attrs: { class: "lanes-overstays", d } },
    { tag: "path", key: "overstays pattern", attrs: { class: "lanes-pattern", fill: `url(#${view.ids}-unknown)`, d } },
  ];
}

// -- the marks ----------------------------------------------------------------------------------

function sign(view, row, { key, mark }) {
  const x = xOf(view, mark.at);
  if (!inView(view, x - 8, x + 8) && view.focus !== key) return [];
  const { y, height } = barBox(view, row);
  const text = visible(`${row.name}: ${markText(mark, view.scale.begin)}`);
  const middle = row.kind === "turn" ? round(y + height / 2) : round(y);
  return [
    {
      tag: "g",
      key,
      attrs: cellAttrs(view, key, "gridcell", text, `lanes-cell lanes-mark lanes-mark-${mark.kind}`),
      children: [
        { tag: "circle", key: "disc", attrs: { class: "lanes-disc", cx: round(x), cy: middle, r: row.kind === "turn" ? 8 : 5.5 } },
        { tag: "text", key: "sign", attrs: { class: "lanes-sign", x: round(x), y: middle + (row.kind === "turn" ? 4 : 3), "text-anchor": "middle" }, text: MARKS[mark.kind]?.[0] ?? "•" },
      ],
    },
  ];
}

function endingCell(view, row, { key, ending }) {
  const x = xOf(view, ending.at);
  if (!inView(view, x - 8, x + 8) && view.focus !== key) return [];
  const { y, height } = barBox(view, row);
  const text = visible(endingText(ending, view.scale.begin));
  const middle = round(y + height / 2);
  return [
    {
      tag: "g",
      key,
      attrs: cellAttrs(view, key, "gridcell", text, "lanes-cell lanes-mark lanes-mark-ending"),
      children: [
        { tag: "circle", key: "disc", attrs: { class: "lanes-disc", cx: round(x), cy: middle, r: 8 } },
        { tag: "path", key: "sign", attrs: { class: "lanes-cross", d: `M${round(x - 3.5)} ${middle - 3.5}l7 7m0 -7l-7 7` } },
      ],
    },
  ];
}
