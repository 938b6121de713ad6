// @ts-check
/**
 * A client of `engine serve`, for browsers, Node, Deno and Bun: ES modules, no dependency, no build step.
 *
 *     const client = await connect({ url, token, name: "panel", onState });
 *         url: the server's address (in a page: the page's own). One of: `token`; `ticket` (of a printed link; it is used up
 *         here); `key` (what a ticket was exchanged for: `client.key`, which ends with the server); `signIn` (returns the key).
 *         onState(state, details): "live" | "behind" {events} | "offline" {since, retryAt, delay, why} | "refused" {code, why}.
 *         onNote(method, params): "clients", "server.draining", "server.ignored", and "unknown" {type}: update this client.
 *         Resolves when the server has answered, and tries for ever until then, unless `signal` is aborted. Rejects if the
 *         server refuses it.
 *     await client.call("session.list", { limit: 20 }, { signal })   any method of docs/reference/control.md → its result
 *     for await (const { rows, removed, isReset } of client.watch()) …           the list of sessions, as it changes
 *     const session = client.session(id)                      or await client.createSession({ cwd })
 *     for await (const item of session.watch({ after, signal })) family = foldFamily(family, item)
 *         Without `after` it begins with a snapshot ({type: "resync", snapshot}). Then come events as the protocol has them,
 *         {type: "head", head}, {type: "offline", since}, {type: "online"}, and "resync" when what was read before does not
 *         hold any more. It goes on over lost connections, without a gap and without a duplicate.
 *         `stream.position` holds after the last item of a batch: it is the `after` of a later watch.
 *     await session.prompt("…", { attachments, onDisconnect })   resolves once it is admitted: {turn_id, input_id, seq}
 *     await session.reply(requestId, { answer: "once" }), .answer(requestId, [label]), .recover(requestId, { how: "wait" })
 *     await session.cancel(turnId), .steer(turnId, text), .queue(text), .resume(), .wait(turnId), .call(method, params)
 *
 * Each request that needs a key gets one, and is repeated over lost connections until it is answered. What can't be repeated
 * rejects with the kind "lost". Errors are `EngineError {code, kind, data}`.
 */
import { EngineError, LinkClosed } from "./errors.js";
import { ASKING_ONCE_MS, LOST, newId, openHttp, openSocket, post } from "./links.js";
import { METHODS, PROTOCOL, RETRIED_CLOSE_CODES } from "./protocol.js";
import { Session } from "./session.js";
import { ListStream } from "./streams.js";

export { EngineError } from "./errors.js";
export { emptyFamily, foldFamily, openQuestions, sessionOf } from "./family.js";
export { emptyState, fold, FoldError, messageCount, statusOf } from "./fold.js";

/** @import * as P from "./engine-control.d.ts" */
/** @import { Link, Place } from "./links.js" */
/** @import { Subscription } from "./streams.js" */
/** @typedef {keyof P.Methods} Method */
/** @typedef {"live" | "behind" | "offline" | "refused"} State */
/** @typedef {{ signal?: AbortSignal }} Call */
/**
 * @typedef {object} ConnectOptions
 * @property {string | URL} [url]
 * @property {string} [token]
 * @property {string} [ticket]
 * @property {string} [key]
 * @property {(place: Place) => Promise<string>} [signIn] returns the key; it is called before each connection.
 * @property {string} [name] what other clients are shown.
 * @property {string} [version]
 * @property {string} [instance] stays the same for one installation, so that the server knows a client that comes back.
 * @property {P.Role} [role] less than the token gives.
 * @property {(state: State, details: Record<string, any>) => void} [onState]
 * @property {(method: string, params: any) => void} [onNote]
 * @property {AbortSignal} [signal] closes the client.
 * @property {"auto" | "websocket" | "http"} [transport]
 * @property {typeof fetch} [fetch]
 * @property {typeof WebSocket} [WebSocket] where there is none: Node 20 with the package `ws`.
 */
