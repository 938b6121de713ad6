/** What each kind of event changes in the picture: a table of functions, by the event's type. Pure. */

import { brief, clip, closeSegment, enter, mark, newRow, openSegment, turnId } from "./lane-rows.js";
import { noteWaits } from "./queue-reasons.js";

/** Stop reasons that are limits. */
const LIMITS = new Set([
  "step_limit",
  "token_budget",
  "diminishing",
  "cost_limit",
  "deadline",
  "stop_hook_limit",
  "blocking_limit",
  "output_limit",
  "rate_limited",
]);

/** @type {Record<string, (model: import("./lane-model.js").LaneModel, event: Record<string, any>, session: any) => void>} */
export const HANDLERS = {
  // -- sessions and turns ---------------------------------------------------------------

  session_created(model, event, session) {
    session.agent = event.agent ?? "";
    if (event.parent_id && event.parent_call_id) session.parent = { session: event.parent_id, call: event.parent_call_id };
  },

  turn_started(model, event, session) {
    const row = model.addTurn(event, session, false);
    row.facts.turn = event.turn_id;
  },

  turn_resumed(model, event, session) {
    const turn = model.turn(event, session);
    mark(turn, "resumed", event.time);
    // A call that waited inside its tool is queued again: there is no event of its own for that.
    for (const row of unsettledCalls(turn)) enter(row, "queued", event.time);
  },

  turn_ending(model, event, session) {
    const turn = model.turn(event, session);
    if (turn === null || turn.ending !== null) return;
    turn.ending = { cause: event.cause, detail: clip(event.detail), at: event.time, until: event.until, by: event.by ?? "" };
  },

  turn_ended(model, event, session) {
    const turn = model.turn(event, session);
    const { ending, result } = event;
    if (ending && ending.at) {
      turn.ending = { cause: ending.cause, detail: clip(ending.detail), at: ending.at, until: ending.until, by: ending.by };
    }
    endBelow(turn, event.time);
    endRow(turn, event.time);
    if (session.crashed) showGap(turn, session.gap, event.time);
    session.crashed = false;
    turn.outcome = { status: result.stop_reason, reason: null, failed: false, unknown: false, text: clip(result.detail) };
    addUsage(turn, result.usage, result.cost);
    turn.facts.steps = result.steps;
    if (LIMITS.has(result.stop_reason)) mark(turn, "limit", ending?.at || event.time, result.detail || result.stop_reason);
    session.step = null;
  },

  turn_undone(model, event) {
    const turn = model.rows.get(turnId({ ...event, turn_id: event.undone }));
    if (turn !== undefined) turn.facts.undone = "yes";
  },

  turn_redone(model, event) {
    const turn = model.rows.get(turnId({ ...event, turn_id: event.redone }));
    if (turn !== undefined) delete turn.facts.undone;
  },

  // -- input ------------------------------------------------------------------------------

  input_admitted(model, event, session) {
    const turn = model.turn(event, session) ?? session.turn;
    if (turn === null || turn.to !== null) return;
    const text = textOf(event.message);
    if (event.mode === "prompt" && turn.detail === "") {
      turn.detail = text;
      if (event.by) turn.facts.by = event.by;
    } else {
      mark(turn, event.mode === "steer" ? "steer" : "queue", event.time, text, event.by ?? "");
    }
    model.inputs.set(event.input_id, event.mode);
  },

  input_promoted(model, event, session) {
    const turn = model.turn(event, session);
    if (turn === null) return;
    const mode = model.inputs.get(event.input_id);
    model.inputs.delete(event.input_id);
    if (mode === "steer" || mode === "queue") mark(turn, "promoted", event.time);
  },

  // -- steps: the reader ------------------------------------------------------------------

  step_started(model, event, session) {
    const turn = model.turn(event, session);
    const id = `step ${event.session_id} ${event.turn_id} ${event.step}`;
    let row = model.rows.get(id);
    if (row === undefined) {
      const about = { session: session.id, depth: session.depth, name: `Step ${event.step}`, at: event.time };
      row = model.add(newRow("step", id, about), turn);
    }
    row.detail = clip(event.model);
    row.to = null;
    row.facts.model = clip(event.model);
    row.facts.attempt = event.attempt;
    row.facts.parallel = event.parallel ?? "";
    session.step = row;
    session.parts.clear();
    enter(row, "request", event.time);
  },

  part_started(model, event, session) {
    const row = session.step;
    if (row === null) return;
    const parts = partsOf(session, event.message_id);
    // Between two parts nothing tells whether more comes, so the bar rests and grows over the gap now.
    const last = row.segments.at(-1);
    if (last?.kind === "stream") last.to = null;
    else enter(row, "stream", event.time);
    parts.add(event.part_id);
  },

  part_ended(model, event, session) {
    endPart(session, event, event.part?.id);
  },

  part_discarded(model, event, session) {
    endPart(session, event, event.part_id);
  },

  step_received(model, event, session) {
    if (session.step !== null) closeSegment(session.step, event.time);
  },

  step_ended(model, event, session) {
    const row = session.step;
    if (row === null) return;
    closeSegment(row, event.time);
    row.to = event.time;
    row.outcome = {
      status: event.kept === false ? "discarded" : "completed",
      reason: event.finish ?? null,
      failed: false,
      unknown: false,
      text: "",
    };
    addUsage(row, event.usage, event.cost);
  },

  retry_scheduled(model, event, session) {
    const turn = model.turn(event, session);
    const row = session.step ?? turn;
    mark(row, "retry", event.time, event.message);
    if (row.kind !== "step") return;
    row.to = null;
    enter(row, "retry", event.time, clip(event.message));
  },

  recovery_asked(model, event, session) {
    const row = session.step ?? model.turn(event, session);
    mark(row, "asked", event.time, event.message);
    if (row.kind === "step") {
      row.to = null;
      enter(row, "question", event.time, clip(event.message));
    }
    model.requests.set(event.request_id, { row, back: "" });
  },

  recovery_answered(model, event) {
    const request = model.requests.get(event.request_id);
    if (request === undefined) return;
    model.requests.delete(event.request_id);
    mark(request.row, "answered", event.time, event.answer, event.by ?? "");
    if (request.row.kind !== "step") return;
    closeSegment(request.row, event.time);
    request.row.to = event.time;
  },

  // -- calls ------------------------------------------------------------------------------

  call_announced(model, event, session) {
    const row = model.addCall(event, session, false);
    enter(row, "receiving", event.time);
    noteWaits(session.step, event.time);
  },

  call_queued(model, event, session) {
    const row = model.call(event, session);
    row.name = event.tool;
    row.facts.arguments = clip(event.arguments);
    row.detail = brief(row.facts.arguments);
    row.facts.safe = event.safe === true ? "yes" : event.safe === false ? "no" : "";
    enter(row, "queued", event.time);
    noteWaits(session.step, event.time);
  },

  call_judged(model, event, session) {
    const row = model.call(event, session);
    row.facts.verdict = `${event.verdict}: ${clip(event.source)}`;
    const open = openSegment(row);
    if (open === null || open.kind === "queued") enter(row, "judged", event.time);
    noteWaits(session.step, event.time);
  },

  call_started(model, event, session) {
    enter(model.call(event, session), "running", event.time);
    noteWaits(session.step, event.time);
  },

  call_settled(model, event, session) {
    const row = model.call(event, session);
    const { status, reason, outcome_unknown: unknown, failed, text } = event.settlement;
    row.outcome = { status, reason: reason ?? null, failed: failed === true, unknown: unknown === true, text: clip(text) };
    if (reason === "interrupted_by_crash") session.crashed = true;
    enter(row, "settled", event.time);
    // When waiting calls are refused, each makes room for the next: none of them starts.
    if (reason !== "not_executed") noteWaits(session.step, event.time);
  },

  call_delivered(model, event, session) {
    endRow(model.call(event, session), event.time);
  },

  // -- questions --------------------------------------------------------------------------

  permission_asked(model, event, session) {
    ask(model, event, session, "permission", event.detail || event.patterns?.join(", ") || event.permission);
  },

  permission_answered(model, event, session) {
    const text = event.feedback ? `${event.answer}: ${event.feedback}` : event.answer;
    answer(model, event, session, text);
  },

  question_asked(model, event, session) {
    ask(model, event, session, "question", event.question);
  },

  question_answered(model, event, session) {
    const text = event.answers?.length ? `${event.outcome}: ${event.answers.join(", ")}` : event.outcome;
    answer(model, event, session, text);
  },

  // -- remarks ----------------------------------------------------------------------------

  compaction_started(model, event, session) {
    const turn = model.turn(event, session);
    if (turn === null) return;
    mark(turn, "compaction", event.time, event.trigger);
    enter(turn, "compaction", event.time, event.trigger);
  },

  compaction_ended(model, event, session) {
    const turn = model.turn(event, session);
    if (turn === null) return;
    mark(turn, "compacted", event.time, event.detail ? `${event.outcome}: ${event.detail}` : event.outcome);
    if (openSegment(turn)?.kind === "compaction") enter(turn, "turn", event.time);
  },

  doom_detected(model, event, session) {
    const turn = model.turn(event, session);
    if (turn !== null) mark(turn, "repetition", event.time, event.detail);
  },

  model_switched(model, event, session) {
    const turn = session.turn;
    if (turn !== null && turn.to === null) mark(turn, "model", event.time, event.model);
  },

  notice(model, event, session) {
    const turn = model.turn(event, session);
    if (turn !== null && event.level === "warning") mark(turn, "warning", event.time, event.text);
  },

  background_started(model, event, session) {
    // A sub-agent has rows of its own, from the events of its session.
    if (event.kind !== "command") return;
    const turn = model.turn(event, session) ?? session.turn;
    const about = { session: session.id, depth: session.depth, name: clip(event.name), at: event.time };
    const row = model.add(newRow("background", `background ${session.id} ${event.work_id}`, about), turn);
    row.detail = clip(event.detail);
    enter(row, "background", event.time);
  },

  background_ended(model, event, session) {
    const row = model.rows.get(`background ${session.id} ${event.work_id}`);
    if (row !== undefined) endRow(row, event.time);
  },
};

