// @ts-check
/**
 * The state of a session, as folded from its events: the same as engine/journal/fold.py, in plain JSON. Pure: each call
 * returns a new value, and shares with the old one what has not changed, so `===` tells what to draw again.
 *
 *     fold(state, event) → state       starts with emptyState(). Throws FoldError if the event can't follow.
 *     statusOf(state), messageCount(state)
 *
 * A state is the document `session_state` of the protocol. After a snapshot `transcript` holds only the newest messages, and
 * `skipped` says how many come before them.
 */
import { DURABLE_EVENTS, EMPTY_STATE, LIVE_EVENTS } from "./protocol.js";

/** @import * as P from "./engine-control.d.ts" */
/** @typedef {P.SessionState & { skipped?: number }} State */
/** @template {P.Event["type"]} T @typedef {Extract<P.Event, { type: T }>} Of */
/** @typedef {{ [T in P.DurableEvent["type"]]?: (state: State, event: Of<T>) => State }} Handlers */

/** An event can't follow the state. */
export class FoldError extends Error {
  name = "FoldError";
}

/** @returns {State} */
export const emptyState = () => /** @type {State} */ (EMPTY_STATE);

/** How many messages the transcript has, with those before a snapshot's. @param {State} state */
export const messageCount = (state) => (state.skipped ?? 0) + state.transcript.length;

/** The ids of the open questions of a turn. @param {P.OpenTurn} turn */
export const openRequests = (turn) => [...turn.requests, ...turn.questions, ...(turn.recovery === null ? [] : [turn.recovery])];

/** What a session does. @param {P.SessionState} state @returns {P.SessionHead["status"]} */
export function statusOf({ turn }) {
  if (turn === null) return { type: "idle" };
  const ids = openRequests(turn);
  if (ids.length) return { type: "waiting", request_ids: ids };
  return turn.retry ?? { type: "busy", step: turn.steps };
}

/**
 * Return the state after one more event. Throws `FoldError` if it can't follow.
 * @param {State} state @param {P.Event} event @returns {State}
 */
export function fold(state, event) {
  if (state.session_id && event.session_id !== state.session_id)
    throw new FoldError(`an event of session ${event.session_id} came among those of ${state.session_id}`);
  switch (event.type) {
    case "text_delta":
    case "reasoning_delta":
    case "arguments_delta":
      return applyDelta(state, event);
    case "turn_ending": {
      const { cause, detail, until, by, time } = event;
      return { ...state, turn: { ...openTurn(state, event), ending: { cause, detail, until, by, at: time } } };
    }
  }
  if (LIVE_EVENTS.has(event.type)) return state;
  if (event.seq !== null && event.seq !== state.seq + 1)
    throw new FoldError(`event ${event.seq} of session ${event.session_id} follows ${state.seq}: a gap`);
  const type = /** @type {P.DurableEvent["type"]} */ (event.type);
  const handler = DURABLE_EVENTS.has(type) ? HANDLERS[type] : undefined;
  const apply = /** @type {((state: State, event: P.Event) => State) | undefined} */ (handler);
  const folded = apply ? apply(state, event) : state;
  return event.seq === null ? folded : { ...folded, seq: event.seq };
}

// -- a session ---------------------------------------------------------------------------