/** @typedef {{ method: Method, params: any, resolve: (result: any) => void, reject: (error: unknown) => void, isSent: boolean }} Pending */

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** An attempt on this machine costs next to nothing, and its user waits: a server that is back is found within two seconds. */
const LONGEST_LOCAL_MS = 1_500;
const LOCAL = /^(localhost|127\.0\.0\.1|\[::1\])$/;
/** A connection that lasted less counts as a failure: a server that closes each one is not asked all the time. */
const STABLE_MS = 10_000;
const PING_MS = 3_000;
const HELLO_MS = 15_000;
/** After so many WebSockets that did not open, HTTP is used. */
const MOST_UNOPENED = 2;
const INSTANCE = newId();

/** Connect to a server. @param {ConnectOptions} [options] @returns {Promise<Client>} */
export async function connect(options = {}) {
  const client = new Client(options);
  await client.ready;
  return client;
}

/** A connection that comes back by itself. Made by `connect`. */
export class Client {
  /** @type {State} */
  state = "offline";
  /** The answer to `hello`; over HTTP only its role. @type {P.HelloResult | null} */
  server = null;
  /** How it is connected. @type {"websocket" | "http"} */
  transport = "websocket";
  /** How often a stream had missed something, by the server's ticks: expected to be 0. */
  healed = 0;
  /** How many events came that only a newer client knows. */
  unknown = 0;
  /** @type {Link | null} */
  #link = null;
  #lastId = 0;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  /** @type {Set<Subscription<any>>} */
  #subscriptions = new Set();
  /** Notifications for subscriptions whose answer has not come yet. @type {Map<string, [string, any][]>} */
  #early = new Map();
  /** Subscriptions of this connection that were ended. @type {Set<string>} */
  #ended = new Set();
  /** @type {EngineError | null} */
  #over = null;
  #lastSeen = 0;
  #unopened = 0;
  /** When the connection was lost; null: it is there. @type {number | null} */
  #since = null;
  #retryNow = () => {};
  #stopListening = () => {};

