// One session: its head, the transcript, questions, the composer, and the panel beside it.

import { Composer } from "./composer.js";
import { h, replace, setText } from "./dom.js";
import { cost, shortPath, tokens } from "./formats.js";
import { icon } from "./icons.js";
import { looks } from "./looks.js";
import { Panel } from "./panel.js";
import { Questions } from "./questions.js";
import { makeRow, isShown } from "./rows.js";
import { SessionLog } from "./session-log.js";
import { oneLine, visible } from "./text.js";
import { Transcript } from "./transcript.js";
import { announce, button, confirm, dialog, onNextFrame, problem, shareBar } from "./widgets.js";
import { endOf, PROFILES, statusText } from "./words.js";

/** The view of a session. It is also what its parts know of it: their `context`. */
export class SessionView {
  /** @param {any} app the page. @param {string} id the session's. */
  constructor(app, id) {
    this.app = app;
    this.session = app.client.session(id);
    this.version = 0;
    this.report = null;
    this.lastLive = app.now();
    this.log = new SessionLog(this.session, {
      onChange: (item) => this.#changed(item),
      onAdmitted: (inputId) => this.composer.admitted(inputId),
    });
    this.update = onNextFrame(() => this.#update());
    this.#build();
    this.#run();
    this.ticking = setInterval(() => this.#tick(), 250);
  }

  #build() {
    this.title = h("h1", { class: "session-title", tabindex: "-1" });
    this.status = h("span", { class: "status" });
    this.place = h("p", { class: "session-place" });
    this.others = h("span", { class: "presence" });
    this.gauge = h("button", { type: "button", class: "gauge", on: { click: () => this.panel.toggle("context") } });
    this.banner = h("div", { class: "session-banner" });
    this.profile = h("div", { class: "profile-line", hidden: true });
    this.transcript = new Transcript(this);
    this.questions = new Questions(this);
    this.composer = new Composer(this);
    this.panel = new Panel(this);
    const more = button("More", { icon: "more", iconOnly: true, kind: "quiet", onClick: () => this.#menu() });
    this.node = h(
      "div",
      { class: "session" },
      h(
        "header",
        { class: "session-head" },
        h("a", { class: "button quiet icon-only back", href: "#/", "aria-label": "All sessions" }, icon("back")),
        h("div", { class: "session-names" }, h("div", { class: "session-line" }, this.title, this.status), this.place),
        h("div", { class: "session-tools" }, this.others, this.gauge, ...this.panel.tabs, more),
      ),
      this.profile,
      this.banner,
      h(
        "div",
        { class: "session-body" },
        h("div", { class: "session-main" }, this.transcript.node, h("div", { class: "dock" }, this.questions.node, this.composer.node)),
        this.panel.node,
      ),
    );
    this.composer.update();
  }

  /** Move the focus to where messages are written; on a phone that would bring up the keyboard, so the title gets it. */
  focusField() {
    if (matchMedia("(min-width: 760px) and (not (pointer: coarse))").matches) this.composer.field.focus();
    else this.title.focus();
  }

  async #run() {
    try {
      await this.log.run();
    } catch (error) {
      if (this.isClosed) return;
      this.failure = error;
      // The line at the top of the page says that, and what to do.
      if (error.kind === "refused") return;
      const text = error.kind === "not_found" ? "This session does not exist, or was removed." : error.message;
      replace(this.banner, problem(text, h("a", { class: "button quiet", href: "#/" }, "All sessions")));
    }
  }

  close() {
    this.isClosed = true;
    clearInterval(this.ticking);
    this.log.close();
    this.questions.close();
    this.transcript.close();
    this.panel.close();
  }

  // -- what parts ask ------------------------------------------------------------------------

  /** The server's time; without a connection, that of the last one: what is shown is from then. */
  now() {
    if (this.isLive()) this.lastLive = this.app.now();
    return this.lastLive;
  }

  width() {
    return this.transcript.list.clientWidth;
  }

  get ownName() {
    return this.app.clientName;
  }

  get clientId() {
    return this.app.client.server?.client_id ?? "";
  }

  isLive() {
    return this.app.isLive();
  }

  mayChange() {
    return this.isLive() && this.app.role === "full" && !this.isElsewhere();
  }

  mayAnswer() {
    return this.isLive() && this.app.role !== "read" && !this.isElsewhere() && !this.log.isParked;
  }

  isElsewhere() {
    return this.app.rowOf(this.session.id)?.holder === "elsewhere";
  }

  live() {
    const { turn, isParked, isInterrupted, ending } = this.log;
    return { turn, isParked, isInterrupted, isEnding: Boolean(ending && turn), isRunning: Boolean(turn && !isParked) };
  }

  queue() {
    return (this.log.state?.inbox ?? []).filter((entry) => entry.mode !== "prompt");
  }

  hint() {
    if (!this.isLive()) return "No connection: what you write is kept";
    if (this.app.role === "read") return "This key may only read";
    if (this.isElsewhere()) return "Another engine has this session open";
    if (this.retryAt()) return "Enter retries now";
    if (this.live().isEnding) return "Enter queues for the next turn";
    return this.live().isRunning ? "Enter sends to this turn, Ctrl+Enter queues" : "Enter sends, Shift+Enter for a new line";
  }

  isAsked(callId) {
    return this.log.asked.some((/** @type {any} */ question) => question.call_id === callId);
  }

  isEnding(turnId) {
    return Boolean(this.log.ending && turnId === this.log.turn);
  }

  isRunning(turnId) {
    return (turnId === this.log.turn && !this.isStopped()) || turnId === null;
  }

  /** Until when engines have worked here: nobody goes on with a turn that is stopped. */
  workedUntil() {
    return this.isStopped() ? this.log.lastTime : this.now();
  }

  /** Whether the turn is open, and no engine runs it. */
  isStopped() {
    return this.log.isParked && !this.isElsewhere();
  }

  /** When a request that has failed is sent again; null: none waits for that, or it can't be sent from here. */
  retryAt() {
    /** @type {any} */
    const status = this.log.status;
    return status.type === "retry" && status.next_at > this.now() && this.mayChange() ? status.next_at : null;
  }

  isFirstOfTurn(item) {
    const { items } = this.log.root;
    for (let index = items.indexOf(item) - 1; index >= 0; index -= 1) {
      if (items[index].kind === "assistant" && isShown(items[index])) return items[index].turnId !== item.turnId;
      if (items[index].kind === "input") return true;
    }
    return true;
  }

  isLastEnd(item) {
    const ends = this.log.root.items.filter((each) => each.kind === "end" && !each.isUndone);
    return ends.at(-1) === item && !this.log.turn;
  }

  callOf(question) {
    return this.log.timelines.get(question.session_id)?.calls.get(question.call_id) ?? null;
  }

  childName(question) {
    const agent = this.log.family.sessions[question.session_id]?.state.agent;
    return agent ? `the sub-agent ${oneLine(agent, 40)}` : "a sub-agent";
  }

  /** Whether a turn has changed files, as far as its calls show. */
  changedFiles(turnId) {
    for (const call of this.log.root.calls.values()) {
      if (call.turnId === turnId && call.settlement && /"diff":\s*"[^"]/.test(call.settlement.metadata ?? "")) return true;
    }
    return this.panel.hasChanges(turnId);
  }

  /** Fetch what is at an address of the server. */
  loadMedia = async (href) => {
    const response = await fetch(new URL(href, document.baseURI), { headers: { Authorization: `Bearer ${this.app.client.key}` } });
    if (!response.ok) throw new Error(`${href}: ${response.status}`);
    return response.blob();
  };

  /** What the model has said in a turn. */
  answerOf(turnId) {
    const items = this.log.root.turns.get(turnId)?.items ?? [];
    const parts = items.filter((item) => item.kind === "assistant").flatMap((item) => item.parts);
    return parts.filter((part) => part.kind === "text").map((part) => part.text).join("\n\n");
  }

  /** The rows of a sub-agent, inside the call that runs it. */
  childNode(call, sessionId) {
    if (!call.child) {
      return button("Show what the sub-agent did", { kind: "quiet", icon: "open", onClick: () => this.#try(() => this.log.loadChild(call, sessionId)) });
    }
    const nested = { ...bound(this, ["now", "width", "mayAnswer", "isAsked", "isEnding", "isStopped", "childNode", "readOutput", "showChanges", "loadElided"]) };
    const items = call.child.items.filter(isShown);
    Object.assign(nested, {
      version: this.version,
      ownName: this.ownName,
      session: this.session,
      loadMedia: this.loadMedia,
      isNested: true,
      isFirstOfTurn: (item) => items.find((each) => each.kind === "assistant") === item,
      isRunning: () => !call.settlement,
      isLastEnd: () => false,
      changedFiles: () => false,
      answerOf: () => "",
      mayChange: () => false,
    });
    const rows = items.slice(-100).map((item) => makeRow(item, nested).node);
    return h("div", { class: "child" }, ...rows);
  }

  // -- what people do --------------------------------------------------------------------------

  attend(requestId, seconds) {
    // It is only a courtesy to others: whether it fails does not matter.
    if (this.mayAnswer()) this.app.client.call("attend", { request_id: requestId, seconds }).catch(() => {});
  }

  async cancel() {
    const { turn } = this.live();
    if (!turn || !this.mayAnswer()) return;
    await this.#try(() => this.session.cancel(turn));
  }

  resume() {
    return this.#try(() => this.session.resume());
  }

  /** Send a request that has failed again now. */
  skipWait() {
    return this.#try(() => this.session.call("skip_wait", { turn_id: this.log.turn }));
  }

  toEnd() {
    this.transcript.toEnd();
  }

  loadOlder() {
    this.#try(() => this.log.loadOlder());
  }

  loadElided(elided) {
    return this.#try(() => this.log.loadElided(elided));
  }

  showChanges(turnId) {
    this.panel.show("changes", turnId);
  }

  /** Show a call in the transcript; one of a sub-agent is inside of the call that runs it. */
  showCall(sessionId, callId) {
    if (this.panel.isOver()) this.panel.hide();
    return this.transcript.openCall(this.log.callsTo(sessionId, callId));
  }

  async undo() {
    await this.#undo("undo", "The turn was undone");
  }

  async redo() {
    await this.#undo("redo", "The turn was redone");
  }

  async #undo(method, done) {
    const run = async (force) => {
      const result = await this.session.call(method, force ? { force: true } : {});
      announce(done);
      const text = (result.inputs ?? []).flatMap((input) => input.parts).filter((part) => part.type === "text").map((part) => part.text).join("\n\n");
      if (method === "undo" && text && !this.composer.field.value.trim()) this.composer.putBack(text);
      if (result.remarks?.length) this.say(`${done}. Note: ${result.remarks.join("; ")}.`);
    };
    try {
      await run(false);
    } catch (error) {
      if (error.kind !== "undo_conflict") return this.say(error.message);
      const paths = (error.data.paths ?? []).map((path) => visible(path)).join(", ");
      if (await confirm("Overwrite changed files?", `Something else has changed ${paths} since. Nothing was restored. Overwriting loses those changes.`, "Overwrite")) {
        await this.#try(() => run(true));
      }
    }
    return undefined;
  }

  undoCompaction() {
    return this.#try(() => this.session.call("compact.undo"));
  }

  async readOutput(call) {
    const id = call.item?.turnId ? this.session.id : call.sessionId;
    await this.#try(async () => {
      const { text, total } = await this.session.client.call("output.read", { session_id: id ?? this.session.id, call_id: call.id, limit: 262_144 });
      await this.panel.showText(`Output of ${oneLine(call.tool, 40)}`, text, total);
    });
  }

