/** The keys: arrows along time and lanes, and what a letter does. */

import { cellsOf } from "./row-scene.js";

const PAGE_LINES = 10;

/**
 * The cell that a key leads to. Pure.
 * @param {string} key the name of the key
 * @param {boolean} whole with Ctrl: the whole picture instead of the row
 * @param {import("./visible-rows.js").Line[]} lines
 * @param {string} focus the cell that has the focus
 * @returns {?string} the key of the cell; null: the key leads nowhere
 */
export function nextCell(key, whole, lines, focus) {
  if (lines.length === 0) return null;
  const index = Math.max(0, lines.findIndex(({ row }) => focus.startsWith(`${row.id}|`)));
  const { row } = lines[index];
  const own = [`${row.id}|label`, ...cellsOf(row).map((cell) => cell.key)];
  const at = Math.max(0, own.indexOf(focus));
  const vertical = { ArrowUp: -1, ArrowDown: 1, PageUp: -PAGE_LINES, PageDown: PAGE_LINES }[key];
  if (vertical !== undefined) return near(lines[clamp(index + vertical, lines)].row, row, own[at]);
  if (key === "ArrowLeft") return own[Math.max(0, at - 1)];
  if (key === "ArrowRight") return own[Math.min(own.length - 1, at + 1)];
  if (key === "Home") return whole ? `${lines[0].row.id}|label` : own[0];
  if (key === "End") return whole ? `${lines[lines.length - 1].row.id}|label` : own[own.length - 1];
  return null;
}

function clamp(index, lines) {
  return Math.min(lines.length - 1, Math.max(0, index));
}

/** The cell of another row that is nearest in time to this one. */
function near(other, row, focus) {
  const cell = cellsOf(row).find(({ key }) => key === focus);
  if (cell === undefined) return `${other.id}|label`;
  let best = null;
  for (const each of cellsOf(other)) {
    const distance = Math.abs(each.at - cell.at);
    if (best === null || distance < best.distance) best = { key: each.key, distance };
  }
  return best?.key ?? `${other.id}|label`;
}

/**
 * Do what a key means.
 * @param {import("./lanes-view.js").LanesView} view
 * @param {KeyboardEvent} event
 */
export function onKey(view, event) {
  if (event.altKey || event.metaKey) return;
  const next = nextCell(event.key, event.ctrlKey, view.lines, view.focus);
  if (next !== null) view.focusCell(next);
  else if (event.ctrlKey || !act(view, event.key)) return;
  event.preventDefault();
}

function act(view, key) {
  if (key === "Enter") return view.open();
  if (key === " ") return view.toggleFold();
  if (!view.letterKeys()) return false;
  const actions = {
    "+": () => view.zoomBy(1.6),
    "=": () => view.zoomBy(1.6),
    "-": () => view.zoomBy(1 / 1.6),
    0: () => view.fit(),
    f: () => view.setFollow(!view.follow),
    w: () => view.setFoldWaits(!view.foldWaits),
    r: () => view.jump("running"),
    e: () => view.jump("failed"),
    s: () => view.jump("slowest"),
    c: () => view.jump("ended"),
  };
  const action = Object.hasOwn(actions, key) ? actions[key] : undefined;
  if (action === undefined) return false;
  action();
  return true;
}
