/** The rows in the order in which they are drawn, without those inside folded ones; and where to jump to. Pure. */

/**
 * @typedef {import("./lane-rows.js").Row} Row
 * @typedef {{row: Row, level: number, parent: number, index: number, folded: boolean, last: number}} Line
 *   `parent` is the index of the line above it in the tree, or -1; `last` the index of its last descendant's line
 */

/**
 * @param {Row[]} roots
 * @param {Set<string>} folded the ids of folded rows
 * @returns {Line[]}
 */
export function linesOf(roots, folded) {
  /** @type {Line[]} */
  const lines = [];
  const add = (rows, level, parent) => {
    for (const row of rows) {
      const line = { row, level, parent, index: lines.length, folded: folded.has(row.id), last: lines.length };
      lines.push(line);
      if (!line.folded) add(row.children, level + 1, line.index);
      line.last = lines.length - 1;
    }
  };
  add(roots, 1, -1);
  return lines;
}

/** All rows below *rows*, and these. @param {Row[]} rows @returns {Row[]} */
export function allRows(rows) {
  const found = [];
  const waiting = [...rows].reverse();
  for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
    found.push(row);
    for (let n = row.children.length - 1; n >= 0; n -= 1) waiting.push(row.children[n]);
  }
  return found;
}

/** The ids of the rows above *id*, the root first; empty if there is none. @param {Row[]} roots @param {string} id @returns {string[]} */
export function pathTo(roots, id) {
  const search = (rows, above) => {
    for (const row of rows) {
      if (row.id === id) return above;
      const found = search(row.children, [...above, row.id]);
      if (found !== null) return found;
    }
    return null;
  };
  return search(roots, []) ?? [];
}

/** @param {Row} row */
export function hasFailed(row) {
  const { outcome } = row;
  if (outcome === null) return false;
  if (row.kind === "turn") return outcome.status !== "completed";
  return outcome.failed || ["error", "denied", "aborted", "discarded"].includes(outcome.status);
}

/** Seconds that a row's own work took. @param {Row} row @param {number} now */
export function workTime(row, now) {
  let seconds = 0;
  for (const { kind, from, to } of row.segments) if (kind === "running") seconds += (to ?? now) - from;
  return seconds;
}

/**
 * The rows that a jump goes through, the first one first.
 * @param {"running"|"failed"|"slowest"|"ended"} kind
 * @param {Row[]} roots
 * @param {number} now
 * @returns {Row[]}
 */
export function targets(kind, roots, now) {
  const rows = allRows(roots);
  if (kind === "ended") return rows.filter((row) => row.ending !== null && row.depth === 0);
  if (kind === "failed") return rows.filter((row) => row.kind !== "turn" && hasFailed(row));
  const calls = rows.filter((row) => row.kind === "call");
  if (kind === "running") return calls.filter((row) => row.outcome === null);
  return calls
    .filter((row) => workTime(row, now) > 0)
    .sort((a, b) => workTime(b, now) - workTime(a, now))
    .slice(0, 10);
}
