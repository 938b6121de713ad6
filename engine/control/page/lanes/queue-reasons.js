/**
 * Why queued calls wait, by the rule of the engine (`nursery/scheduling.py`): in call order, safe ones together up to a
 * limit, an unsafe one alone, and none before the arguments of those ahead of it are complete. Pure.
 */

import { enter, openSegment } from "./lane-rows.js";

const ADMITTED = new Set(["judged", "permission", "question", "running"]);

/**
 * Note in each queued call of a step why it waits from now on. One that may start is being prepared: the engine says so only
 * later, when it was judged or has started.
 * @param {?import("./lane-rows.js").Row} step
 * @param {number} at
 */
export function noteWaits(step, at) {
  if (step === null) return;
  const calls = step.children.filter((row) => row.kind === "call" && row.outcome === null);
  /** @type {import("./lane-rows.js").Row[]} */
  const running = [];
  let reason = "";
  calls.forEach((row, n) => {
    const state = openSegment(row)?.kind ?? "";
    if (ADMITTED.has(state)) {
      running.push(row);
    } else if (state === "queued") {
      reason = reason || reasonOf(row, running, n === calls.length - 1, step.facts.parallel);
      if (reason === "") {
        enter(row, "judged", at);
        running.push(row);
        return;
      }
      setReason(row, reason, at);
      // First in, first out: those behind it wait for what it waits for.
      if (!reason.startsWith("behind")) reason = `behind ${shortLabel(row)}: ${reason}`;
    } else if (state === "receiving") {
      reason = reason || `the arguments of ${shortLabel(row)} are being received`;
    }
  });
}

/** Why a call may not start; empty: it may. An older engine did not record what this needs. */
function reasonOf(row, running, isLast, limit) {
  const { safe } = row.facts;
  if (running.length === 0) {
    if (safe === "") return "it is being checked";
    return safe === "no" && isLast ? "it waits for the end of the answer, or is being checked" : "";
  }
  const alone = running.find((other) => other.facts.safe === "no");
  if (alone !== undefined) return `${shortLabel(alone)} runs alone`;
  const others = running.length === 1 ? shortLabel(running[0]) : `${running.length} calls`;
  if (safe === "no") return `it runs alone, after ${others}`;
  if (safe === "") return `${others} before it`;
  if (limit === "") return `${others} before it`;
  return running.length >= limit ? `${running.length} calls run already, the limit` : "";
}

function setReason(row, reason, at) {
  const open = openSegment(row);
  if (open === null || open.note === reason) return;
  if (open.from === at || open.note === undefined) open.note = reason;
  else enter(row, "queued", at, reason);
}

function shortLabel(row) {
  return row.detail ? `${row.name} ${row.detail.slice(0, 30)}` : row.name;
}
