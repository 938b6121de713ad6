// @ts-check
/**
 * Ways to a server. A link carries messages of JSON-RPC as text: over a WebSocket, or over HTTP with an event stream for each
 * subscription. Both are used alike.
 */
import { LinkClosed } from "./errors.js";

/**
 * @typedef {object} Link
 * @property {(text: string) => void} send
 * @property {(code: number, reason: string) => void} close end it, and call `onclose` with these.
 * @property {(text: string) => void} onmessage
 * @property {(end: LinkClosed) => void} onclose called once.
 */
/**
 * @typedef {object} Place
 * @property {URL} base the server's address; a path prefix of a proxy is a part of it.
 * @property {string} secret a token, or the key of a browser.
 * @property {typeof globalThis.fetch} fetch
 * @property {typeof globalThis.WebSocket} [WebSocket]
 */

const OPENING_MS = 15_000;
/** For a request on the way to a connection: a browser may send it over one that has died unnoticed, while a machine slept. */
const ASKING_MS = 5_000;
/** For one that can't be sent twice. */
export const ASKING_ONCE_MS = 60_000;
const POLLING_MS = 3_000;
/** Seconds after which the server says something on a silent event stream. */
const HEARTBEAT = 15;
export const LOST = 1006;
export const REFUSED = 4401;
const FORBIDDEN = 4403;

/** Return a new random text: a key, the name of an installation. */
export function newId() {
  // Not `randomUUID`, which browsers have only where the connection is encrypted or local.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Send a POST of JSON; return the JSON of the answer. Throws `LinkClosed` if the server refuses it, or can't be reached, by
 * default within five seconds.
 * @param {Place} place @param {string} path @param {string} body @param {AbortSignal} [signal]
 */
export async function post(place, path, body, signal = AbortSignal.timeout(ASKING_MS)) {
  const headers = { "Content-Type": "application/json" };
  return (await request(place, path, { method: "POST", headers, body, signal })).json();
}

/** @param {Place} place @param {string} path @param {RequestInit} options */
async function request({ base, secret, fetch }, path, options) {
  const headers = new Headers(options.headers);
  if (secret) headers.set("Authorization", `Bearer ${secret}`);
  /** @type {RequestInit} */
  const way = { credentials: "omit", cache: "no-store", redirect: "error", ...options, headers };
  const response = await fetch(new URL(path, base), way).catch((error) => {
    throw new LinkClosed(LOST, `the server can't be reached: ${error.message}`);
  });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const code = response.status === 401 ? REFUSED : [403, 421].includes(response.status) ? FORBIDDEN : LOST;
  throw new LinkClosed(code, problem.detail ?? `the server answered ${response.status}`, problem);
}

/**
 * Open a WebSocket. Browsers can't send a header with one, so a ticket goes with it as the name of a protocol.
 * @param {Place} place @returns {Promise<Link>}
 */
export async function openSocket(place) {
  const { ticket } = await post(place, "v1/ticket", "{}");
  const url = new URL("v1/socket", place.base);
  url.protocol = url.protocol.replace("http", "ws");
  const Socket = /** @type {typeof globalThis.WebSocket} */ (place.WebSocket);
  return new Promise((resolve, reject) => {
    const socket = new Socket(url.href, ["engine.v1", `engine.ticket.${ticket}`]);
    let isOpen = false;
    let isOver = false;
    /** @param {number} code @param {string} reason */
    const end = (code, reason) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      const closed = new LinkClosed(code, reason || (isOpen ? "" : "the WebSocket did not open"));
      closed.isUnopened = !isOpen;
      if (isOpen) link.onclose(closed);
      else reject(closed);
    };
    /** @type {Link} */
    const link = {
      send: (text) => socket.send(text),
      close: (code, reason) => {
        // The other side may never answer: what matters is that nothing more comes from here.
        end(code, reason);
        socket.close();
      },
      onmessage: () => {},
      onclose: () => {},
    };
    const timer = setTimeout(() => link.close(LOST, "the WebSocket did not open in time"), OPENING_MS);
    socket.onopen = () => {
      clearTimeout(timer);
      isOpen = true;
      resolve(link);
    };
    socket.onmessage = ({ data }) => {
      if (!isOver) link.onmessage(data);
    };
    socket.onclose = ({ code, reason }) => end(code, reason);
    socket.onerror = () => {}; // its close follows
  });
}

/** Use HTTP, where no WebSocket gets through. @param {Place} place @returns {Promise<Link>} */
export async function openHttp(place) {
  const link = new HttpLink(place);
  await link.open();
  return link;
}

/** Requests by POST, an event stream for each subscription, and lists by asking again. @implements {Link} */
class HttpLink {
  #place;
  #over = new AbortController();
  /** @type {Map<string, AbortController>} */
  #subs = new Map();
  #lastSub = 0;
  /** @type {Link["onmessage"]} */
  onmessage = () => {};
  /** @type {Link["onclose"]} */
  onclose = () => {};

  /** What this client may do. @type {import("./engine-control.d.ts").Role} */
  role = "read";

  /** @param {Place} place */
  constructor(place) {
    this.#place = place;
  }

