// Beside the transcript, or over it where there is little room: lanes, changes of files, what fills the window.

import { textBlock } from "./blocks.js";
import { diffTable, parseDiff, WIDE } from "./diff.js";
import { h, replace } from "./dom.js";
import { cost, count, tokens } from "./formats.js";
import { icon } from "./icons.js";
import { looks } from "./looks.js";
import { terminalText, visible } from "./text.js";
import { button, loadPart, problem, shareBar } from "./widgets.js";

const TABS = [
  ["lanes", "Lanes", "lanes"],
  ["changes", "Changes", "diff"],
  ["context", "Context", "gauge"],
];

/** The panel of a session's view. */
export class Panel {
  constructor(context) {
    this.context = context;
    this.name = null;
    this.changed = new Set();
    this.title = h("h2", { class: "panel-title", tabindex: "-1" });
    this.body = h("div", { class: "panel-body" });
    this.node = h("aside", { class: "panel", "aria-label": "Details", hidden: true }, h("div", { class: "panel-head" }, this.title, button("Close", { icon: "close", iconOnly: true, kind: "quiet", onClick: () => this.hide() })), this.body);
    this.tabs = TABS.map(([name, label, mark]) => {
      const tab = button(label, { icon: mark, kind: "quiet tab", "aria-pressed": "false", onClick: () => this.toggle(name) });
      tab.dataset.tab = name;
      return tab;
    });
  }

  /** Whether it covers the transcript. */
  isOver() {
    return this.name !== null && getComputedStyle(this.node).position !== "relative";
  }

  toggle(name) {
    if (this.name === name) this.hide();
    else this.show(name);
  }

  show(name, turnId = null) {
    this.#leave();
    this.name = name;
    this.turnId = turnId;
    this.node.hidden = false;
    this.node.dataset.panel = name;
    this.#markTabs();
    this.title.textContent = TABS.find(([each]) => each === name)?.[1] ?? "";
    this.#load();
    this.title.focus({ preventScroll: true });
  }

  hide() {
    this.#leave();
    const tab = this.tabs.find((each) => each.dataset.tab === this.name);
    this.name = null;
    this.node.hidden = true;
    this.#markTabs();
    tab?.focus();
  }