/** @type {Handlers} */
const HANDLERS = {
  session_created: (state, { session_id, context, model, agent, parent_id, forked_from }) => {
    if (state.session_id) throw new FoldError(`session ${state.session_id} was created twice`);
    return { ...state, session_id, context, model, agent, parent_id, forked_from };
  },
  session_titled: (state, event) => {
    const spent = spend(state, event);
    if (event.by === "model" && (state.titled_by === "user" || !event.title)) return spent;
    return { ...spent, title: event.title, titled_by: event.by };
  },
  model_switched: (state, { model }) => ({ ...state, model }),
  session_configured: (state, { profile, by }) => ({ ...state, profile, profile_by: profile && by }),
  context_changed: (state, event) => ({ ...state, context: mergeContext(state.context, event) }),
  input_admitted: (state, { input_id, mode, message }) => {
    if (state.inbox.some((item) => item.input_id === input_id)) throw new FoldError(`input ${input_id} came twice`);
    return { ...state, inbox: [...state.inbox, { input_id, mode, message }] };
  },
  input_promoted: (state, { input_id }) =>
    append({ ...state, inbox: without(state.inbox, input_id) }, pendingInput(state, input_id).message),
  input_edited: (state, { input_id, message }) => {
    const edited = { ...pendingInput(state, input_id), message };
    return { ...state, inbox: state.inbox.map((item) => (item.input_id === input_id ? edited : item)) };
  },
  input_removed: (state, { input_id }) => {
    pendingInput(state, input_id);
    return { ...state, inbox: without(state.inbox, input_id) };
  },
  prompt_blocked: (state, { message_id }) => {
    const index = state.transcript.findIndex(({ id }) => id === message_id);
    if (state.transcript[index]?.type !== "user") throw new FoldError(`no prompt ${message_id} to take back`);
    const before = Number((state.skipped ?? 0) + index < state.reasoning_from);
    const transcript = state.transcript.filter((_, at) => at !== index);
    return { ...state, transcript, counted: null, reasoning_from: state.reasoning_from - before };
  },
  nudge_added: (state, { message }) => append(state, message),
  prompt_set: (state, { sections, cwd, project }) => {
    const names = new Set(sections.map(({ name }) => name));
    // Sections that are not in the new beginning may still be known to the model from a message in the transcript.
    const updates = (state.prompt?.updates ?? [])
      .map((each) => ({ ...each, sections: each.sections.filter(({ name }) => !names.has(name)), removed: [] }))
      .filter((each) => each.sections.length);
    return { ...state, prompt: { sections, cwd, project, updates, is_outdated: false } };
  },
  prompt_updated: (state, { message, sections, removed }) => {
    if (state.prompt === null) throw new FoldError("the prompt was updated before it was set");
    const update = { message_id: message.id, sections, removed, is_held: true };
    return append({ ...state, prompt: { ...state.prompt, updates: [...state.prompt.updates, update] } }, message);
  },
  background_started: (state, { work_id, kind, name, detail }) => {
    if (state.background.some((work) => work.work_id === work_id)) throw new FoldError(`${work_id} began twice`);
    return { ...state, background: [...state.background, { work_id, kind, name, detail }] };
  },
  background_ended: (state, { work_id }) => {
    const background = state.background.filter((work) => work.work_id !== work_id);
    if (background.length === state.background.length) throw new FoldError(`${work_id} ended but never began`);
    return { ...state, background };
  },
  history_replaced: (state, { messages, kind }) => {
    const next = replaceHistory(state, messages);
    return next.prompt && kind === "compact" ? { ...next, prompt: { ...next.prompt, is_outdated: true } } : next;
  },
  compaction_started: (state, event) => ({ ...state, turn: { ...openTurn(state, event), retry: null } }),
  compaction_ended: (state, event) => spend({ ...state, turn: { ...openTurn(state, event), retry: null } }, event),
  turn_undone: (state, { undone, keep, messages }) => {
    if (state.turn !== null) throw new FoldError(`turn ${undone} was undone while another was open`);
    const cut = keep - (state.skipped ?? 0);
    // Below the snapshot's messages: what the turn said is not here, so it could not be redone.
    if (cut < 0 || cut > state.transcript.length) throw new FoldError(`turn ${undone} was undone to message ${keep}`);
    const turn = { turn_id: undone, keep, messages: state.transcript.slice(cut) };
    const kept = [...state.transcript.slice(0, cut), ...messages];
    return { ...replaceHistory(state, kept, state.skipped), undone: [...state.undone, turn] };
  },
  turn_redone: (state, { redone }) => {
    const last = state.undone.at(-1);
    const cut = (last?.keep ?? 0) - (state.skipped ?? 0);
    if (state.turn !== null || last?.turn_id !== redone || cut < 0) throw new FoldError(`turn ${redone} was redone`);
    const kept = [...state.transcript.slice(0, cut), ...last.messages];
    return { ...replaceHistory(state, kept, state.skipped), undone: state.undone.slice(0, -1) };
  },

  // -- a turn and its steps
  turn_started: (state, { turn_id }) => {
    if (state.turn !== null || turn_id === null) throw new FoldError(`turn ${turn_id} begins inside another`);
    return { ...state, turn: { ...NEW_TURN, turn_id }, undone: [] };
  },
  turn_resumed: (state, event) => {
    const turn = { ...openTurn(state, event), requests: [], questions: [], recovery: null, retry: null };
    if (turn.step === null) return { ...state, turn };
    const calls = turn.step.calls.map((call) =>
      call.state === "running" ? { ...call, state: /** @type {const} */ ("queued") } : call,
    );
    return { ...state, turn: { ...turn, step: { ...turn.step, calls } } };
  },
  step_started: (state, event) => {
    const turn = openTurn(state, event);
    if (turn.step !== null) throw new FoldError(`step ${event.step} begins inside step ${turn.step.step}`);
    const { step, attempt, message_id, model } = event;
    const opened = { step, attempt, message_id, model, parts: [], calls: [], received: null };
    return { ...state, turn: { ...turn, step: opened, retry: null, steps: step } };
  },
  step_received: (state, event) => {
    const { finish, detail, usage, cost, prefix_broken_at } = event;
    return withStep(state, { ...openMessage(state, event), received: { finish, detail, usage, cost, prefix_broken_at } });
  },
  step_ended: (state, event) => {
    const step = openMessage(state, event);
    const { input, cache_read, cache_write } = event.usage;
    // The host's own count of the prompt.
    const counted =
      input + cache_read + cache_write ? { usage: event.usage, messages: messageCount(state) } : state.counted;
    const next = { ...spend(state, event), turn: { ...openTurn(state, event), step: null }, counted };
    return event.kept ? append(next, ...messagesOf(step, event)) : next;
  },
  turn_ended: (state, event) => {
    if (openTurn(state, event).step !== null) throw new FoldError(`turn ${event.turn_id} ends with an open step`);
    return { ...state, turn: null, last_result: event.result, turns: state.turns + 1 };
  },
  loop_continued: (state, event) => {
    openTurn(state, event);
    // The host refused the signatures of earlier reasoning: requests leave it out from here back.
    return event.reason === "signature_retry" ? { ...state, reasoning_from: messageCount(state) } : state;
  },

  // -- what a turn waits for
  retry_scheduled: (state, event) => {
    const { attempt, message, next_at } = event;
    return { ...state, turn: { ...openTurn(state, event), retry: { type: "retry", attempt, message, next_at } } };
  },
  permission_asked: (state, event) => {
    const turn = openTurn(state, event);
    return { ...state, turn: { ...turn, requests: [...turn.requests, event.request_id] } };
  },
  permission_answered: (state, event) => {
    const turn = openTurn(state, event);
    return { ...state, turn: { ...turn, requests: answered(turn.requests, event.request_id) } };
  },
  question_asked: (state, event) => {
    const turn = openTurn(state, event);
    return { ...state, turn: { ...turn, questions: [...turn.questions, event.request_id] } };
  },
  question_answered: (state, event) => {
    const turn = openTurn(state, event);
    return { ...state, turn: { ...turn, questions: answered(turn.questions, event.request_id) } };
  },
  recovery_asked: (state, event) => ({ ...state, turn: { ...openTurn(state, event), recovery: event.request_id } }),
  recovery_answered: (state, event) => {
    const turn = openTurn(state, event);
    answered(turn.recovery === null ? [] : [turn.recovery], event.request_id);
    return { ...state, turn: { ...turn, recovery: null } };
  },

  // -- the message that is being written
  part_started: (state, event) => {
    const step = openMessage(state, event);
    if (step.parts.some(({ part_id }) => part_id === event.part_id)) throw new FoldError(`${event.part_id} began twice`);
    const part = { part_id: event.part_id, kind: event.kind, text: "", part: null };
    return withStep(state, { ...step, parts: [...step.parts, part] });
  },
  part_ended: (state, event) => {
    const step = openMessage(state, event);
    const { part } = event;
    const text = part.type === "call" ? part.arguments : "text" in part ? part.text : "";
    return withStep(state, withPart(step, { ...openPart(step, part.id), part, text }));
  },
  part_replaced: (state, event) => {
    const step = openMessage(state, event);
    return withStep(state, withPart(step, { ...openPart(step, event.part_id), text: "" }));
  },
  part_discarded: (state, event) => {
    const step = openMessage(state, event);
    const parts = step.parts.filter(({ part_id }) => part_id !== event.part_id);
    if (parts.length === step.parts.length) throw new FoldError(`${event.part_id} was discarded but never began`);
    return withStep(state, { ...step, parts, calls: step.calls.filter((call) => call.part_id !== event.part_id) });
  },

  // -- calls
  call_announced: (state, event) => {
    const step = openStep(state, event);
    const { call_id, part_id, tool } = event;
    if (step.calls.some((call) => call.call_id === call_id)) throw new FoldError(`${call_id} was announced twice`);
    openPart(step, part_id);
    /** @type {P.OpenCall} */
    const call = { call_id, part_id, tool, state: "receiving", arguments: "", settlement: null };
    return withStep(state, { ...step, calls: [...step.calls, call] });
  },
  call_queued: (state, event) =>
    moveCall(state, event, ["receiving"], { state: "queued", arguments: event.arguments, tool: event.tool }),
  call_started: (state, event) => moveCall(state, event, ["queued"], { state: "running" }),
  call_settled: (state, event) =>
    moveCall(state, event, ["receiving", "queued", "running"], { state: "settled", settlement: event.settlement }),
  call_delivered: (state, event) => moveCall(state, event, ["settled"], { state: "delivered" }),
};