  /** @param {ConnectOptions} options */
  constructor(options) {
    if (options.transport === "websocket" && !(options.WebSocket ?? globalThis.WebSocket))
      throw new TypeError("there is no WebSocket here: pass one as an option");
    this.options = options;
    this.url = new URL(options.url ?? globalThis.document?.baseURI);
    this.url.pathname = this.url.pathname.replace(/[^/]*$/, "");
    this.url.search = this.url.hash = "";
    /** What the server knows this client by: for 12 hours at most, and until the server ends. */
    this.key = options.token ?? options.key ?? "";
    this.#listen();
    /** @type {Promise<void>} */
    this.ready = new Promise((resolve, reject) => void this.#run(resolve).catch(reject));
  }

  get isConnected() {
    return this.#link !== null;
  }

  /** A session by its id; nothing is asked. @param {string} id */
  session(id) {
    return new Session(this, id);
  }

  /** @param {Omit<P.SessionCreateParams, "key"> & { key?: string }} params @param {Call} [call] */
  async createSession(params, call) {
    return this.session((await this.call("session.create", params, call)).row.id);
  }

  /**
   * Watch the list of sessions. An item with `isReset` replaces what was: the first one, and the first after a lost connection.
   * @param {P.WatchParams & { limit?: number, signal?: AbortSignal }} [options]
   */
  watch({ signal, limit = 100, ...filter } = {}) {
    return new ListStream(this, signal, filter, limit);
  }

  /** Keep bytes for prompts, for an hour; return one of their `attachments`. @param {BodyInit} body @param {string} [name] @param {Call} [call] */
  async upload(body, name = "", { signal } = {}) {
    const { base, secret, fetch } = this.#place;
    const headers = { Authorization: `Bearer ${secret}`, "Content-Type": "application/octet-stream" };
    const response = await fetch(new URL("v1/uploads", base), { method: "POST", body, headers, signal });
    const answer = await response.json();
    if (!response.ok) throw new EngineError(response.status, answer.detail, { kind: "internal", ...answer });
    return { upload: /** @type {string} */ (answer.upload), name };
  }

  /**
   * Run a method. Aborting `signal` takes back a request that only reads, and stops waiting for any other one.
   * @template {Method} M
   * @param {M} method
   * @param {Omit<P.Methods[M]["params"], "key"> & { key?: string | null }} [params]
   * @param {Call} [call]
   * @returns {Promise<P.Methods[M]["result"]>}
   */
  call(method, params = /** @type {any} */ ({}), { signal } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#over) throw this.#over;
      // Whoever answers has to see what is true now, and not what was before the connection was lost.
      if (!this.#link && "request_id" in params)
        throw new EngineError(0, "there is no connection now", { kind: "offline" });
      const id = ++this.#lastId;
      const { role, key } = METHODS[method] ?? {};
      const stop = () => {
        this.#pending.delete(id);
        if (role === "read") this.#notify("rpc.cancel", { id });
        reject(signal?.reason);
      };
      const done = () => signal?.removeEventListener("abort", stop);
      signal?.addEventListener("abort", stop, { once: true });
      this.#pending.set(id, {
        method,
        params: key ? { key: newId(), ...params } : params,
        resolve: (result) => (done(), resolve(result)),
        reject: (error) => (done(), reject(error)),
        isSent: false,
      });
      this.#flush();
    });
  }

  /** Look whether the connection still works, and connect again at once if it doesn't. Pages do so when they are shown. */
  async check() {
    this.#retryNow();
    const link = this.#link;
    if (!link) return;
    const timer = setTimeout(() => link.close(LOST, "the server did not answer in time"), PING_MS);
    await this.call("ping").catch(() => {});
    clearTimeout(timer);
  }

  /** End the client. Turns go on: detaching is not cancelling. */
  close() {
    this.#end(new EngineError(0, "the client was closed", { kind: "closed" }));
    this.#link?.close(1000, "");
  }

  // -- connecting --------------------------------------------------------------------------

  get #place() {
    const { fetch = globalThis.fetch.bind(globalThis), WebSocket = globalThis.WebSocket } = this.options;
    return { base: this.url, secret: this.key, fetch, WebSocket };
  }

  /** Stay connected until the client is refused or closed. @param {() => void} ready */
  async #run(ready) {
    for (let attempt = 0; ; attempt++) {
      if (this.#over) throw this.#over;
      const begin = Date.now();
      const end = await this.#connectOnce(ready);
      if (this.#over) throw this.#over;
      if (!RETRIED_CLOSE_CODES.includes(end.code)) {
        const refused = new EngineError(end.code, end.message, { kind: "refused" });
        this.#end(refused);
        this.#setState("refused", { code: end.code, why: end.message });
        throw refused;
      }
      if (Date.now() - begin > STABLE_MS) attempt = 0;
      const most = LOCAL.test(this.url.hostname) ? LONGEST_LOCAL_MS : LONGEST_DELAY_MS;
      const longest = Math.min(most, FIRST_DELAY_MS * 2 ** Math.min(attempt, 10));
      const delay = longest * (0.5 + Math.random() / 2);
      const now = Date.now();
      this.#since ??= now;
      this.#setState("offline", { since: this.#since, retryAt: now + delay, delay, why: end.message });
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, delay);
        this.#retryNow = () => (clearTimeout(timer), resolve(null));
      });
      this.#retryNow = () => {};
    }
  }

  /** Connect, and serve until the connection ends. @param {() => void} ready @returns {Promise<LinkClosed>} why it has ended */
  async #connectOnce(ready) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    try {
      await this.#logIn();
      const link = await this.#open();
      const closed = new Promise((/** @type {(end: LinkClosed) => void} */ resolve) => (link.onclose = resolve));
      if (this.#over) link.close(1000, "");
      const welcome = this.#sayHello(link);
      timer = setTimeout(() => link.close(LOST, "the server did not answer in time"), HELLO_MS);
      welcome.then(
        (result) => {
          clearTimeout(timer);
          timer = this.#begin(link, result);
          ready();
        },
        // The server closes it, too, with these codes.
        (error) =>
          link.close(error.kind === "unsupported" ? 4400 : error.kind === "rate_limited" ? 4429 : 4401, error.message),
      );
      return await closed;
    } catch (error) {
      return error instanceof LinkClosed ? error : new LinkClosed(LOST, String(error));
    } finally {
      clearInterval(timer);
      this.#lose();
    }
  }

  /** Get a key of our own: from the caller, or for the ticket of a printed link. */
  async #logIn() {
    const { ticket, signIn } = this.options;
    const place = { ...this.#place, secret: "" };
    if (signIn) this.key = await signIn(place);
    else if (!this.key && ticket !== undefined) {
      const once = AbortSignal.timeout(ASKING_ONCE_MS);
      this.key = (await post(place, "v1/login", JSON.stringify({ ticket }), once)).key;
    }
  }

  /** @returns {Promise<Link>} */
  async #open() {
    const place = this.#place;
    const { transport = "auto" } = this.options;
    const best = place.WebSocket && this.#unopened < MOST_UNOPENED ? "websocket" : "http";
    this.transport = transport === "auto" ? best : transport;
    if (this.transport === "http") return openHttp(place);
    try {
      return await openSocket(place);
    } catch (error) {
      // A ticket was given, so the server is there: something on the way lets no WebSocket through.
      if (error instanceof LinkClosed && error.isUnopened) this.#unopened++;
      throw error;
    }
  }

  /** @param {Link} link @returns {Promise<P.HelloResult>} */
  #sayHello(link) {
    const { name = "javascript", version = "", instance = INSTANCE, role } = this.options;
    const params = { protocol: PROTOCOL, client: { name, version, instance }, ...(role ? { role } : {}) };
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#pending.set(id, { method: "hello", params, resolve, reject, isSent: true });
      link.onmessage = (text) => this.#receive(text);
      link.send(JSON.stringify({ jsonrpc: "2.0", id, method: "hello", params }));
    });
  }

  /** Use a connection from now on; return the timer that watches it. @param {Link} link @param {P.HelloResult} welcome */
  #begin(link, welcome) {
    this.server = welcome;
    this.#link = link;
    this.#since = null;
    this.#unopened = 0;
    this.#lastSeen = Date.now();
    this.#setState("live", {});
    this.#flush();
    for (const each of this.#subscriptions) void each.begin();
    const silent = Number(welcome.heartbeat) * 2500;
    return setInterval(() => {
      if (Date.now() - this.#lastSeen > silent) link.close(LOST, "nothing came for too long");
    }, silent / 5);
  }

  /** What a lost connection means for what waits. */
  #lose() {
    this.#link = null;
    this.#early.clear();
    this.#ended.clear();
    for (const each of this.#subscriptions) each.lose();
    for (const [id, each] of this.#pending) {
      if (!each.isSent) continue;
      each.isSent = false;
      const { role, key } = METHODS[each.method];
      // Reading and answering may be repeated, and so may what has a key.
      if (each.method !== "hello" && (key || role !== "full")) continue;
      this.#pending.delete(id);
      each.reject(new EngineError(0, `the connection was lost: ${each.method} may have been done`, { kind: "lost" }));
    }
  }

  /** @param {EngineError} error */
  #end(error) {
    if (this.#over) return;
    this.#over = error;
    this.#retryNow();
    this.#stopListening();
    for (const each of this.#pending.values()) each.reject(error);
    this.#pending.clear();
    for (const each of this.#subscriptions) each.fail(error.kind === "closed" ? null : error);
  }

  /** @param {State} state @param {Record<string, any>} details */
  #setState(state, details) {
    this.state = state;
    this.options.onState?.(state, details);
  }

  /** Notice what may have cut the connection, and the end. */
  #listen() {
    const stop = new AbortController();
    this.#stopListening = () => stop.abort();
    const { signal } = stop;
    const check = () => void this.check();
    globalThis.addEventListener?.("online", check, { signal });
    globalThis.addEventListener?.("pageshow", check, { signal });
    const document = globalThis.document;
    document?.addEventListener("visibilitychange", () => document.visibilityState === "visible" && check(), { signal });
    this.options.signal?.addEventListener("abort", () => this.close(), { signal });
    if (this.options.signal?.aborted) this.close();
  }

  // -- messages ----------------------------------------------------------------------------

  /** Send what waits, as far as the server takes it. */
  #flush() {
    const { in_flight: room = 64, message_bytes: limit = Infinity } = this.server?.limits ?? {};
    let sent = 0;
    for (const [id, each] of this.#pending) {
      if (!this.#link || ++sent > room) return;
      if (each.isSent) continue;
      const text = JSON.stringify({ jsonrpc: "2.0", id, method: each.method, params: each.params });
      if (text.length * 3 > limit && new TextEncoder().encode(text).length > limit) {
        this.#pending.delete(id);
        const data = { kind: /** @type {const} */ ("too_large"), retry: /** @type {const} */ ("no"), limit };
        each.reject(new EngineError(-32009, "the request is too large: upload its attachments", data));
        continue;
      }
      each.isSent = true;
      this.#link.send(text);
    }
  }

  /** @param {keyof P.ClientNotifications} method @param {object} params */
  #notify(method, params) {
    this.#link?.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** @param {string} text */
  #receive(text) {
    this.#lastSeen = Date.now();
    const message = JSON.parse(text);
    if ("method" in message) this.#hear(message.method, message.params ?? {});
    else this.#settle(message);
  }

  /** @param {{ id: number | null, result?: any, error?: { code: number, message: string, data?: P.ErrorData } }} answer */
  #settle({ id, result, error }) {
    const pending = this.#pending.get(id ?? 0);
    if (!pending) {
      // It was given up; a subscription would go on for nobody.
      if (typeof result?.sub === "string") this.#unsubscribe(result.sub);
      return;
    }
    this.#pending.delete(id ?? 0);
    if (error) pending.reject(new EngineError(error.code, error.message, error.data ?? { kind: "internal", retry: "no" }));
    else pending.resolve(result);
    this.#flush();
  }

  /** @param {string} method @param {any} params */
  #hear(method, params) {
    if (method === "tick") {
      this.#notify("tock", { time: params.time });
      for (const each of this.#subscriptions) each.tick(params);
    } else if (params.sub === undefined) this.options.onNote?.(method, params);
    else if (!this.#ended.has(params.sub)) {
      const reader = [...this.#subscriptions].find(({ sub }) => sub === params.sub);
      if (reader) reader.hear(method, params);
      // The answer to `subscribe` may come after the first events.
      else this.#early.set(params.sub, [...(this.#early.get(params.sub) ?? []), [method, params]]);
    }
  }

  /** @param {string} sub */
  #unsubscribe(sub) {
    this.#early.delete(sub);
    this.#ended.add(sub);
    if (this.#link) this.call("unsubscribe", { sub }).catch(() => {});
  }

  // -- for subscriptions -------------------------------------------------------------------

  /** @param {Subscription<any>} subscription */
  _add(subscription) {
    if (this.#over) return subscription.fail(this.#over);
    this.#subscriptions.add(subscription);
    if (this.#link) void subscription.begin();
  }

  /** @param {Subscription<any>} subscription */
  _remove(subscription) {
    this.#subscriptions.delete(subscription);
    this._forget(subscription);
    this._showProgress();
  }

  /** End it on this connection. @param {Subscription<any>} subscription */
  _forget(subscription) {
    const { sub } = subscription;
    subscription.sub = null;
    if (sub !== null) this.#unsubscribe(sub);
  }

  /** Pass on what came before its name was known. @param {Subscription<any>} subscription */
  _catchUp(subscription) {
    const notes = this.#early.get(subscription.sub ?? "") ?? [];
    this.#early.delete(subscription.sub ?? "");
    for (const [method, params] of notes) subscription.hear(method, params);
  }

  /** Show whether the streams are where their sessions are. */
  _showProgress() {
    if (!this.#link) return;
    const events = [...this.#subscriptions].reduce((sum, each) => sum + each.behind, 0);
    const state = events ? "behind" : "live";
    if (state !== this.state) this.#setState(state, events ? { events } : {});
  }

  /** @param {string} type */
  _countUnknown(type) {
    if (this.unknown++ === 0) this.options.onNote?.("unknown", { type });
  }
}