  #markTabs() {
    for (const tab of this.tabs) tab.setAttribute("aria-pressed", String(tab.dataset.tab === this.name));
  }

  #leave() {
    this.lanes?.destroy();
    this.lanes = null;
    this.body.replaceChildren();
  }

  close() {
    this.#leave();
  }

  /** What was shown may not hold any more. */
  outdate(name = "changes") {
    if (this.name === name) this.#load();
  }

  update() {}

  hasChanges(turnId) {
    return this.changed.has(turnId);
  }

  /** Hand events to the lanes. */
  feed(item) {
    if (!this.lanes || !item) return;
    // Of what was left out because of its size, the lanes need the rest.
    if (item.type === "resync" || item.type === "elided") this.#loadLanes();
    else if ("session_id" in item) this.lanes.feed([item]);
  }

  async #load() {
    const loads = { lanes: () => this.#lanes(), changes: () => this.#changes(), context: () => this.#window() };
    try {
      await loads[this.name]?.();
    } catch (error) {
      if (error.kind === "nothing_to_do") replace(this.body, h("p", { class: "hint empty" }, "No turn of this session has changed files."));
      else replace(this.body, problem(error.message));
    }
  }

  async #lanes() {
    const { mountLanes } = await loadPart(() => import("./lanes/lanes-view.js"));
    if (this.name !== "lanes" || this.lanes) return;
    this.lanes = mountLanes(this.body, {
      now: () => this.context.workedUntil(),
      isStopped: () => this.context.isStopped(),
      onOpenCall: (session, call) => this.context.showCall(session, call),
      letterKeys: () => looks.letters,
    });
    await this.#loadLanes();
  }

  /** Draw what is loaded; then, once it is there, also what the lanes need and the transcript does not. */
  async #loadLanes() {
    const { lanes, context } = this;
    const { log, session } = context;
    const loaded = () => [...log.loadedEvents()].filter((event) => "session_id" in event);
    lanes.reset([...loaded(), ...endingsOf(log)]);
    try {
      const { loadRecord } = await loadPart(() => import("./lanes/load-record.js"));
      const record = await loadRecord((method, params) => session.client.call(method, params), session.id, [...log.loadedEvents()]);
      if (this.lanes === lanes) lanes.reset([...record, ...loaded(), ...endingsOf(log)]);
    } catch (error) {
      lanes.remark(`Some of it could not be loaded: ${error.message}`);
    }
  }

  async #changes() {
    const { turnId } = this;
    const { files } = await this.context.session.call("diff", turnId ? { turn_id: turnId } : {});
    if (this.name !== "changes" || this.turnId !== turnId) return;
    if (!files.length) return replace(this.body, h("p", { class: "hint empty" }, "The turn has changed no files."));
    const wide = this.body.clientWidth >= WIDE;
    const words = { added: "new", changed: "changed", removed: "removed" };
    const nodes = files.map((file) => {
      const parsed = parseDiff(file.text);
      const [added, removed] = parsed.reduce(([more, less], each) => [more + each.added, less + each.removed], [0, 0]);
      const restore = button("Restore", { icon: "undo", kind: "quiet small", title: `Bring back ${file.path} as it was before`, disabled: !this.context.mayChange(), onClick: () => this.#restore(file.path) });
      const tables = parsed.map((each) => h("div", { class: "diff-frame" }, diffTable({ ...each, path: file.path }, { wide })));
      return h(
        "details",
        { class: "change", open: files.length <= 12 },
        h("summary", {}, h("span", { class: "diff-path" }, visible(file.path)), h("span", { class: "change-facts" }, `${words[file.change]} · +${added} −${removed}`)),
        h("div", { class: "change-tools" }, restore),
        ...(tables.length ? tables : [h("p", { class: "hint" }, "Not a text: the difference can't be shown.")]),
      );
    });
    replace(this.body, h("p", { class: "hint" }, turnId ? `This turn changed ${count(files.length, "file")}.` : `The newest turn with changes: ${count(files.length, "file")}.`), ...nodes);
    return undefined;
  }

  async #restore(path) {
    try {
      await this.context.session.call("restore", { paths: [path], ...(this.turnId ? { turn_id: this.turnId } : {}) });
      this.outdate();
    } catch (error) {
      this.context.say(error.message);
    }
  }

  async #window() {
    const { report } = await this.context.session.call("context");
    if (this.name !== "context") return;
    const { usage, cost: spent } = this.context.log.state ?? {};
    const most = Math.max(1, ...report.shares.map((share) => share.tokens));
    const rows = [...report.shares]
      .sort((a, b) => b.tokens - a.tokens)
      .map((share) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, visible(share.kind)),
          h("td", { class: "number" }, tokens(share.tokens)),
          h("td", {}, shareBar(share.tokens / most)),
        ),
      );
    const share = report.usable ? Math.round((100 * report.tokens) / report.usable) : 0;
    replace(
      this.body,
      h("p", { class: "big-figure" }, h("b", {}, `${share}%`), ` of the context window`),
      shareBar(report.tokens / (report.usable || 1), "big-bar"),
      h("p", { class: "hint" }, `The next request takes about ${tokens(report.tokens)} of ${tokens(report.usable)} tokens${report.is_counted ? "" : ", by estimate"}.`),
      h("table", { class: "shares" }, h("caption", { class: "visually-hidden" }, "What fills the window"), h("tbody", {}, ...rows)),
      usage ? usageNode(usage, spent) : null,
    );
  }

  /** Show a long text. */
  async showText(title, text, total) {
    this.#leave();
    this.name = "text";
    this.node.hidden = false;
    this.#markTabs();
    this.title.textContent = title;
    replace(this.body, h("p", { class: "hint" }, total > text.length ? `The first ${count(text.length, "character")} of ${total.toLocaleString("en")}.` : count(total, "character")), textBlock(text, { clean: terminalText, className: "output", label: title }));
    this.title.focus({ preventScroll: true });
  }
}

function usageNode(usage, spent) {
  const facts = [
    ["Read", usage.input],
    ["Read from the cache", usage.cache_read],
    ["Written to the cache", usage.cache_write],
    ["Written by the model", usage.output],
  ].filter(([, number]) => number);
  if (!facts.length && !cost(spent)) return null;
  return h(
    "section",
    { class: "spent" },
    h("h3", {}, icon("gauge"), "Spent in this session"),
    h("dl", {}, ...facts.flatMap(([name, number]) => [h("dt", {}, name), h("dd", {}, `${tokens(number)} tokens`)]), ...(cost(spent) ? [h("dt", {}, "Cost"), h("dd", {}, cost(spent))] : [])),
  );
}

/** What ends turns that run, as the events that announced it: whoever comes later does not get those. */
function endingsOf({ family }) {
  return Object.entries(family.sessions).flatMap(([id, { state }]) => {
    const { turn_id: turn, ending } = state?.turn ?? {};
    if (!ending?.at) return [];
    return [{ ...ending, type: "turn_ending", session_id: id, turn_id: turn, path: [id], time: ending.at, seq: null }];
  });
}
