// @ts-check
/**
 * A session with its sub-agents, folded from what `session.watch()` yields. Pure, like `fold.js`; nothing here throws.
 *
 *     foldFamily(family, item) → family     starts with emptyFamily(id)
 *     openQuestions(family)                 by what was folded, or, where that is behind, by what the server said
 */
import { emptyState, fold, FoldError, openRequests } from "./fold.js";
import { DURABLE_EVENTS, LIVE_EVENTS } from "./protocol.js";

/** @import * as P from "./engine-control.d.ts" */
/** @import { State } from "./fold.js" */
/** @typedef {P.PermissionAsked | P.QuestionAsked | P.RecoveryAsked} Question */
/** @typedef {{ type: "resync", snapshot: P.FamilySnapshot } | { type: "head", head: P.SessionHead }} Note */
/** @typedef {{ type: "offline", since: number } | { type: "online" }} Change */
/** @typedef {P.Event | P.Elided | P.Unknown | Note | Change} Item */
/**
 * @typedef {object} Member
 * @property {State} state
 * @property {number} depth 0 for the root, 1 for its sub-agents, and so on.
 * @property {string | null} call_id the call, in the session above, that runs it.
 * @property {boolean} isStale an event was not known, or left out: the next snapshot repairs it.
 */
/**
 * @typedef {object} Family
 * @property {string} root the session that is watched.
 * @property {Record<string, Member>} sessions by id, the root among them once its beginning or a snapshot has come.
 * @property {Question[]} asked the open questions, the oldest first.
 * @property {P.SessionHead | null} head what was true when the stream began, or began again.
 * @property {string | null} older what to send as `before` to `messages` for older ones than the snapshot had.
 */

/** @param {string} root @returns {Family} */
export const emptyFamily = (root) => ({ root, sessions: {}, asked: [], head: null, older: null });

/**
 * Return the family after something that a stream yielded.
 * @param {Family} family @param {Item} item @returns {Family}
 */
export function foldFamily(family, item) {
  if (item.type === "head") return { ...family, head: /** @type {{ head: P.SessionHead }} */ (item).head };
  if (item.type === "resync") return fromSnapshot(family, /** @type {{ snapshot: P.FamilySnapshot }} */ (item).snapshot);
  if (item.type === "elided") return skipElided(family, /** @type {P.Elided} */ (item));
  if (!("session_id" in item)) return family;
  const event = /** @type {P.Event} */ (item);
  const member = family.sessions[event.session_id] ?? newMember(event);
  // Of a session that is not here from its beginning nothing can be folded.
  if (!member) return family;
  const next = foldMember(member, event);
  if (event.type === "turn_started" && event.call_id !== null) next.call_id = event.call_id;
  const sessions = { ...family.sessions, [event.session_id]: next };
  return { ...family, sessions, asked: stillOpen(sessions, family.asked, event) };
}

/** The open questions: by what was folded, or, where that is behind, by what the server said. @param {Family} family */
export function openQuestions({ root, sessions, asked, head }) {
  const seq = sessions[root]?.state.seq ?? -1;
  return head && head.seq > seq ? head.asked : asked;
}

/** @param {P.Event} event @returns {Member | null} */
const newMember = (event) =>
  event.type === "session_created"
    ? { state: emptyState(), depth: Math.max(0, event.path.length - 1), call_id: null, isStale: false }
    : null;

/** @param {Member} member @param {P.Event} event @returns {Member} */
function foldMember(member, event) {
  try {
    if (DURABLE_EVENTS.has(event.type) || LIVE_EVENTS.has(event.type)) return { ...member, state: fold(member.state, event) };
  } catch (error) {
    if (!(error instanceof FoldError)) throw error;
  }
  return { ...member, state: { ...member.state, seq: event.seq ?? member.state.seq }, isStale: true };
}

/** @param {Family} family @param {P.Elided} item @returns {Family} */
function skipElided(family, { seq, href }) {
  const id = sessionOf(href);
  const member = id === null ? undefined : family.sessions[id];
  if (!member || id === null || seq === null) return family;
  const skipped = { ...member, state: { ...member.state, seq }, isStale: true };
  return { ...family, sessions: { ...family.sessions, [id]: skipped } };
}

/** The session of a left-out event. @param {string} href */
export const sessionOf = (href) => /^v1\/sessions\/([^/]+)\//.exec(href)?.[1] ?? null;

/** @param {Record<string, Member>} sessions @param {Question[]} asked @param {P.Event} event */
function stillOpen(sessions, asked, event) {
  const isNew = event.type === "permission_asked" || event.type === "question_asked" || event.type === "recovery_asked";
  const turn = sessions[event.session_id].state.turn;
  const open = turn === null ? [] : openRequests(turn);
  const others = asked.filter((each) => each.session_id !== event.session_id || open.includes(each.request_id));
  if (isNew && open.includes(event.request_id) && !others.some((each) => each.request_id === event.request_id))
    return [...others, event];
  return others.length === asked.length ? asked : others;
}

/** @param {Family} family @param {P.FamilySnapshot} snapshot @returns {Family} */
function fromSnapshot(family, { sessions, asked, messages, older }) {
  /** @type {Record<string, Member>} */
  const members = {};
  for (const [index, { state, messages: count, depth, call_id }] of sessions.entries()) {
    const transcript = index === 0 ? messages : [];
    const skipped = count - transcript.length;
    members[state.session_id] = {
      state: { ...state, transcript, ...(skipped ? { skipped } : {}) },
      depth,
      call_id,
      isStale: false,
    };
  }
  return { ...family, sessions: members, asked, older };
}
