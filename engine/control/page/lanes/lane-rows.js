/**
 * Rows of the lanes: what happens to a row as time passes. Pure data, no clock and no DOM.
 *
 * A row is a turn, a step (its reader of the model's answer), a call, or a background command. Its segments follow each
 * other without overlap; the last one is open (`to` is null) while it lasts.
 *
 * @typedef {{kind: string, from: number, to: ?number, note?: string}} Segment
 * @typedef {{kind: string, at: number, text: string, by: string}} Mark
 * @typedef {{cause: string, detail: string, at: number, until: number, by: string}} Ending
 * @typedef {{status: string, reason: ?string, failed: boolean, unknown: boolean, text: string}} Outcome
 * @typedef {object} Row
 * @property {string} id unique in the picture
 * @property {"turn"|"step"|"call"|"background"} kind
 * @property {string} name what it is called: the tool, the agent, the model
 * @property {string} detail what distinguishes it from others of that name
 * @property {string} session
 * @property {?string} call the id of the call, where it is one
 * @property {number} depth how many sub-agents deep it is
 * @property {number} from
 * @property {?number} to
 * @property {boolean} partial whether its beginning was not among the events
 * @property {Segment[]} segments
 * @property {Mark[]} marks
 * @property {?Outcome} outcome
 * @property {?Ending} ending what ended a turn early
 * @property {Record<string, string|number>} facts what else there is to know
 * @property {Row[]} children
 */

/** Characters of a text that the picture keeps. The trace file is written with the same limit: see `trace_page.py`. */
export const KEPT = 400;

/** Seconds that are no time: what an engine does in one go takes some microseconds. */
const INSTANT = 0.0005;

/** @param {unknown} text @returns {string} its beginning */
export function clip(text) {
  if (typeof text !== "string") return "";
  if (text.length <= KEPT) return text;
  // Whole characters: half of a pair would differ from what the trace file holds.
  const kept = Array.from(text.slice(0, 2 * KEPT + 2));
  return kept.length <= KEPT && text.length <= 2 * KEPT + 2 ? text : `${kept.slice(0, KEPT).join("")}…`;
}

/**
 * @param {Row["kind"]} kind
 * @param {string} id
 * @param {{session: string, depth: number, name: string, at: number, call?: ?string, partial?: boolean}} about
 * @returns {Row}
 */
export function newRow(kind, id, about) {
  return {
    id,
    kind,
    name: about.name,
    detail: "",
    session: about.session,
    call: about.call ?? null,
    depth: about.depth,
    from: about.at,
    to: null,
    partial: about.partial ?? false,
    segments: [],
    marks: [],
    outcome: null,
    ending: null,
    facts: {},
    children: [],
  };
}

/** @param {Row} row @returns {?Segment} the one that lasts still */
export function openSegment(row) {
  const last = row.segments.at(-1);
  return last !== undefined && last.to === null ? last : null;
}

/** End what lasts, and begin something else. @param {Row} row @param {string} kind @param {number} at @param {string} [note] */
export function enter(row, kind, at, note) {
  closeSegment(row, at);
  const segment = { kind, from: at, to: null };
  row.segments.push(note ? { ...segment, note } : segment);
}

/** @param {Row} row @param {number} at */
export function closeSegment(row, at) {
  const open = openSegment(row);
  if (open === null) return;
  open.to = Math.max(at, open.from);
  // What took no time is not shown, except the one thing that a row is about.
  if (open.to - open.from < INSTANT && open.kind !== "running") row.segments.pop();
}

/** @param {Row} row @param {string} kind @param {number} at @param {string} [text] @param {string} [by] */
export function mark(row, kind, at, text = "", by = "") {
  row.marks.push({ kind, at, text: clip(text), by });
}

/**
 * What distinguishes calls of one tool: the first short text among the arguments, which may be cut off.
 * @param {string} json @returns {string}
 */
export function brief(json) {
  const found = /:\s*"((?:[^"\\]|\\.)+)/s.exec(json);
  if (found === null) return json === "{}" ? "" : json;
  try {
    return JSON.parse(`"${found[1]}"`);
  } catch {
    return found[1];
  }
}

/** @returns {string} */
export function turnId(event) {
  return `turn ${event.session_id} ${event.turn_id}`;
}

/** @returns {string} */
export function callId(session, call) {
  return `call ${session} ${call}`;
}
