// @ts-check
/** What a client iterates over: the events of a session, the list of sessions. */
import { sessionOf } from "./family.js";
import { DURABLE_EVENTS, LIVE_EVENTS } from "./protocol.js";

/** @import * as P from "./engine-control.d.ts" */
/** @import { Client } from "./engine-client.js" */
/** @import { Item } from "./family.js" */
/** @typedef {Partial<Omit<P.SubscribeParams, "session_id" | "at">> & { at?: "snapshot" | "now" | "start", tail?: number, signal?: AbortSignal }} WatchOptions */
/** @typedef {{ type: "sessions", rows: P.WatchedRow[], removed: string[], isReset: boolean, next: string | null }} ListItem */

/** A reader that is further behind is unsubscribed until it has read what it has: the server keeps its place, not its events. */
const MOST_WAITING = 5_000;

/**
 * One subscription over any number of connections. It begins with the first `next()`; ending the loop, or `signal`, ends it.
 * @template T @implements {AsyncIterableIterator<T>}
 */
export class Subscription {
  /** Its name on this connection; null: not yet. @type {string | null} */
  sub = null;
  /** How many events of its session are still to come. */
  behind = 0;
  /** @type {{ items: T[], done: () => void }[]} */
  #queue = [];
  #waiting = 0;
  /** @type {(() => void)[]} */
  #readers = [];
  #isStarted = false;
  /** @type {{ error: unknown } | null} */
  #over = null;
  /** Aborted when the connection is lost: what was asked on it is asked again on the next one. */
  #asking = new AbortController();