  /** Say something that went wrong, until it is put away. */
  say(text) {
    replace(this.banner, problem(text, button("Close", { icon: "close", iconOnly: true, kind: "quiet", onClick: () => replace(this.banner) })));
  }

  async #try(task) {
    try {
      return await task();
    } catch (error) {
      if (error.kind !== "closed") this.say(error.message);
      return undefined;
    }
  }

  async #menu() {
    const mayChange = this.mayChange() && !this.live().turn;
    const choice = await dialog(
      "Session",
      (close) => [
        h(
          "div",
          { class: "menu" },
          button("Rename", { icon: "pencil", disabled: !this.mayChange(), onClick: () => close("rename") }),
          button("Undo the last turn", { icon: "undo", disabled: !mayChange, onClick: () => close("undo") }),
          button("Redo", { icon: "redo", disabled: !mayChange || !this.log.state?.undone?.length, onClick: () => close("redo") }),
          button("Summarise the history now", { icon: "gauge", disabled: !mayChange, onClick: () => close("compact") }),
          button("Use another model", { icon: "settings", disabled: !this.mayChange(), onClick: () => close("model") }),
          button("Permissions", { icon: "waiting", disabled: !this.mayChange(), onClick: () => close("profile") }),
          button("Fork", { icon: "open", disabled: !this.mayChange(), onClick: () => close("fork") }),
          button("Export as Markdown", { icon: "file", onClick: () => close("export") }),
          button("Remove for good", { icon: "bin", kind: "danger", disabled: !mayChange, onClick: () => close("remove") }),
        ),
      ],
      { kind: "dialog-menu" },
    );
    if (choice) await this.#do(choice);
  }

  #do(choice) {
    const actions = {
      rename: () => this.#rename(),
      undo: () => this.undo(),
      redo: () => this.redo(),
      compact: () => this.session.call("compact"),
      model: () => this.#chooseModel(),
      profile: () => this.#chooseProfile(),
      fork: async () => this.app.open((await this.session.call("session.fork")).row.id),
      export: () => this.#export(),
      remove: async () => {
        if (!(await confirm("Remove this session?", "It and its sub-agents' sessions are removed for good. Files of the project stay as they are.", "Remove"))) return;
        await this.session.call("session.delete", { confirm: this.session.id });
        this.app.open(null);
      },
    };
    return this.#try(actions[choice]);
  }

  async #rename() {
    const field = h("input", { type: "text", "aria-label": "Title", value: this.app.rowOf(this.session.id)?.title ?? "", maxlength: 200 });
    const title = await dialog("Rename the session", (close) => {
      field.addEventListener("keydown", (event) => event.key === "Enter" && close(field.value.trim()));
      return [field, h("div", { class: "dialog-actions" }, button("Cancel", { onClick: () => close() }), button("Rename", { kind: "primary", onClick: () => close(field.value.trim()) }))];
    });
    if (title) await this.session.call("session.rename", { title });
  }

  async #chooseModel() {
    const { models } = await this.app.client.call("model.list");
    const usable = models.filter((model) => !model.why_not);
    const select = h("select", { "aria-label": "Model" }, ...usable.map((model) => h("option", { value: model.name, selected: model.name === this.log.state?.model }, visible(model.name))));
    const name = await dialog("Model from the next turn on", (close) => [
      usable.length ? select : h("p", {}, "No model can be used here."),
      h("div", { class: "dialog-actions" }, button("Cancel", { onClick: () => close() }), button("Use it", { kind: "primary", disabled: !usable.length, onClick: () => close(select.value) })),
    ]);
    if (name) await this.session.call("model.set", { model: name });
  }

  async #chooseProfile() {
    const now = this.log.state?.profile ?? "";
    const choices = [["", "As the server is configured"], ...Object.entries(PROFILES).map(([name, [choice]]) => [name, choice])];
    const radios = choices.map(([value, text]) => h("label", { class: "choice" }, h("input", { type: "radio", name: "profile", value, checked: value === now }), h("span", {}, text)));
    const form = h("fieldset", {}, h("legend", {}, "For calls that no rule decides, in this session"), ...radios);
    const chosen = await dialog("Permissions", (close) => [
      form,
      h("p", { class: "hint" }, "All clients see it. What a rule denies stays denied."),
      h("div", { class: "dialog-actions" }, button("Cancel", { onClick: () => close() }), button("Use it", { kind: "primary", onClick: () => close(form.querySelector("input:checked").value) })),
    ]);
    if (chosen !== undefined && chosen !== now) await this.session.call("session.configure", { profile: chosen || null });
  }

  async #export() {
    const { href } = await this.session.call("session.export", { format: "markdown" });
    const address = URL.createObjectURL(await this.loadMedia(href));
    const anchor = document.createElement("a");
    anchor.href = address;
    anchor.download = `${this.session.id}.md`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  // -- drawing ------------------------------------------------------------------------------------

  #changed(item) {
    if (item?.type === "head") void this.#refreshRow();
    if (item?.type === "turn_started" && item.path?.length === 1) announceTurn("start");
    if (item?.type === "turn_ended" && item.path?.length === 1) announceTurn("end", endOf(item.result, item.ending).text);
    if (item?.type === "step_ended" || item?.type === "resync" || item?.type === "compaction_ended") this.#measure();
    if (item?.type === "turn_ended" || item?.type === "turn_undone") this.panel.outdate();
    if (item?.type === "text_delta" && item.path?.length === 1) speak(item);
    this.panel.feed(item);
    if (item?.type !== "text_delta" && item?.type !== "arguments_delta" && item?.type !== "reasoning_delta") this.version += 1;
    this.update();
  }

  /** Ask whether another engine still has the session open: this server reports only the changes of its own. */
  async #refreshRow() {
    if (this.app.rowOf(this.session.id)?.holder === "here") return;
    try {
      this.app.sidebar.replace((await this.session.call("session.get")).row);
      this.update();
    } catch {
      // The list keeps what it has.
    }
  }

  /** Ask what fills the window, not more often than once in two seconds. */
  #measure() {
    if (this.measuring) return;
    this.measuring = setTimeout(async () => {
      this.measuring = null;
      try {
        this.report = (await this.session.call("context")).report;
        this.panel.outdate("context");
        this.update();
      } catch {
        // A gauge that can't be read is not shown.
        this.report = null;
      }
    }, this.report ? 2000 : 50);
  }

  #update() {
    if (this.isClosed) return;
    const { log } = this;
    const row = this.app.rowOf(this.session.id);
    const title = oneLine(log.state?.title || row?.title || "New session", 120);
    setText(this.title, title);
    this.app.setTitle(title, log.asked.length);
    const model = log.state?.model || row?.model || "";
    const cwd = log.state?.context?.cwd || row?.cwd || "";
    const facts = [cwd && visible(shortPath(cwd)), oneLine(model, 60), log.state?.agent && oneLine(log.state.agent, 40)].filter(Boolean);
    setText(this.place, facts.join(" · "));
    this.place.title = visible(cwd);
    this.#showPresence();
    this.#showGauge();
    this.#showProfile();
    this.questions.update(log.asked, log.clients);
    this.transcript.hasOlder = log.hasOlder;
    setText(this.transcript.oldest, log.isLoading ? "Loading what came before" : log.isReady && !log.hasOlder && !log.root.items.length ? this.#empty() : "");
    this.transcript.show(log.root);
    this.composer.update();
    this.panel.update();
    this.#tick();
  }

  #empty() {
    return this.live().turn ? "" : "Nothing has been said yet. Write what should be done; the model works in the folder above.";
  }

  /** Say what the session may do unasked, where somebody has changed that for it. */
  #showProfile() {
    const { profile = "", profile_by: by = "" } = this.log.state ?? {};
    const key = `${profile} ${by} ${this.mayChange()}`;
    this.profile.hidden = !profile;
    if (key === this.profileKey) return;
    this.profileKey = key;
    this.profile.classList.toggle("is-wide", profile === "full");
    const who = by ? ` ${oneLine(by, 40)} chose that.` : "";
    const text = `${PROFILES[profile]?.[1] ?? `This session has the permission profile ${oneLine(profile, 40)}.`}${who}`;
    const undo = button("Undo that", { kind: "quiet small", disabled: !this.mayChange(), onClick: () => this.#try(() => this.session.call("session.configure", { profile: null })) });
    replace(this.profile, icon(profile === "full" ? "warning" : "settings"), h("span", {}, text), undo);
  }

  #showPresence() {
    const others = this.log.clients.filter((each) => each.client_id !== this.clientId);
    this.others.hidden = others.length === 0;
    const names = [...new Set(others.map((each) => oneLine(each.name, 30) || "somebody"))];
    const key = `${others.length} ${names.join("\n")}`;
    if (key === this.othersKey) return;
    this.othersKey = key;
    replace(this.others, icon("person"), String(others.length));
    this.others.title = `Also connected: ${names.join(", ")}`;
    this.others.setAttribute("aria-label", this.others.title);
    this.others.setAttribute("role", "img");
  }

  #showGauge() {
    const { report } = this;
    const spent = cost(this.log.state?.cost ?? 0);
    this.gauge.hidden = !report && !spent;
    const share = report?.usable ? Math.min(1, report.tokens / report.usable) : 0;
    const key = `${spent} ${report?.tokens} ${report?.usable}`;
    if (key === this.gaugeKey) return;
    this.gaugeKey = key;
    replace(this.gauge, ...(report ? [shareBar(share, "gauge-bar"), h("span", {}, `${Math.round(share * 100)}%`)] : []), spent ? h("span", { class: "gauge-cost" }, spent) : null);
    const text = report ? `The context window is ${Math.round(share * 100)}% full: ${tokens(report.tokens)} of ${tokens(report.usable)} tokens.` : "";
    this.gauge.title = [text, spent ? `Spent: ${spent}.` : ""].join(" ").trim();
    this.gauge.setAttribute("aria-label", this.gauge.title);
  }

  #tick() {
    const { log } = this;
    const row = this.app.rowOf(this.session.id);
    const { ending, isParked: parked } = log;
    const state = statusText(log.status, { now: this.now(), ending: log.turn ? ending : null, parked, interrupted: log.isInterrupted, row });
    if (this.statusKey !== state.key) {
      this.statusKey = state.key;
      this.status.className = `status status-${state.key}`;
      this.statusText = h("span", {});
      replace(this.status, icon(state.icon), this.statusText);
    }
    setText(this.statusText, state.text);
    this.transcript.tick();
    this.questions.tick();
  }
}

function bound(view, names) {
  return Object.fromEntries(names.map((name) => [name, view[name].bind(view)]));
}

function announceTurn(what, text = "") {
  if (looks.speech === "nothing") return;
  announce(what === "start" ? "The turn has begun" : `The turn is over: ${text}`);
}

let spoken = "";

/** Say whole sentences as they come, where that is wanted. */
function speak({ text }) {
  if (looks.speech !== "sentences") return;
  spoken = (spoken + text).slice(-2000);
  const end = Math.max(spoken.lastIndexOf(". "), spoken.lastIndexOf("\n"), spoken.lastIndexOf("! "), spoken.lastIndexOf("? "));
  if (end < 0) return;
  announce(spoken.slice(0, end + 1));
  spoken = spoken.slice(end + 1);
}
