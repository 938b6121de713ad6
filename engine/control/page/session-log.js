// What is known of a session and its sub-agents: their timelines, the family's state, and how far back the log is loaded.

import { emptyFamily, foldFamily, openQuestions, sessionOf, statusOf } from "./client/engine-client.js";
import { Timeline } from "./timeline.js";

const PAGE = 400;
// Larger events come as a reference, so that a phone loads them only if somebody wants to see them.
const ELIDE = 256 * 1024;
// Text that streams is drawn some sixteen times a second: nobody reads faster, and each time costs a layout.
const INTERVAL_MS = 60;
// Without these the page would show what is not true: a turn that still runs, a question that is not there.
const NEEDED = new Set(
  "turn_ended part_ended input_admitted input_edited permission_asked question_asked recovery_asked turn_undone nudge_added prompt_updated".split(" "),
);

/** Follows one session. `onChange(events)` is called after whatever came. */
export class SessionLog {
  constructor(session, { onChange, onAdmitted }) {
    this.session = session;
    this.onChange = onChange;
    this.onAdmitted = onAdmitted;
    this.family = emptyFamily(session.id);
    this.timelines = new Map([[session.id, new Timeline(session.id)]]);
    this.events = new Map();
    this.first = new Map();
    this.isLoading = false;
    this.isReady = false;
    this.ending = null;
    this.clients = [];
    this.abort = new AbortController();
  }

  get root() {
    return this.timelines.get(this.session.id);
  }

  get state() {
    return this.family.sessions[this.session.id]?.state ?? null;
  }

  get asked() {
    return openQuestions(this.family);
  }

  get hasOlder() {
    return (this.first.get(this.session.id) ?? 0) > 1;
  }

  /** What the session does. */
  get status() {
    const { state } = this;
    if (this.asked.length) return { type: "waiting", request_ids: this.asked.map((each) => each.request_id) };
    return state ? statusOf(state) : (this.family.head?.status ?? { type: "idle" });
  }

  get turn() {
    const { state } = this;
    const { head } = this.family;
    // What the server said when the stream began holds until something has come.
    const source = head && (!state || head.seq >= state.seq) ? head : state;
    return source?.turn?.turn_id ?? null;
  }

  /** A turn that waits for `resume`: the head says so, until something happens in it. */
  get isParked() {
    return Boolean(this.family.head?.parked && this.state && this.state.seq <= this.family.head.seq && this.turn);
  }

  /** A turn that a crash has cut off, and that no engine has ended yet. */
  get isInterrupted() {
    return this.isParked && this.status.type !== "waiting";
  }

  /** When the last thing happened that is in the log. */
  get lastTime() {
    return Math.max(0, ...[...this.events.values()].map((events) => events.at(-1)?.time ?? 0));
  }

  /** Follow the session until `close`. */
  async run() {
    for await (const received of this.session.watch({ signal: this.abort.signal, tail: 1, elide: ELIDE, interval: INTERVAL_MS })) {
      const item = received.type === "elided" && NEEDED.has(received.of) ? await this.#whole(received) : received;
      this.family = foldFamily(this.family, item);
      if (item.type === "resync") await this.#resync(item.snapshot);
      else if (item.type === "head") this.#takeHead(item.head);
      else if ("session_id" in item || item.type === "elided") this.#take(item);
      this.onChange(item);
    }
  }

  close() {
    this.abort.abort();
  }

