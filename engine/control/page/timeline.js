// What a session's page shows, as a list of items that follows from its events. No nodes here, and no clock.
//
// Unlike the session's state (client/fold.js), which is what the model will read next, this is a record: it keeps times,
// who did it, how turns ended, and what was undone or summarised. A part of the log is enough: what an event changes and
// has not been loaded is made from what the event says.

/**
 * The items of one session. `items` are in the order of the log; each has an `id`, a `kind`, and a `rev` that grows
 * whenever it changes, so that a view knows what to draw again.
 */
export class Timeline {
  constructor(sessionId) {
    this.sessionId = sessionId;
    this.callId = null;
    this.items = [];
    this.calls = new Map();
    this.children = new Map();
    this.lastSeq = 0;
    this.rev = 0;
    this.turn = null;
    this.parts = new Map();
    this.messages = new Map();
    this.inputs = new Map();
    this.turns = new Map();
    this.questions = new Map();
    this.compaction = null;
    this.cwd = null;
    this.retry = null;
  }

  /** Take one event of this session, durable or live. One that was taken before changes nothing. */
  push(event) {
    if (typeof event.seq === "number") {
      if (event.seq <= this.lastSeq) return;
      this.lastSeq = event.seq;
    }
    const handle = HANDLERS[event.type];
    if (handle) {
      handle(this, event);
      this.rev += 1;
    }
  }

  /** Take the parts of an open message from a snapshot's state: they hold the text that was received so far. */
  adopt(state) {
    const step = state?.turn?.step;
    if (!step) return;
    for (const open of step.parts ?? []) {
      const part = this.part(step.message_id, open.part_id, open.kind);
      if (!part.done && !open.part) setPartText(this, part, open.text);
    }
  }

  touch(item) {
    if (item) item.rev += 1;
    this.rev += 1;
  }

  add(kind, id, event, fields = {}) {
    const item = { kind, id, rev: 0, time: event.time, turnId: event.turn_id ?? null, ...fields };
    this.items.push(item);
    if (item.turnId) this.turnOf(item.turnId).items.push(item);
    return item;
  }

  turnOf(id) {
    let turn = this.turns.get(id);
    if (!turn) this.turns.set(id, (turn = { id, items: [], started: null, ending: null, isUndone: false }));
    return turn;
  }

  message(id, event = {}) {
    let item = this.messages.get(id);
    if (!item) {
      item = this.add("assistant", id, event, { parts: [], model: event.model ?? "", done: false });
      this.messages.set(id, item);
    }
    return item;
  }

  part(messageId, partId, kind, event = {}) {
    let part = this.parts.get(partId);
    if (!part) {
      const item = this.message(messageId, event);
      part = { id: partId, kind, text: "", size: 0, done: false, item, call: null };
      this.parts.set(partId, part);
      item.parts.push(part);
    }
    return part;
  }

  call(id, event, fields = {}) {
    let call = this.calls.get(id);
    if (!call) {
      call = { id, rev: 0, tool: "", arguments: "", state: "receiving", item: null, times: {}, progress: "", output: "" };
      Object.assign(call, { settlement: null, verdicts: [], answers: [], elapsed: 0, changed: null, turnId: event.turn_id });
      this.calls.set(id, call);
    }
    Object.assign(call, fields);
    call.rev += 1;
    this.touch(call.item);
    return call;
  }

  note(event, text, fields = {}) {
    return this.add("note", `note-${event.seq}`, event, { text, level: "info", ...fields });
  }

  /** Return the items of a history that the session began with, or that was imported. */
  addMessages(event, messages) {
    for (const message of messages) {
      if (message.type === "user") {
        this.add("input", `m-${message.id}`, event, { message, mode: message.origin, by: "", time: null });
      } else if (message.type === "assistant") {
        const item = this.add("assistant", message.id, event, { parts: [], model: message.model ?? "", done: true, time: null });
        for (const part of message.parts) this.adoptPart(item, part, event);
      } else if (message.type === "results") {
        for (const result of message.results) this.call(result.call_id, event, { state: "delivered", settlement: result.settlement });
      }
    }
  }

  adoptPart(item, part, event) {
    const entry = { id: part.id, kind: kindOf(part), text: part.text ?? "", done: true, item, call: null, part };
    this.parts.set(part.id, entry);
    item.parts.push(entry);
    if (part.type === "call") {
      entry.call = this.call(part.call_id, event, { tool: part.tool, arguments: part.arguments, item });
    }
  }
}

