// The page: who is signed in, the connection, which session is shown, keys, and settings.

import { h, replace, setText } from "./dom.js";
import { connect } from "./client/engine-client.js";
import { REFUSED } from "./client/links.js";
import { icon } from "./icons.js";
import { looks, setLook } from "./looks.js";
import { Sidebar } from "./sidebar.js";
import { FOREIGN, isSignedIn, signInWith, signOut, takeTicket } from "./sign-in.js";
import { oneLine, visible } from "./text.js";
import { announce, button, dialog, loadPart, problem } from "./widgets.js";
import { connectionText, endText } from "./words.js";

// What other clients are shown.
const NAME = "browser";

/** The whole page. */
class App {
  constructor() {
    this.state = "connecting";
    this.details = {};
    this.openId = null;
    this.hasStream = false;
    this.view = null;
    this.offset = 0;
    this.clientName = NAME;
    this.root = document.getElementById("app");
    this.line = h("div", { class: "connection-line", hidden: true });
    this.main = h("main", { id: "main", class: "main", tabindex: "-1" });
    this.sidebar = new Sidebar(this);
    this.frame = h("div", { class: "frame" }, this.line, this.sidebar.node, this.main);
  }

  get role() {
    return this.client?.server?.role ?? "read";
  }

  /** The server's time, in seconds since the epoch. */
  now() {
    return Date.now() / 1000 + this.offset;
  }

  isLive() {
    return this.state === "live" || this.state === "behind";
  }

  rowOf(id) {
    return this.sidebar.rows.get(id)?.row ?? null;
  }

  // -- signing in ----------------------------------------------------------------------------

  async start() {
    const ticket = takeTicket();
    window.addEventListener("hashchange", () => this.#moved());
    if (ticket || (await isSignedIn())) await this.#connect(ticket);
    else this.#askForLink("");
  }

  /** Connect: with the *ticket* of a link, or as this browser was signed in before. */
  async #connect(ticket) {
    replace(this.root, h("p", { class: "starting", role: "status" }, "Connecting"));
    try {
      this.client = await connect({
        signIn: signInWith(ticket),
        name: NAME,
        onState: (state, details) => this.#setState(state, details),
        onNote: (method, params) => this.#note(method, params),
      });
    } catch (error) {
      const why = ticket ? "That link was used already, or is too old." : "This browser is signed in no more: 12 hours have passed, or the token was revoked.";
      return this.#askForLink(error.code === REFUSED ? why : error.message);
    }
    this.#setClock();
    replace(this.root, this.frame);
    this.#tick();
    this.#watch();
    this.#route();
    document.addEventListener("keydown", (event) => this.#key(event));
    // The fragment is the page's own: it names the session.
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      this.main.focus();
    });
    setInterval(() => this.#tick(), 1000);
    return undefined;
  }