/** @type {Omit<P.OpenTurn, "turn_id">} */
const NEW_TURN = { step: null, requests: [], questions: [], recovery: null, retry: null, steps: 0, ending: null };

/** @param {State} state @param {...P.UserMessage | P.AssistantMessage | P.ResultsMessage} messages */
const append = (state, ...messages) => ({ ...state, transcript: [...state.transcript, ...messages] });

/** @param {P.PendingInput[]} inbox @param {string} id */
const without = (inbox, id) => inbox.filter(({ input_id }) => input_id !== id);

/** @param {State} state @param {string} id */
function pendingInput(state, id) {
  const pending = state.inbox.find(({ input_id }) => input_id === id);
  if (!pending) throw new FoldError(`input ${id} is not in the inbox`);
  return pending;
}

/** A sum of numbers, of which JSON writes some as text. @param {P.Float} a @param {P.Float} b @returns {P.Float} */
function add(a, b) {
  const sum = Number(a) + Number(b);
  return Number.isFinite(sum) ? sum : /** @type {P.Float} */ (String(sum));
}

/** @param {State} state @param {{ usage: P.Usage, cost: P.Float }} spent */
function spend(state, { usage, cost }) {
  const total = { ...state.usage };
  for (const name of /** @type {(keyof P.Usage)[]} */ (Object.keys(total))) total[name] += usage[name];
  return { ...state, usage: total, cost: add(state.cost, cost) };
}