const kindOf = (part) => (["text", "reasoning", "call"].includes(part.type) ? part.type : "provider");

const callState = (state) => (line, event) => {
  const call = line.call(event.call_id, event, { state });
  call.times[state] = event.time;
};

/** How many characters a text has; the protocol counts those, and not the units of JavaScript. */
function sizeOf(text) {
  let size = 0;
  for (const _ of text) size += 1;
  return size;
}

function setPartText(line, part, text) {
  if (text === part.text) return;
  Object.assign(part, { text, size: sizeOf(text) });
  line.touch(part.item);
}

const delta = (line, event) => {
  const part = line.part(event.message_id, event.part_id, event.type === "arguments_delta" ? "call" : event.type.slice(0, -6), event);
  if (part.done) return;
  // Deltas that the snapshot had already are not taken twice.
  const known = part.size - event.offset;
  if (known < 0) return;
  const text = known ? [...event.text].slice(known).join("") : event.text;
  part.text += text;
  part.size += sizeOf(text);
  if (part.call) line.call(part.call.id, event, { arguments: part.text });
  line.touch(part.item);
};

const asked = (line, event) => {
  line.questions.set(event.request_id, event);
  if (event.call_id) line.call(event.call_id, event).times.asked ??= event.time;
};

const answered = (line, event) => {
  const question = line.questions.get(event.request_id);
  line.questions.delete(event.request_id);
  if (question?.call_id) {
    const call = line.call(question.call_id, event);
    call.answers.push({ question, answer: event });
  } else if (question && (event.answer ?? event.outcome) !== "withdrawn") {
    line.note(event, "", { answered: { question, answer: event } });
  }
};

