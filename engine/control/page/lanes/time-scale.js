/**
 * Where an instant is on the axis: long waits are folded to a fixed length. Pure.
 *
 * A wait is a time in which nothing works: no request, no answer, no tool; somebody is to answer, or a retry is due, or no
 * turn runs. Up to `SHOWN` seconds of it are drawn. So a wait that goes on stops growing, and nothing jumps.
 */

import { delegates } from "./parallelism.js";

/** Seconds of a wait that are drawn. */
export const SHOWN = 5;

const WORK = new Set(["request", "stream", "receiving", "judged", "running", "compaction"]);

/** @typedef {{from: number, to: number}} Span */

/**
 * Return when anything works, in order and without overlaps; what lasts still has no end.
 * @param {import("./lane-rows.js").Row[]} rows
 * @returns {Span[]}
 */
export function workSpans(rows) {
  /** @type {Span[]} */
  const work = [];
  collectWork(rows, work);
  work.sort((a, b) => a.from - b.from);
  /** @type {Span[]} */
  const merged = [];
  for (const span of work) {
    const last = merged.at(-1);
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else merged.push({ ...span });
  }
  return merged;
}

function collectWork(rows, work) {
  for (const row of rows) {
    const works = row.kind !== "background" && !(row.kind === "call" && delegates(row));
    for (const { kind, from, to } of works ? row.segments : []) {
      if (WORK.has(kind)) work.push({ from, to: to ?? Infinity });
    }
    collectWork(row.children, work);
  }
}

/**
 * Return the spans of more than `SHOWN` seconds in which nothing works.
 * @param {Span[]} work see `workSpans`
 * @param {number} begin
 * @param {number} now what lasts still, lasts until then
 * @param {number} [end] of the axis
 * @returns {Span[]}
 */
export function longWaits(work, begin, now, end = now) {
  const waits = [];
  let idle = begin;
  for (const { from, to } of work) {
    if (from - idle > SHOWN) waits.push({ from: idle, to: from });
    idle = Math.max(idle, Math.min(to, now));
  }
  if (end - idle > SHOWN) waits.push({ from: idle, to: end });
  return waits;
}

export class TimeScale {
  /**
   * @param {number} begin
   * @param {number} end
   * @param {Span[]} waits to be folded, in order; none: nothing is folded
   */
  constructor(begin, end, waits) {
    this.begin = begin;
    this.end = Math.max(end, begin);
    /** @type {{from: number, to: number, at: number, length: number, folded: boolean}[]} */
    this.pieces = [];
    let [time, at] = [begin, 0];
    const add = (to, folded) => {
      const length = folded ? SHOWN : to - time;
      if (to > time) this.pieces.push({ from: time, to, at, length, folded });
      [time, at] = [Math.max(time, to), at + Math.max(0, length)];
    };
    for (const wait of waits) {
      add(Math.max(time, wait.from), false);
      add(wait.to, true);
    }
    add(this.end, false);
    /** Seconds that are drawn. */
    this.length = at;
  }

  /** The breaks: folded waits. */
  get breaks() {
    return this.pieces.filter((piece) => piece.folded);
  }

  /** @param {number} time @returns {number} its place, in drawn seconds */
  place(time) {
    const piece = this.#piece((each) => time <= each.to);
    if (piece === undefined) return 0;
    if (time > piece.to) return piece.at + piece.length + time - piece.to;
    // A wait is drawn at its true scale as far as it is drawn: what lies in the folded rest is at the break's end.
    return piece.at + Math.min(time - piece.from, piece.length);
  }

  /** @param {number} place @returns {number} the time there */
  time(place) {
    const piece = this.#piece((each) => place <= each.at + each.length);
    return piece === undefined ? this.begin : piece.from + (place - piece.at);
  }

  #piece(isBefore) {
    let [low, high] = [0, this.pieces.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.pieces[middle])) high = middle;
      else low = middle + 1;
    }
    return this.pieces[low];
  }

  /**
   * Times for the axis, with at least *apart* drawn seconds between two of them.
   * @param {number} apart @param {number} from @param {number} to both as places
   * @returns {number[]}
   */
  ticks(apart, from, to) {
    const step = STEPS.find((each) => each >= apart) ?? Math.ceil(apart / 86400) * 86400;
    const ticks = [];
    for (const piece of this.pieces) {
      if (piece.at + piece.length < from || piece.at > to) continue;
      const last = Math.min(piece.from + piece.length, this.time(to));
      const first = Math.max(piece.from, this.time(Math.max(from, piece.at)));
      let n = Math.ceil((first - this.begin) / step - 1e-6);
      for (; this.begin + n * step <= last + 1e-9; n += 1) ticks.push(this.begin + n * step);
    }
    return ticks;
  }
}

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400,
];