  /** The address has changed: to another session, or to a link that was opened in this tab. */
  #moved() {
    const before = this.openId;
    const ticket = takeTicket();
    if (!ticket) return this.client && this.#route();
    if (this.client && this.state !== "refused") return before && this.open(before);
    // From the beginning, with what is on the way, or was refused, left behind.
    history.replaceState(null, "", `#k=${ticket}`);
    return location.reload();
  }

  #askForLink(why) {
    const field = h("input", { type: "text", "aria-label": "Link", placeholder: "http://127.0.0.1:…/#k=…", autocomplete: "off", spellcheck: "false", class: "mono" });
    const go = () => {
      const ticket = /#k=([\w-]+)/.exec(field.value)?.[1] ?? (/^[\w-]{20,}$/.exec(field.value.trim())?.[0] || null);
      if (ticket) this.#connect(ticket);
      else replace(failure, problem("That is no link of the server."));
    };
    const failure = h("div", {}, why ? problem(why) : "");
    field.addEventListener("keydown", (event) => event.key === "Enter" && go());
    replace(
      this.root,
      h(
        "main",
        { class: "sign-in", id: "main" },
        h("p", { class: "brand" }, "engine"),
        h("h1", {}, "Open the link of the server"),
        h("p", {}, "In a terminal on the machine of the server, ", h("code", {}, "engine serve --open"), " opens this page, and ", h("code", {}, "engine serve"), " prints a link to it. The link works once, for ten minutes."),
        failure,
        h("label", { class: "field" }, "Or paste the link here", field),
        h("div", { class: "dialog-actions" }, button("Open", { kind: "primary", onClick: go })),
      ),
    );
    setTitleText("engine");
  }

  async #signOut() {
    await signOut();
    history.replaceState(null, "", `${location.pathname}#/`);
    location.reload();
  }

  // -- the connection ---------------------------------------------------------------------------

  #setState(state, details) {
    const before = this.state;
    this.state = state;
    this.details = details;
    if (state === "live") this.#setClock();
    // The frame comes with the first connection.
    if (!this.client) {
      setText(this.root.firstChild, state === "offline" ? `No answer from the server, trying again. ${details.why}` : "Connecting");
      return;
    }
    if (before !== state && (state === "offline" || before === "offline") && before !== "connecting") {
      announce(state === "offline" ? "The connection is lost" : "Connected again");
    }
    this.#tick();
    this.view?.update();
    this.sidebar.update();
  }

  /** The server's clock may differ from the browser's. */
  #setClock() {
    const time = Number(this.client?.server?.time);
    if (time) this.offset = time - Date.now() / 1000;
  }

  #note(method, params) {
    if (method === "clients" && this.view) {
      this.view.log.clients = params.clients;
      this.view.update();
    } else if (method === "server.draining") {
      this.until = params.until;
    } else if (method === "unknown") {
      this.say("The server is newer than this page: load the page again.");
    }
    this.#tick();
  }

  /** Say how the connection is, wherever it is not simply there. */
  #tick() {
    const isStale = this.state === "offline" || this.state === "refused";
    this.frame.classList.toggle("is-stale", isStale);
    setText(this.sidebar.foot, connectionText(this.state, this.details, this.client?.transport));
    const text = this.#lineText();
    this.line.hidden = !text;
    if (text !== this.lineText) {
      const kind = this.state === "offline" ? "offline" : "warning";
      if (!this.lineText || !text || this.lineKind !== kind) {
        const retry = this.state === "offline" ? button("Try now", { kind: "quiet small", onClick: () => this.client.check() }) : null;
        this.lineNode = h("span", {});
        replace(this.line, icon(kind), this.lineNode, retry);
        this.lineKind = kind;
      }
      this.lineText = text;
      setText(this.lineNode, text);
    }
    if (this.ticks++ % 15 === 0) this.sidebar.update();
  }

  ticks = 1;

  #lineText() {
    if (this.state === "refused") return "This page is signed out: 12 hours have passed, the token was revoked, or this is the server of another store. Run “engine serve --open” to open it again.";
    if (this.state === "offline") {
      const since = new Date(this.details.since).toLocaleTimeString();
      const left = Math.max(0, Math.ceil((this.details.retryAt - Date.now()) / 1000));
      const why = this.details.why === FOREIGN ? ` ${FOREIGN}` : "";
      return `No connection since ${since}. What you see is from then.${why} ${left ? `Trying again in ${left} s.` : "Trying again."}`;
    }
    return endText(this.until, this.now());
  }

  async #watch() {
    try {
      for await (const item of this.client.watch()) {
        this.sidebar.take(item);
        if (item.isReset) this.until = null;
        this.view?.update();
        if (!this.view) this.setTitle("Sessions", this.#waiting());
      }
    } catch (error) {
      if (error.kind !== "refused" && error.kind !== "closed") this.say(error.message);
    }
  }

  #waiting() {
    return [...this.sidebar.rows.values()].reduce((sum, entry) => sum + (entry.waiting || 0), 0);
  }

  /** Say something that concerns no session. */
  say(text) {
    if (this.view) return this.view.say(text);
    return replace(this.main, problem(text), this.#welcome());
  }

  // -- which session ------------------------------------------------------------------------------

  open(id) {
    location.hash = id ? `#/s/${id}` : "#/";
  }

  #route() {
    const id = /^#\/s\/([^/?#]+)$/.exec(location.hash)?.[1] ?? null;
    const name = id === null ? null : decodeURIComponent(id);
    if (name !== null && name === this.openId) return undefined;
    this.view?.close();
    this.openId = name;
    this.view = null;
    this.frame.classList.toggle("has-session", name !== null);
    this.sidebar.update();
    if (name !== null) return this.#show(name);
    replace(this.main, this.#welcome());
    this.setTitle("Sessions", this.#waiting());
    return undefined;
  }

  /** Show a session. The list is there before what only a session needs is loaded. */
  async #show(id) {
    this.hasStream ||= this.client.transport !== "http" || (await claimStream());
    if (!this.hasStream) {
      const text = `Something on the way to the server lets no WebSocket through. Without them a browser can show ${MOST_STREAMS} sessions at once, and it does: close another tab of this page.`;
      replace(this.main, problem(text, button("Try again", { kind: "quiet", onClick: () => this.#show(id) })));
      return;
    }
    try {
      const { SessionView } = await loadPart(() => import("./session-view.js"));
      if (this.openId !== id || this.view) return;
      this.view = new SessionView(this, id);
    } catch (error) {
      this.say(error.message);
      return;
    }
    replace(this.main, this.view.node);
    this.view.focusField();
  }

  #welcome() {
    return h(
      "div",
      { class: "welcome" },
      h("h1", {}, "Choose a session, or begin a new one"),
      h("p", { class: "hint" }, "A session is a conversation with a model that works in one folder."),
      button("New session", { icon: "plus", kind: "primary", onClick: () => this.sidebar.newSession() }),
      h("p", { class: "hint" }, "Press ", h("kbd", {}, "?"), " for the keys."),
    );
  }

  setTitle(title, waiting) {
    setTitleText(`${waiting ? `(${waiting}) ` : ""}${oneLine(title, 60)} · engine`);
  }

  // -- keys ------------------------------------------------------------------------------------------

  #key(event) {
    if (event.isComposing || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey && event.key === ".") {
      event.preventDefault();
      this.view?.cancel();
    } else if (event.altKey && event.code === "KeyQ") {
      event.preventDefault();
      if (!this.view?.questions.focusNext()) this.#nextQuestion();
    } else if (event.key === "Escape") {
      // Escape answers nothing; it leaves what is over the transcript.
      if (this.view?.panel.isOver()) this.view.panel.hide();
      else if (document.activeElement?.closest(".question")) this.view?.composer.field.focus();
    } else if (!event.ctrlKey && !event.altKey && !event.metaKey && !isTyping(event.target)) {
      this.#letter(event);
    }
  }

  /** Go to a session that waits for an answer. */
  #nextQuestion() {
    const entry = [...this.sidebar.rows.values()].find(({ row, waiting }) => waiting && row.id !== this.openId);
    if (entry) this.open(entry.row.id);
    else announce("No question is open");
  }

  #letter(event) {
    if (event.key === "?") return this.showHelp();
    if (!looks.letters) return undefined;
    const actions = {
      "/": () => this.sidebar.search.focus(),
      n: () => this.sidebar.newSession(),
      i: () => this.view?.composer.field.focus(),
      l: () => this.view?.panel.toggle("lanes"),
      d: () => this.view?.panel.toggle("changes"),
      c: () => this.view?.panel.toggle("context"),
      j: () => this.view?.transcript.step(1),
      k: () => this.view?.transcript.step(-1),
      e: () => this.view?.transcript.toEnd(),
    };
    // The lanes have letters of their own.
    if (!actions[event.key] || event.target.closest?.(".lanes")) return undefined;
    event.preventDefault();
    return actions[event.key]();
  }

  showHelp() {
    const keys = [
      ["Enter", "send"],
      ["Shift+Enter", "new line"],
      ["Ctrl+Enter", "queue for the next turn"],
      ["Ctrl+.", "cancel the turn"],
      ["Alt+Q", "next question"],
      ["Esc", "back to writing; never an answer"],
      ["?", "this help"],
    ];
    const letters = [
      ["/", "search"],
      ["n", "new session"],
      ["i", "write"],
      ["j  k", "next, previous turn"],
      ["e", "to the end"],
      ["l  d  c", "lanes, changes, context"],
    ];
    const table = (rows) => h("dl", { class: "keys" }, ...rows.flatMap(([key, text]) => [h("dt", {}, ...key.split("  ").map((each) => h("kbd", {}, each))), h("dd", {}, text)]));
    return dialog("Keys", (close) => [
      table(keys),
      h("h3", {}, looks.letters ? "Single letters, where nothing is being written" : "Single letters are switched off"),
      looks.letters ? table(letters) : "",
      h("div", { class: "dialog-actions" }, button("Settings", { onClick: () => (close(), this.showSettings()) }), button("Close", { kind: "primary", onClick: () => close() })),
    ]);
  }

  showSettings() {
    const choice = (name, label, options) => {
      const inputs = options.map(([value, text]) => {
        const input = h("input", { type: "radio", name, value, checked: looks[name] === value, on: { change: () => setLook(name, value) } });
        return h("label", { class: "choice" }, input, h("span", {}, text));
      });
      return h("fieldset", { class: "setting" }, h("legend", {}, label), ...inputs);
    };
    const letters = h("input", { type: "checkbox", checked: looks.letters, on: { change: (event) => setLook("letters", event.target.checked) } });
    return dialog("Settings", (close) => [
      choice("theme", "Colours", [["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]]),
      choice("speech", "What screen readers are told of turns", [["nothing", "Questions only"], ["ends", "Their beginning and end"], ["sentences", "The answer too, in whole sentences"]]),
      h("fieldset", { class: "setting" }, h("legend", {}, "Keys"), h("label", { class: "choice" }, letters, h("span", {}, "Single letters are keys"))),
      h("p", { class: "hint" }, `Server ${visible(this.client?.server?.server?.version ?? "")}. These settings are kept in this browser.`),
      h("div", { class: "dialog-actions" }, button("Sign out", { title: "This browser needs a new link then", onClick: () => this.#signOut() }), button("Keys", { onClick: () => (close(), this.showHelp()) }), button("Close", { kind: "primary", onClick: () => close() })),
    ]);
  }
}

// Browsers have six connections for a server. Each tab that follows a session without a WebSocket keeps one of them, and the
// seventh would wait without a word. So only some do, and the rest are left for requests.
const MOST_STREAMS = 4;

async function claimStream() {
  if (!navigator.locks) return true;
  for (let number = 0; number < MOST_STREAMS; number += 1) {
    const isOurs = await new Promise((resolve) => {
      navigator.locks.request(`engine.stream.${number}`, { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        // The lock is ours until the tab is closed.
        return lock ? new Promise(() => {}) : undefined;
      });
    });
    if (isOurs) return true;
  }
  return false;
}

function isTyping(target) {
  return target instanceof Element && target.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function setTitleText(text) {
  const title = visible(text);
  if (document.title !== title) document.title = title;
}

new App().start();
