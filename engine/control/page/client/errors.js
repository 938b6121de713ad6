// @ts-check
/** What goes wrong, for users of the client. */

/** @import * as P from "./engine-control.d.ts" */
/** @typedef {{ kind: "offline" | "lost" | "refused" | "closed" }} OwnData */

/**
 * A request failed. `kind` is one of the protocol's, or the client's own: "offline" (not sent), "lost" (sent, and its answer
 * will not come: it may have been done), "refused" (the server lets this client in no more), "closed" (by `client.close()`).
 */
export class EngineError extends Error {
  name = "EngineError";

  /** @param {number} code @param {string} message @param {P.ErrorData | OwnData} data */
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.kind = data.kind;
    /** @type {Record<string, any>} */
    this.data = data;
  }
}

/** The end of a link, by the close code of a WebSocket. */
export class LinkClosed extends Error {
  /** @param {number} code @param {string} reason @param {Record<string, any>} [problem] what an answer of HTTP said. */
  constructor(code, reason, problem = {}) {
    super(reason || `the connection has ended (${code})`);
    this.code = code;
    this.problem = problem;
    /** A WebSocket that did not open, though the server gave a ticket for it. */
    this.isUnopened = false;
  }
}