  #takeHead(head) {
    this.clients = head.clients;
    this.ending = head.ending;
  }

  #take(event) {
    if (event.type === "elided") return event.seq === null ? undefined : this.#keep(sessionOf(event.href), event);
    if (event.type === "turn_ending" && event.session_id === this.session.id) this.ending = event;
    if (event.type === "turn_ended" && event.session_id === this.session.id) this.ending = null;
    if (event.type === "input_admitted") this.onAdmitted(event.input_id);
    return this.#keep(event.session_id, event);
  }

  #keep(sessionId, event) {
    const timeline = this.timelineOf(sessionId);
    if (typeof event.seq === "number") {
      const events = this.events.get(sessionId) ?? [];
      if (!events.length) this.first.set(sessionId, event.seq);
      events.push(event);
      this.events.set(sessionId, events);
    }
    timeline.push(event);
    if (sessionId !== this.session.id) this.#link(timeline, event);
  }

  timelineOf(sessionId) {
    let timeline = this.timelines.get(sessionId);
    if (!timeline) this.timelines.set(sessionId, (timeline = new Timeline(sessionId)));
    return timeline;
  }

  /** Return the ids of the calls that lead to a call, from that of the session itself. */
  callsTo(sessionId, callId) {
    const ids = [callId];
    let line = this.timelines.get(sessionId);
    while (line && line !== this.root) {
      const { callId: above } = line;
      ids.unshift(above);
      line = [...this.timelines.values()].find((other) => other.calls.has(above));
    }
    return ids;
  }

  /** Show a sub-agent at the call that runs it. */
  #link(timeline, event) {
    const parent = event.path?.[event.path.length - 2];
    const callId = event.type === "session_created" ? event.parent_call_id : event.type === "turn_started" ? event.call_id : timeline.callId;
    if (!parent || !callId) return;
    timeline.callId = callId;
    const line = this.timelines.get(parent);
    const call = line?.calls.get(callId);
    if (!call) return;
    call.child = timeline;
    line.call(callId, event);
  }

  async #resync(snapshot) {
    const { state } = snapshot.sessions[0];
    const known = this.events.get(this.session.id)?.at(-1)?.seq ?? 0;
    this.ending = state.turn?.ending ?? null;
    // What was missed is read from the log; a part of it is enough where much was missed.
    const from = known && state.seq - known <= 4 * PAGE ? known : Math.max(0, state.seq - PAGE);
    if (from !== known) this.#forget(this.session.id);
    await this.#read(this.session.id, from, state.seq);
    for (const { state: child, call_id: callId } of snapshot.sessions.slice(1)) {
      await this.#readChild(child, callId);
    }
    for (const { state: each } of snapshot.sessions) this.timelines.get(each.session_id)?.adopt(each);
    this.isReady = true;
  }

  async #readChild(state, callId) {
    const id = state.session_id;
    const known = this.events.get(id)?.at(-1)?.seq ?? 0;
    await this.#read(id, Math.max(known, state.seq - PAGE), state.seq);
    const timeline = this.timelineOf(id);
    timeline.callId ??= callId;
    for (const line of this.timelines.values()) {
      const call = line.calls.get(timeline.callId);
      if (call && line !== timeline) {
        call.child = timeline;
        line.call(call.id, {});
      }
    }
  }

  #forget(sessionId) {
    this.events.delete(sessionId);
    this.first.delete(sessionId);
    this.timelines.set(sessionId, new Timeline(sessionId));
  }

  /** Read the events after *after* up to *until* into a timeline. */
  async #read(sessionId, after, until) {
    let at = after;
    while (at < until) {
      const { events, more } = await this.session.client.call("events", { session_id: sessionId, after: at, limit: 500 });
      for (const event of events) if (event.seq > at && event.seq <= until) this.#keep(sessionId, event);
      const last = events.at(-1)?.seq ?? until;
      if (!more || last <= at) return;
      at = last;
    }
  }

  /** Load an older page of the log; the timeline is made again from all that is loaded. */
  async loadOlder() {
    const { id } = this.session;
    const first = this.first.get(id) ?? 0;
    if (this.isLoading || first <= 1) return;
    this.isLoading = true;
    this.onChange(null);
    try {
      const from = Math.max(0, first - 1 - PAGE);
      const { events } = await this.session.client.call("events", { session_id: id, after: from, limit: 500 });
      const older = events.filter((event) => event.seq < first);
      this.events.set(id, [...older, ...(this.events.get(id) ?? [])]);
      this.first.set(id, older[0]?.seq ?? 1);
      this.#rebuild(id);
    } finally {
      this.isLoading = false;
      this.onChange(null);
    }
  }

  #rebuild(id) {
    const before = this.timelines.get(id);
    const timeline = new Timeline(id);
    for (const event of this.events.get(id)) timeline.push(event);
    const state = this.family.sessions[id]?.state;
    if (state) timeline.adopt(state);
    for (const [callId, call] of timeline.calls) {
      const known = before.calls.get(callId);
      if (known) Object.assign(call, { isOpen: known.isOpen, child: known.child, output: known.output, progress: known.progress, elapsed: known.elapsed });
    }
    this.timelines.set(id, timeline);
    timeline.callId = before.callId;
    for (const line of this.timelines.values()) {
      for (const call of line.calls.values()) {
        if (call.child !== before) continue;
        call.child = timeline;
        line.call(call.id, {});
      }
    }
  }

  /** Return the event that was left out of the stream because of its size. */
  async #whole(elided) {
    if (elided.seq === null) return elided;
    const { events } = await this.session.client.call("events", { session_id: sessionOf(elided.href), after: elided.seq - 1, limit: 1 });
    return events[0]?.seq === elided.seq ? events[0] : elided;
  }

  /** Load what was left out, and show it in its place. */
  async loadElided(elided) {
    const id = sessionOf(elided.href);
    const events = [await this.#whole(elided)];
    if (events[0] === elided) return;
    this.events.set(id, this.events.get(id).map((event) => (event.seq === elided.seq ? events[0] : event)));
    this.#rebuild(id);
    this.onChange(null);
  }

  /** Load the log of a sub-agent that has ended. */
  async loadChild(call, sessionId) {
    if (!this.events.has(sessionId)) await this.#read(sessionId, 0, Infinity);
    call.child = this.timelineOf(sessionId);
    for (const line of this.timelines.values()) if (line.calls.has(call.id)) line.call(call.id, {});
    this.onChange(null);
  }

  /** All durable events that are loaded, of the session and its sub-agents. */
  *loadedEvents() {
    for (const events of this.events.values()) yield* events;
  }
}