/** @param {P.SharedContext} context @param {P.ContextChanged} event @returns {P.SharedContext} */
function mergeContext(context, { cwd, values, removed }) {
  const kept = new Map([...context.values, ...values].filter(([name]) => !removed.includes(name)));
  return { cwd, values: [...kept].sort(([a], [b]) => compareText(a, b)) };
}

/** Compare as Python does, by code points. @param {string} a @param {string} b */
function compareText(a, b) {
  const [x, y] = [a, b].map((text) => Array.from(text, (char) => char.codePointAt(0) ?? 0));
  const at = x.findIndex((point, index) => point !== y[index]);
  return at < 0 ? x.length - y.length : at < y.length ? x[at] - y[at] : 1;
}

/** @param {State} state @param {State["transcript"]} transcript @param {number} [skipped] @returns {State} */
function replaceHistory(state, transcript, skipped = 0) {
  const { skipped: _, ...rest } = state;
  const ids = new Set(transcript.map(({ id }) => id));
  const updates = state.prompt?.updates.map((each) => ({ ...each, is_held: ids.has(each.message_id) })) ?? [];
  return {
    ...rest,
    ...(skipped ? { skipped } : {}),
    transcript,
    reasoning_from: state.reasoning_from ? skipped + transcript.length : 0,
    prompt: state.prompt && { ...state.prompt, updates },
    counted: null,
  };
}

