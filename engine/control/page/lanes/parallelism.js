/** How many calls ran and waited at once: the strip below the axis. Pure. */

/** @typedef {{at: number, running: number, queued: number}} Level from that time on */

/** Seconds between two instants that are one: what ends and what begins then did not run at once. */
const SAME = 1e-6;

/**
 * @param {import("./lane-rows.js").Row[]} roots
 * @returns {Level[]}
 */
export function strip(roots) {
  /** @type {[number, number, number][]} */
  const changes = [];
  collect(roots, changes);
  changes.sort((a, b) => a[0] - b[0]);
  /** @type {Level[]} */
  const levels = [];
  let running = 0;
  let queued = 0;
  for (const [at, more, waiting] of changes) {
    running += more;
    queued += waiting;
    const last = levels.at(-1);
    if (last !== undefined && at - last.at < SAME) Object.assign(last, { running, queued });
    else levels.push({ at, running, queued });
  }
  return levels.filter((level, n) => n === 0 || level.running !== levels[n - 1].running || level.queued !== levels[n - 1].queued);
}

/** Whether a call only waits for its sub-agents, whose own calls count. @param {import("./lane-rows.js").Row} row */
export function delegates(row) {
  return row.children.some((child) => child.kind === "turn");
}

function collect(rows, changes) {
  for (const row of rows) {
    if (row.kind === "call") {
      for (const { kind, from, to } of row.segments) {
        if (kind === "running" && !delegates(row)) addSpan(changes, from, to, 1, 0);
        if (kind === "queued") addSpan(changes, from, to, 0, 1);
      }
    }
    collect(row.children, changes);
  }
}

function addSpan(changes, from, to, running, queued) {
  changes.push([from, running, queued]);
  if (to !== null) changes.push([to, -running, -queued]);
}