const HANDLERS = {
  session_created: (line, event) => {
    line.cwd = event.context.cwd;
    if (event.forked_from) line.note(event, "", { fork: event.forked_from });
  },

  input_admitted: (line, event) => {
    line.inputs.set(event.input_id, event);
  },
  input_edited: (line, event) => {
    const admitted = line.inputs.get(event.input_id);
    if (admitted) line.inputs.set(event.input_id, { ...admitted, message: event.message });
  },
  input_removed: (line, event) => {
    line.inputs.delete(event.input_id);
  },
  input_promoted: (line, event) => {
    const admitted = line.inputs.get(event.input_id);
    line.inputs.delete(event.input_id);
    const fields = { inputId: event.input_id, message: admitted?.message ?? null, mode: admitted?.mode ?? "prompt", by: admitted?.by ?? "" };
    line.add("input", `i-${event.input_id}`, event, { ...fields, messageId: admitted?.message.id });
  },
  prompt_blocked: (line, event) => {
    line.note(event, event.reason, { level: "warning", heading: `The hook ${event.source} blocked this prompt` });
  },
  nudge_added: (line, event) => {
    line.add("engine", `m-${event.message.id}`, event, { message: event.message });
  },
  prompt_updated: (line, event) => {
    line.add("engine", `m-${event.message.id}`, event, { message: event.message });
  },

  turn_started: (line, event) => {
    line.turnOf(event.turn_id).started = event.time;
    line.turn = event.turn_id;
  },
  turn_resumed: (line, event) => {
    line.turn = event.turn_id;
    line.note(event, "Resumed");
  },
  turn_ending: (line, event) => {
    line.turnOf(event.turn_id).ending = event;
    for (const call of line.calls.values()) if (call.turnId === event.turn_id) line.call(call.id, event);
  },
  turn_ended: (line, event) => {
    const turn = line.turnOf(event.turn_id);
    line.turn = null;
    line.retry = null;
    line.add("end", `end-${event.turn_id}`, event, { result: event.result, started: turn.started, ending: event.ending ?? turn.ending });
    for (const item of turn.items) {
      if (item.kind === "assistant" && !item.done) {
        item.done = true;
        line.touch(item);
      }
    }
  },

  step_started: (line, event) => {
    line.retry = null;
    line.message(event.message_id, event);
  },
  step_ended: (line, event) => {
    const item = line.messages.get(event.message_id);
    if (!item) return;
    Object.assign(item, { done: true, usage: event.usage, cost: event.cost, kept: event.kept, finish: event.finish });
    line.touch(item);
  },
  retry_scheduled: (line, event) => {
    line.retry = event;
    line.note(event, event.message, { level: "warning", heading: `The request failed; retry ${event.attempt}`, retryAt: event.next_at });
  },
  model_switched: (line, event) => {
    line.note(event, `The model is ${event.model} from the next turn on`);
  },

  part_started: (line, event) => {
    line.part(event.message_id, event.part_id, event.kind, event);
  },
  text_delta: delta,
  reasoning_delta: delta,
  arguments_delta: delta,
  part_replaced: (line, event) => {
    const part = line.parts.get(event.part_id);
    if (part) setPartText(line, part, "");
  },
  part_discarded: (line, event) => {
    const part = line.parts.get(event.part_id);
    if (part) {
      part.item.parts = part.item.parts.filter((other) => other !== part);
      line.parts.delete(event.part_id);
      line.touch(part.item);
    }
  },
  part_ended: (line, event) => {
    const { part } = event;
    const entry = line.part(event.message_id, part.id, kindOf(part), event);
    Object.assign(entry, { done: true, text: part.text ?? entry.text, part });
    if (part.type === "call") {
      entry.call = line.call(part.call_id, event, { tool: part.tool, arguments: part.arguments, item: entry.item });
    }
    line.touch(entry.item);
  },

  call_announced: (line, event) => {
    const part = line.part(event.message_id, event.part_id, "call", event);
    part.call = line.call(event.call_id, event, { tool: event.tool, item: part.item, arguments: part.text });
    part.call.times.announced = event.time;
  },
  call_queued: (line, event) => {
    const call = line.call(event.call_id, event, { state: "queued", tool: event.tool, arguments: event.arguments });
    call.times.queued = event.time;
  },
  call_judged: (line, event) => {
    line.call(event.call_id, event).verdicts.push(event);
  },
  call_changed: (line, event) => {
    if (event.kind === "arguments") line.call(event.call_id, event, { changed: event.source, arguments: event.text });
    else line.call(event.call_id, event, { changed: event.source });
  },
  call_started: callState("running"),
  call_progress: (line, event) => {
    const call = line.call(event.call_id, event);
    if (event.message) call.progress = event.message;
    // What is kept of a running call's output is its end; the whole of it comes with its result.
    if (event.output) call.output = (call.output + event.output).slice(-20_000);
  },
  call_heartbeat: (line, event) => {
    const call = line.call(event.call_id, event, { elapsed: event.elapsed });
    if (event.last_progress) call.progress = event.last_progress;
  },
  call_settled: (line, event) => {
    const call = line.call(event.call_id, event, { state: "settled", settlement: event.settlement });
    call.times.settled = event.time;
  },
  call_delivered: callState("delivered"),
  context_changed: (line, event) => {
    // Where the log is loaded in part, the folder from before may not be known.
    if (line.cwd !== null && line.cwd !== event.cwd) line.note(event, `The working directory is now ${event.cwd}`);
    line.cwd = event.cwd;
  },

  permission_asked: asked,
  question_asked: asked,
  recovery_asked: asked,
  permission_answered: answered,
  question_answered: answered,
  recovery_answered: answered,

  compaction_started: (line, event) => {
    line.compaction = line.note(event, "", { compaction: { started: event, ended: null } });
  },
  compaction_ended: (line, event) => {
    const item = line.compaction ?? line.note(event, "", { compaction: { started: null, ended: null } });
    item.compaction.ended = event;
    line.compaction = null;
    line.touch(item);
  },
  history_replaced: (line, event) => {
    if (event.kind === "fork" || event.kind === "import") line.addMessages(event, event.messages);
    else if (event.kind === "restore") line.note(event, "The history from before the last summary is back");
  },
  turn_undone: (line, event) => mark(line, event, event.undone, true),
  turn_redone: (line, event) => mark(line, event, event.redone, false),
  background_started: (line, event) => {
    line.note(event, `${event.kind === "agent" ? "Sub-agent" : "Command"} ${event.name} goes on in the background`, { detail: event.detail });
  },
  background_ended: (line, event) => {
    line.note(event, "Background work has ended");
  },
  doom_detected: (line, event) => {
    line.note(event, event.detail, { level: "warning", heading: "The model repeats itself" });
  },
  notice: (line, event) => {
    line.note(event, event.text, { level: event.level, code: event.code });
  },
  elided: (line, event) => {
    line.note(event, "", { elided: event });
  },
};

function mark(line, event, turnId, isUndone) {
  const turn = line.turnOf(turnId);
  turn.isUndone = isUndone;
  for (const item of turn.items) {
    item.isUndone = isUndone;
    line.touch(item);
  }
  line.note(event, "", { undo: { isUndone, turnId, files: event.files } });
}