// -- what several of them do --------------------------------------------------------------

function ask(model, event, session, kind, text) {
  if (!event.call_id) {
    const turn = model.turn(event, session);
    if (turn !== null) mark(turn, "asked", event.time, text);
    model.requests.set(event.request_id, { row: turn, back: "" });
    return;
  }
  const row = model.call(event, session);
  mark(row, "asked", event.time, text);
  const open = openSegment(row)?.kind ?? "";
  model.requests.set(event.request_id, { row, back: open === "running" ? "running" : "judged" });
  enter(row, kind, event.time, clip(text));
  noteWaits(session.step, event.time);
}

function answer(model, event, session, text) {
  const request = model.requests.get(event.request_id);
  if (request === undefined || request.row === null) return;
  const { row, back } = request;
  model.requests.delete(event.request_id);
  mark(row, "answered", event.time, text, event.by ?? "");
  const waits = [...model.requests.values()].some((other) => other.row === row);
  if (row.kind !== "call" || waits || row.outcome !== null) return;
  enter(row, back, event.time);
  noteWaits(session.step, event.time);
}

function endRow(row, at) {
  closeSegment(row, at);
  if (row.to === null) row.to = at;
}

/** End the steps of a turn and their calls. Not sub-agents and commands: those in the background go on. */
function endBelow(row, at) {
  for (const child of row.children) {
    if (child.kind === "turn" || child.kind === "background") continue;
    endRow(child, at);
    endBelow(child, at);
  }
}