  /** @param {Client} client @param {AbortSignal} [signal] */
  constructor(client, signal) {
    this.client = client;
    this.signal = signal;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} */
  async next() {
    this.#start();
    for (;;) {
      const batch = this.#queue[0];
      if (batch?.items.length) {
        const value = /** @type {T} */ (batch.items.shift());
        this.#waiting--;
        if (!batch.items.length) {
          this.#queue.shift();
          batch.done();
        }
        return { done: false, value };
      }
      if (batch) this.#queue.shift(), batch.done();
      else if (this.#over?.error) throw this.#over.error;
      else if (this.#over) return { done: true, value: undefined };
      else {
        this.resume();
        await new Promise((resolve) => this.#readers.push(() => resolve(null)));
      }
    }
  }

  /** @returns {Promise<IteratorResult<T, undefined>>} */
  async return() {
    this.fail(null);
    this.#queue = [];
    return { done: true, value: undefined };
  }

  #start() {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.signal?.addEventListener("abort", () => void this.return(), { once: true });
    if (this.signal?.aborted) void this.return();
    else this.client._add(this);
  }

  /** End it, with an error or without. @param {unknown} error */
  fail(error) {
    if (this.#over) return;
    this.#over = { error };
    this.#asking.abort();
    this.client._remove(this);
    this.#wakeReaders();
  }

  /** Begin on a new connection, or again on this one. */
  async begin() {
    this.#asking.abort();
    const asking = (this.#asking = new AbortController());
    this.client._forget(this);
    try {
      await this.subscribe(asking.signal);
    } catch (error) {
      if (!asking.signal.aborted) this.fail(error);
    }
  }

  /** The connection is lost. */
  lose() {
    this.#asking.abort();
    this.sub = null;
  }

  get isFull() {
    return this.#waiting > MOST_WAITING;
  }

  /** @param {T[]} items @param {() => void} [done] called when the last of them was read. */
  push(items, done = () => {}) {
    if (this.#over) return;
    this.#queue.push({ items, done });
    this.#waiting += items.length;
    this.#wakeReaders();
  }

  #wakeReaders() {
    for (const wake of this.#readers.splice(0)) wake();
  }

  /** Ask for what comes. @param {AbortSignal} _signal @returns {Promise<void>} */
  async subscribe(_signal) {}

  /** Everything was read. */
  resume() {}

  /** @param {string} _method @param {any} _params */
  hear(_method, _params) {}

  /** @param {P.TickNote & { isPartial?: boolean }} _tick */
  tick(_tick) {}
}

/** The events of a session and its sub-agents. @extends {Subscription<Item>} */
export class EventStream extends Subscription {
  /** @override */
  behind = 0;
  /** Where to go on, once the last item that was read is done with. @type {string | undefined} */
  position;
  #id;
  #options;
  /** Where the server is. @type {string | null | undefined} */
  #received;
  /** The last event of the session itself that came; null: not known yet. @type {number | null} */
  #seq = null;
  #goal = 0;
  #isOffline = false;
  #isPaused = false;
  /** Something came that can't be folded: a snapshot at the end of the turn repairs it. */
  #isIncomplete = false;

  /** @param {Client} client @param {string} id @param {WatchOptions} options */
  constructor(client, id, { signal, at = "snapshot", tail = 50, after, ...wanted }) {
    super(client, signal);
    this.#id = id;
    this.#options = { at, tail, wanted };
    this.#received = after;
    this.position = after ?? undefined;
  }

  /** Take a snapshot, and go on from there. */
  async refresh() {
    this.#received = undefined;
    this.#options.at = "snapshot";
    if (this.client.isConnected) await this.begin();
  }

  /** @override @param {AbortSignal} signal */
  async subscribe(signal) {
    if (this.#isPaused) return;
    const { at, tail, wanted } = this.#options;
    if (!this.#received && at !== "start") {
      const isWanted = at === "snapshot";
      const params = { session_id: this.#id, tail: isWanted ? tail : 0 };
      const snapshot = await this.client.call("snapshot", params, { signal });
      // "now" is a place, too: a connection that is lost at once must not lose what comes.
      if (isWanted) this.#reset(snapshot);
      else this.#begin(snapshot);
    }
    const from = this.#received ? { after: this.#received } : { at: /** @type {const} */ ("start") };
    const { sub, head } = await this.client.call("subscribe", { session_id: this.#id, ...wanted, ...from }, { signal });
    if (this.#isOffline) this.push([{ type: "online" }]);
    this.#isOffline = false;
    this.#goal = head.seq;
    this.#measure();
    this.sub = sub;
    this.client._catchUp(this);
  }

  /** @override */
  lose() {
    super.lose();
    if (!this.#isOffline) this.push([{ type: "offline", since: Date.now() }]);
    this.#isOffline = true;
  }

  /** @override */
  resume() {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (this.client.isConnected) void this.begin();
  }

  /** @override @param {string} method @param {any} params */
  hear(method, params) {
    if (method === "head") this.push([{ type: "head", head: params.head }]);
    else if (method === "resync") this.#reset(params.snapshot);
    else if (method === "events") this.#take(params);
  }

  /** @param {P.EventsNote} note */
  #take({ events, position }) {
    let isEnd = false;
    for (const event of events) {
      if (event.type === "elided") this.#passElided(/** @type {P.Elided} */ (event));
      else if (!("session_id" in event) || !(DURABLE_EVENTS.has(event.type) || LIVE_EVENTS.has(event.type))) {
        this.#isIncomplete = true;
        this.client._countUnknown(event.type);
      }
      const { session_id, seq } = /** @type {P.Event} */ (event);
      if (session_id !== this.#id) continue;
      if (typeof seq === "number") this.#seq = seq;
      isEnd ||= event.type === "turn_ended";
    }
    this.#received = position;
    this.push(/** @type {Item[]} */ ([...events]), () => (this.position = position));
    this.#measure();
    if (isEnd && this.#isIncomplete) void this.refresh();
    else if (this.isFull) this.#pause();
  }

  /** @param {P.Elided} event */
  #passElided({ seq, href }) {
    if (seq === null) return;
    this.#isIncomplete = true;
    if (sessionOf(href) === this.#id) this.#seq = seq;
  }

  #pause() {
    this.#isPaused = true;
    this.client._forget(this);
  }

  /** @param {P.FamilySnapshot} snapshot */
  #begin({ position, sessions }) {
    this.#seq = sessions[0].state.seq;
    this.#received = position;
  }

  /** @param {P.FamilySnapshot} snapshot */
  #reset(snapshot) {
    const { position } = snapshot;
    this.#begin(snapshot);
    this.#isIncomplete = false;
    this.push([{ type: "resync", snapshot }], () => (this.position = position));
    this.#measure();
  }

  #measure() {
    const before = this.behind;
    this.behind = this.#seq === null ? 0 : Math.max(0, this.#goal - this.#seq);
    if (Boolean(before) !== Boolean(this.behind)) this.client._showProgress();
  }

  /** @override @param {P.TickNote & { isPartial?: boolean }} tick */
  tick({ heads, isPartial }) {
    if (this.sub === null) return;
    const seq = heads[this.sub];
    if (seq === undefined) {
      // The server has ended it: the session was closed, or is gone.
      if (!isPartial) void this.begin();
    } else if (this.#seq === null) this.#seq = seq;
    else if (this.#seq < seq) {
      this.client.healed++;
      void this.refresh();
    }
  }
}

/** The list of sessions, as it changes. @extends {Subscription<ListItem>} */
export class ListStream extends Subscription {
  #filter;
  #limit;

  /** @param {Client} client @param {AbortSignal | undefined} signal @param {P.WatchParams} filter @param {number} limit */
  constructor(client, signal, filter, limit) {
    super(client, signal);
    this.#filter = filter;
    this.#limit = limit;
  }

  /** @override @param {AbortSignal} signal */
  async subscribe(signal) {
    const { sub } = await this.client.call("watch", this.#filter, { signal });
    // What changes while the list is read is kept for after it.
    const list = await this.client.call("session.list", { ...this.#filter, limit: this.#limit }, { signal });
    const rows = list.rows.map((row) => ({ row, waiting: 0, waiting_since: null }));
    this.push([{ type: "sessions", rows, removed: [], isReset: true, next: list.next }]);
    this.sub = sub;
    this.client._catchUp(this);
  }

  /** @override @param {string} method @param {any} params */
  hear(method, { rows, removed }) {
    if (method === "sessions") this.push([{ type: "sessions", rows, removed, isReset: false, next: null }]);
  }
}
