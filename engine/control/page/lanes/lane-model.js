/**
 * The picture of a session, from its events. Pure: the same events give the same picture, whether they come live, from
 * the store, from the middle of a session, or from a file.
 *
 * Durable events that come twice are ignored, so whoever feeds it may overlap what was fed before. Of live events only
 * `turn_ending` counts: `turn_ended` repeats it, so that the picture of a finished session is the live one.
 */

import { HANDLERS } from "./lane-events.js";
import { callId, newRow, turnId } from "./lane-rows.js";
import { strip } from "./parallelism.js";

/**
 * @typedef {import("./lane-rows.js").Row} Row
 * @typedef {object} Session
 * @property {string} id
 * @property {number} depth
 * @property {string} agent
 * @property {?{session: string, call: string}} parent the call that created it
 * @property {number} seq of the newest event that was fed
 * @property {?Row} turn the newest turn
 * @property {?Row} step its newest step
 * @property {Map<string, Set<string>>} parts those being received, by message
 * @property {number} turns
 * @property {number} last the time of the newest event
 * @property {?{from: number, to: number}} gap the last long silence
 * @property {boolean} crashed whether calls of the newest turn were interrupted by a crash
 */

/** Seconds without an event, after which a crash may have been the reason. */
const SILENCE = 0.5;

export class LaneModel {
  constructor() {
    /** @type {Row[]} */
    this.roots = [];
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    /** @type {Map<string, {row: Row, back: string}>} open questions, by request */
    this.requests = new Map();
    /** The mode of input that waits, by its id. @type {Map<string, string>} */
    this.inputs = new Map();
    /** The time of the first and the last event; null before there is one. @type {?number} */
    this.begin = null;
    /** @type {?number} */
    this.end = null;
    /** Grows with each change, so that a view knows when to draw. */
    this.version = 0;
  }

  /**
   * @param {Record<string, any>} event as JSON has it
   * @returns {boolean} whether the picture has changed
   */
  feed(event) {
    const handler = HANDLERS[event.type];
    const session = this.session(event);
    if (typeof event.seq === "number") {
      if (event.seq <= session.seq) return false;
      session.seq = event.seq;
    }
    if (event.time - session.last > SILENCE) session.gap = { from: session.last, to: event.time };
    session.last = Math.max(session.last, event.time);
    if (handler === undefined) return false;
    if (this.begin === null) this.begin = event.time;
    this.end = Math.max(this.end ?? event.time, event.time);
    handler(this, event, session);
    this.version += 1;
    return true;
  }

  /** @param {Iterable<Record<string, any>>} events @returns {boolean} */
  feedAll(events) {
    let changed = false;
    for (const event of events) changed = this.feed(event) || changed;
    return changed;
  }

  /** Whether anything lasts still. */
  get isOpen() {
    return this.roots.some((row) => row.to === null);
  }

  /** The whole picture as data. @returns {{begin: ?number, end: ?number, rows: Row[], strip: import("./parallelism.js").Level[]}} */
  picture() {
    return { begin: this.begin, end: this.end, rows: this.roots, strip: strip(this.roots) };
  }

  // -- for the handlers -------------------------------------------------------------------

  /** @param {Record<string, any>} event @returns {Session} */
  session(event) {
    const id = event.session_id;
    let session = this.sessions.get(id);
    if (session === undefined) {
      const path = event.path ?? [id];
      session = {
        id,
        depth: Math.max(0, path.length - 1),
        agent: "",
        parent: null,
        seq: 0,
        turn: null,
        step: null,
        parts: new Map(),
        turns: 0,
        last: event.time,
        gap: null,
        crashed: false,
      };
      this.sessions.set(id, session);
    }
    return session;
  }

  /** The row of the event's turn; of a half loaded session one without a beginning. @returns {?Row} */
  turn(event, session) {
    if (!event.turn_id) return null;
    return this.rows.get(turnId(event)) ?? this.addTurn(event, session, true);
  }

  /** @returns {Row} */
  addTurn(event, session, partial) {
    session.turns += 1;
    const above = this.parentCall(event, session);
    const name = session.depth === 0 ? `Turn ${session.turns}` : session.agent || "sub-agent";
    const row = newRow("turn", turnId(event), { session: session.id, depth: session.depth, name, at: event.time, partial });
    row.segments.push({ kind: "turn", from: event.time, to: null });
    session.turn = row;
    session.step = null;
    return this.add(row, above);
  }

  /** The call that an event's session works for. @returns {?Row} */
  parentCall(event, session) {
    const path = event.path ?? [];
    const above = path.length > 1 ? path[path.length - 2] : (session.parent?.session ?? "");
    const call = event.type === "turn_started" && event.call_id ? event.call_id : session.parent?.call;
    // Where its call is not among the events, below the turn that runs it.
    return this.rows.get(callId(above, call ?? "")) ?? this.sessions.get(above)?.turn ?? null;
  }

  /** The row of a call; of a half loaded session one without a beginning. @returns {Row} */
  call(event, session) {
    return this.rows.get(callId(session.id, event.call_id)) ?? this.addCall(event, session, true);
  }

  /** @returns {Row} */
  addCall(event, session, partial) {
    const row = newRow("call", callId(session.id, event.call_id), {
      session: session.id,
      depth: session.depth,
      name: event.tool ?? "call",
      at: event.time,
      call: event.call_id,
      partial,
    });
    return this.add(row, session.step ?? this.turn(event, session));
  }

  /** @param {Row} row @param {?Row} above @returns {Row} */
  add(row, above) {
    this.rows.set(row.id, row);
    (above === null ? this.roots : above.children).push(row);
    return row;
  }
}