/** @param {State} state @param {{ type: string, turn_id: string | null }} event */
function openTurn(state, event) {
  if (state.turn === null || state.turn.turn_id !== event.turn_id)
    throw new FoldError(`${event.type} of turn ${event.turn_id} came while that turn was not open`);
  return state.turn;
}

/** @param {State} state @param {{ type: string, turn_id: string | null }} event */
function openStep(state, event) {
  const { step } = openTurn(state, event);
  if (step === null) throw new FoldError(`${event.type} came while no step was open`);
  return step;
}

/** @param {State} state @param {{ type: string, turn_id: string | null, message_id: string }} event */
function openMessage(state, event) {
  const step = openStep(state, event);
  if (step.message_id !== event.message_id)
    throw new FoldError(`${event.type} of message ${event.message_id} came while ${step.message_id} was open`);
  return step;
}

/** @param {P.OpenStep} step @param {string} id */
function openPart(step, id) {
  const part = step.parts.find(({ part_id }) => part_id === id);
  if (!part || part.part !== null) throw new FoldError(`part ${id} is not open`);
  return part;
}

/** @param {State} state @param {P.OpenStep} step @returns {State} */
const withStep = (state, step) => ({ ...state, turn: state.turn && { ...state.turn, step } });

/** @param {P.OpenStep} step @param {P.OpenPart} part @returns {P.OpenStep} */
const withPart = (step, part) => ({ ...step, parts: step.parts.map((old) => (old.part_id === part.part_id ? part : old)) });

/** @param {string[]} open @param {string} id */
function answered(open, id) {
  if (!open.includes(id)) throw new FoldError(`question ${id} was answered but is not open`);
  return open.filter((each) => each !== id);
}

/**
 * @param {State} state @param {{ type: string, turn_id: string | null, call_id: string }} event
 * @param {string[]} from @param {Partial<P.OpenCall>} changes
 */
function moveCall(state, event, from, changes) {
  const step = openStep(state, event);
  const call = step.calls.find(({ call_id }) => call_id === event.call_id);
  if (!call || !from.includes(call.state)) throw new FoldError(`call ${event.call_id} became ${changes.state}`);
  return withStep(state, { ...step, calls: step.calls.map((old) => (old === call ? { ...old, ...changes } : old)) });
}

/** The messages that a closed step adds; reasoning alone adds none. @param {P.OpenStep} step @param {P.StepEnded} event */
function messagesOf(step, event) {
  const parts = step.parts.flatMap(({ part }) => part ?? []);
  if (parts.every(({ type }) => type === "reasoning")) return [];
  const results = step.calls.map(({ call_id, tool, settlement, state }) => {
    if (settlement === null) throw new FoldError(`a step was saved while call ${call_id} was ${state}`);
    return { call_id, tool, settlement };
  });
  const { message_id, finish, results_id } = event;
  /** @type {P.AssistantMessage} */
  const message = { type: "assistant", id: message_id, parts, model: step.model, finish };
  return results.length ? [message, { type: /** @type {const} */ ("results"), id: results_id, results }] : [message];
}

// Offsets count code points, as Python does. Counting the text again for each delta would be quadratic.
/** @type {WeakMap<P.OpenPart, number>} */
const lengths = new WeakMap();

/** @param {string} text */
function codePoints(text) {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Apply a delta at its offset, so that one which comes twice changes nothing. @param {State} state @param {P.TextDelta | P.ReasoningDelta | P.ArgumentsDelta} delta */
function applyDelta(state, delta) {
  const step = openStep(state, delta);
  const part = openPart(step, delta.part_id);
  const length = lengths.get(part) ?? codePoints(part.text);
  const end = delta.offset + codePoints(delta.text);
  if (delta.offset > length) throw new FoldError(`a delta begins at ${delta.offset}, but ${length} came: a gap`);
  let text = part.text + delta.text;
  if (delta.offset < length) {
    const old = [...part.text];
    text = old.slice(0, delta.offset).join("") + delta.text + old.slice(end).join("");
  }
  const grown = { ...part, text };
  lengths.set(grown, Math.max(length, end));
  return withStep(state, withPart(step, grown));
}

