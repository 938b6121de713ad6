/**
 * Why queued calls wait, by the rule of the engine (`nursery/scheduling.py`): in call order, safe ones together up to a
 * limit, an unsafe one alone, and none before the arguments of those ahead of it are complete. Pure.
 */

import { openSegment } from "./lane-rows.js";

const ADMITTED = new Set(["judged", "permission", "question", "running"]);

/**
 * Note in each queued call of a step why it waits from now on.
 * @param {?import("./lane-rows.js").Row} step
 * @param {number} at
 */
export function noteWaits(step, at) {
  if (step === null) return;
  const calls = step.children.filter((row) => row.kind === "call" && row.outcome === null);
  /** @type {import("./lane-rows.js").Row[]} */
  const running = [];
  let reason = "";
  for (const row of calls) {
    const state = openSegment(row)?.kind ?? "";
    if (ADMITTED.has(state)) {
      running.push(row);
    } else if (state === "queued") {
      reason = reason || reasonOf(row, running);
      setReason(row, reason, at);
      // First in, first out: those behind it wait for what it waits for.
      if (reason !== "") reason = reason.startsWith("behind") ? reason : `behind ${shortLabel(row)}: ${reason}`;
    } else if (state === "receiving") {
      reason = reason || `the arguments of ${shortLabel(row)} are being received`;
    }
  }
}

function reasonOf(row, running) {
  if (running.length === 0) return "";
  const alone = running.find((other) => other.facts.safe === "no");
  if (alone !== undefined) return `${shortLabel(alone)} runs alone`;
  if (row.facts.safe === "no") return `it runs alone, after ${running.length === 1 ? shortLabel(running[0]) : `${running.length} calls`}`;
  if (row.facts.safe === "yes") return `${running.length} calls run already, the limit`;
  return `${running.length === 1 ? `${shortLabel(running[0])} runs` : `${running.length} calls run`}`;
}

function setReason(row, reason, at) {
  const open = openSegment(row);
  if (open === null || (open.note ?? "") === reason) return;
  if (open.from === at) {
    if (reason) open.note = reason;
    else delete open.note;
    return;
  }
  open.to = at;
  row.segments.push(reason ? { kind: "queued", from: at, to: null, note: reason } : { kind: "queued", from: at, to: null });
}

function shortLabel(row) {
  return row.detail ? `${row.name} ${row.detail.slice(0, 30)}` : row.name;
}