  /** Look whether the server is there, and go on looking. */
  async open() {
    const late = setTimeout(() => this.#over.abort(), ASKING_MS);
    const { result } = await this.rpc("server.status", {}).finally(() => clearTimeout(late));
    this.role = result.role;
    const timer = setInterval(() => {
      this.rpc("ping", {}).then(
        ({ result: { time } }) => this.#receive({ method: "tick", params: { time, heads: {}, isPartial: true } }),
        (error) => this.close(LOST, error.message),
      );
    }, HEARTBEAT * 1000);
    this.#over.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** @param {string} text */
  send(text) {
    this.#run(JSON.parse(text)).catch((error) =>
      this.close(error instanceof LinkClosed ? error.code : LOST, error.message),
    );
  }

  /** @param {number} code @param {string} reason */
  close(code, reason) {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    for (const sub of this.#subs.values()) sub.abort();
    this.onclose(new LinkClosed(code, reason));
  }

  /** @param {string} method @param {object} params @returns {Promise<any>} */
  rpc(method, params, id = 0) {
    return post(this.#place, "v1/rpc", JSON.stringify({ jsonrpc: "2.0", id, method, params }), this.#over.signal);
  }

  /** @param {object} message */
  #receive(message) {
    if (!this.#over.signal.aborted) this.onmessage(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  /** @param {{ id?: number, method: string, params: any }} message */
  async #run({ id, method, params }) {
    if (id === undefined) return; // a notification is about a connection, and there is none
    if (method === "hello")
      this.#receive({ id, result: { protocol: params.protocol.max, heartbeat: HEARTBEAT, role: this.role } });
    else if (method === "subscribe") await this.#stream(id, params);
    else if (method === "watch") await this.#poll(id, params);
    else if (method === "unsubscribe") {
      this.#subs.get(params.sub)?.abort();
      this.#receive({ id, result: { position: "" } });
    } else this.#receive(await this.rpc(method, params, id));
  }

  #newSub() {
    const sub = `h${++this.#lastSub}`;
    const own = new AbortController();
    this.#subs.set(sub, own);
    return { sub, signal: own.signal };
  }

  /** @param {number} id @param {{ session_id: string }} params */
  async #stream(id, { session_id, ...rest }) {
    const { sub, signal } = this.#newSub();
    const query = new URLSearchParams(Object.entries(rest).map(([name, value]) => [name, String(value)]));
    const path = `v1/sessions/${encodeURIComponent(session_id)}/stream?${query}`;
    // A browser has six connections to a server, and says nothing when the seventh waits for one.
    const late = () => this.close(LOST, "no connection is free: close other tabs of this page");
    let timer = setTimeout(late, OPENING_MS);
    try {
      const response = await request(this.#place, path, { headers: { Accept: "text/event-stream" }, signal });
      for await (const { method, params } of messagesOf(response)) {
        clearTimeout(timer);
        timer = setTimeout(() => this.close(LOST, "nothing came for too long"), HEARTBEAT * 2500);
        if (method === "head") this.#receive({ id, result: { sub, head: params.head, mode: "live" } });
        // The server's name for it is the same on each stream.
        const named = method === "tick" ? { heads: { [sub]: Object.values(params.heads)[0] }, isPartial: true } : { sub };
        this.#receive({ method, params: { ...params, ...named } });
      }
      throw new LinkClosed(LOST, "an event stream has ended");
    } catch (error) {
      const problem = error instanceof LinkClosed ? error.problem : {};
      if (signal.aborted) return;
      if (!problem.kind) throw error;
      this.#receive({ id, error: { code: 0, message: problem.detail, data: problem } });
    } finally {
      clearTimeout(timer);
      this.#subs.delete(sub);
    }
  }

  /** @param {number} id @param {object} filter */
  async #poll(id, filter) {
    const { sub, signal } = this.#newSub();
    this.#receive({ id, result: { sub } });
    let known = new Map();
    while (!signal.aborted) {
      const [list, asked] = await Promise.all([this.rpc("session.list", { ...filter, limit: 200 }), this.rpc("asked", {})]);
      const questions = asked.result?.questions ?? [];
      const now = new Map();
      for (const row of list.result?.rows ?? []) {
        const own = questions.filter((/** @type {{ session_id: string }} */ each) => each.session_id === row.id);
        now.set(row.id, { row, waiting: own.length, waiting_since: own[0]?.question.time ?? null });
      }
      const text = (/** @type {unknown} */ value) => JSON.stringify(value);
      const rows = [...now.values()].filter((each) => text(each) !== text(known.get(each.row.id)));
      const removed = list.result?.next ? [] : [...known.keys()].filter((key) => !now.has(key));
      if (rows.length || removed.length) this.#receive({ method: "sessions", params: { sub, rows, removed } });
      known = now;
      await pause(POLLING_MS, signal);
    }
  }
}

/** @param {number} ms @param {AbortSignal} signal ends it early. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve(null)), { once: true });
  });
}

/** Yield the messages of an event stream: each is one line of `data`. @param {Response} response */
async function* messagesOf(response) {
  // Not every browser can iterate over the body.
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  /** @type {string[]} */
  let pieces = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = decoder.decode(value, { stream: true }).split("\n");
      pieces.push(lines[0]);
      if (lines.length === 1) continue;
      const whole = [pieces.join(""), ...lines.slice(1, -1)];
      pieces = [lines[lines.length - 1]];
      for (const line of whole) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