/** Show the time in which no engine ran a turn: it was ended only when its session was opened again. */
function showGap(row, gap, at) {
  if (gap === null || at - gap.to > 1) return;
  const index = row.segments.findIndex(({ from, to }) => from <= gap.from && to !== null && to >= gap.to);
  if (index >= 0) {
    const whole = row.segments[index];
    const rest = { kind: "gone", from: gap.from, to: whole.to };
    row.segments.splice(index, 1, { ...whole, to: gap.from }, rest);
  }
  for (const child of row.children) showGap(child, gap, at);
}

function endPart(session, event, part) {
  const row = session.step;
  if (row === null) return;
  const parts = partsOf(session, event.message_id);
  parts.delete(part);
  const last = row.segments.at(-1);
  if (parts.size === 0 && last?.kind === "stream") last.to = Math.max(event.time, last.from);
}

function partsOf(session, message) {
  let parts = session.parts.get(message);
  if (parts === undefined) session.parts.set(message, (parts = new Set()));
  return parts;
}

function unsettledCalls(turn) {
  return turn.children
    .flatMap((row) => [row, ...row.children])
    .filter((row) => row.kind === "call" && row.outcome === null);
}

function addUsage(row, usage, cost) {
  if (!usage) return;
  row.facts.tokens_in = (usage.input ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
  row.facts.tokens_out = usage.output ?? 0;
  if (usage.cache_read) row.facts.tokens_cached = usage.cache_read;
  if (cost) row.facts.cost = cost;
}

function textOf(message) {
  const text = message?.display ?? (message?.parts ?? []).map((part) => part.text ?? "").join("\n");
  return clip(text.trim());
}
