// @ts-check
/** `Session`: a session of the server, by its id. */
import { EventStream } from "./streams.js";

/** @import * as P from "./engine-control.d.ts" */
/** @import { Client, Call, Method } from "./engine-client.js" */
/** @import { WatchOptions } from "./streams.js" */
/** @typedef {{ attachments?: P.Attachment[], key?: string } & Call} InputOptions */
/** @typedef {{ settings?: P.TurnSettings, onDisconnect?: "continue" | "cancel", linger?: number } & InputOptions} PromptOptions */
/** @template {keyof P.Methods} M @typedef {Omit<P.Methods[M]["params"], "session_id" | "key"> & { key?: string | null }} Rest */

const WAIT_SECONDS = 30;

/** A session. Making one asks nothing; what it does not name is reached by `call`. */
export class Session {
  /** @param {Client} client @param {string} id */
  constructor(client, id) {
    this.client = client;
    this.id = id;
  }

  /**
   * Run a method for this session.
   * @template {Method} M @param {M} method @param {Rest<M>} [params] @param {Call} [call]
   */
  call(method, params, call) {
    return this.client.call(method, /** @type {any} */ ({ session_id: this.id, ...params }), call);
  }

  /** Iterate over its events, over lost connections. @param {WatchOptions} [options] */
  watch(options = {}) {
    return new EventStream(this.client, this.id, options);
  }

  /** Start a turn. Resolves once it is admitted. @param {string} text @param {PromptOptions} [options] */
  prompt(text, { signal, onDisconnect, ...rest } = {}) {
    const ending = onDisconnect ? { on_disconnect: onDisconnect } : {};
    return this.call("prompt", { text, ...ending, ...rest }, { signal });
  }

  /** Send input for the next turn. @param {string} text @param {InputOptions} [options] */
  queue(text, { signal, ...rest } = {}) {
    return this.call("queue", { text, ...rest }, { signal });
  }

  /** Send a message to the model in a running turn. @param {string} turnId @param {string} text @param {InputOptions} [options] */
  steer(turnId, text, { signal, ...rest } = {}) {
    return this.call("steer", { turn_id: turnId, text, ...rest }, { signal });
  }

  /** Cancel a turn. Resolves at once, with the time until which it cleans up. @param {string} turnId @param {string} [reason] */
  cancel(turnId, reason = "") {
    return this.call("cancel", { turn_id: turnId, ...(reason ? { reason } : {}) });
  }

  /** Go on with a parked turn. */
  resume() {
    return this.call("resume", {});
  }

  /** Wait for the end of a turn, however long it takes. @param {string} turnId @param {Call} [call] */
  async wait(turnId, call) {
    for (;;) {
      const { state, result } = await this.call("wait", { turn_id: turnId, timeout: WAIT_SECONDS }, call);
      if (state === "over") return /** @type {P.TurnResult} */ (result);
    }
  }

  /** Answer a question for permission. @param {string} requestId @param {Omit<Rest<"permission.reply">, "request_id">} answer */
  reply(requestId, answer) {
    return this.call("permission.reply", { request_id: requestId, ...answer });
  }

  /** Answer a tool's question; without answers it is declined. @param {string} requestId @param {string[]} [answers] */
  answer(requestId, answers = []) {
    return this.call("question.answer", { request_id: requestId, answers });
  }

  /** Say how to go on after the model's host has failed. @param {string} requestId @param {Omit<Rest<"recovery.answer">, "request_id">} answer */
  recover(requestId, answer) {
    return this.call("recovery.answer", { request_id: requestId, ...answer });
  }
}
