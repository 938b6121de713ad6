// One tool call in the transcript: a line, and what it was about on demand.

import { textBlock } from "./blocks.js";
import { diffTable, parseDiff, WIDE } from "./diff.js";
import { h, replace, setText } from "./dom.js";
import { count, duration } from "./formats.js";
import { icon } from "./icons.js";
import { mediaNode } from "./media.js";
import { oneLine, terminalText, visible } from "./text.js";
import { button, copyButton } from "./widgets.js";
import { answerText, callState, mainArgument, parsed } from "./words.js";

/** A call's row. `update` brings it up to date; `tick` its time. */
export class CallRow {
  /** @param {any} call of a timeline. @param {any} context of the session's view. */
  constructor(call, context) {
    this.call = call;
    this.context = context;
    this.rev = "";
    this.mark = h("span", { class: "call-mark" });
    this.name = h("b", { class: "call-name" });
    this.brief = h("span", { class: "call-brief" });
    this.facts = h("span", { class: "call-facts" });
    this.summary = h("summary", { class: "call-summary" }, this.mark, this.name, this.brief, this.facts);
    this.body = h("div", { class: "call-body" });
    this.node = h("details", { class: "call", id: `call-${call.id}` }, this.summary, this.body);
    this.node.open = Boolean(call.isOpen);
    this.node.addEventListener("toggle", () => {
      call.isOpen = this.node.open;
      this.#draw();
    });
    this.update();
  }

  update() {
    const { call } = this;
    const isWaiting = this.context.isAsked(call.id);
    const isEnding = this.context.isEnding(call.turnId);
    const isStopped = this.context.isStopped();
    const key = `${call.rev} ${isWaiting} ${isEnding} ${isStopped}`;
    if (key === this.rev) return;
    this.rev = key;
    this.state = callState(call, { isWaiting, isEnding, isStopped });
    this.node.className = `call tone-${this.state.tone}`;
    if (this.shownIcon !== this.state.icon) replace(this.mark, icon((this.shownIcon = this.state.icon)));
    setText(this.name, oneLine(call.tool || "…", 60));
    setText(this.brief, this.#brief());
    this.tick();
    this.#draw();
  }

  #brief() {
    const { call } = this;
    return oneLine(mainArgument(call.arguments), 160);
  }

  /** Show how long it runs. */
  tick() {
    const { call, state } = this;
    const { started, settled } = { started: call.times.running, settled: call.times.settled };
    const facts = [];
    const diff = this.#diff();
    if (diff) {
      const [added, removed] = diff.reduce(([more, less], file) => [more + file.added, less + file.removed], [0, 0]);
      facts.push(`+${added} −${removed}`);
    }
    if (!call.settlement && call.state === "running" && call.progress) facts.push(oneLine(call.progress, 60));
    if (state.text) facts.push(state.text);
    // When a crash has cut it off is not known.
    if (started && !this.context.isStopped() && call.settlement?.reason !== "interrupted_by_crash") {
      const seconds = (settled ?? this.context.now()) - started;
      if (settled ? seconds >= 0.1 : seconds >= 1) facts.push(duration(seconds));
    }
    setText(this.facts, facts.join(" · "));
  }

  #facts() {
    const { settlement } = this.call;
    if (!settlement) return null;
    if (this.factsOf !== settlement) {
      this.factsOf = settlement;
      this.metadata = parsed(settlement.metadata || "");
    }
    return this.metadata;
  }

  #diff() {
    const text = this.#facts()?.diff;
    if (typeof text !== "string" || !text) return null;
    if (this.diffOf !== text) {
      this.diffOf = text;
      this.files = parseDiff(text);
    }
    return this.files;
  }

  #draw() {
    if (!this.node.open) {
      if (this.body.firstChild) this.body.replaceChildren();
      this.drawn = null;
      return;
    }
    const { call } = this;
    // A running call's output is appended to; all else is drawn again where it has changed.
    const key = `${call.state} ${call.arguments.length} ${call.answers.length} ${Boolean(call.settlement)} ${call.child?.rev ?? 0} ${Boolean(call.output)}`;
    if (key !== this.drawn) {
      this.drawn = key;
      this.body.replaceChildren(...this.#contents());
    }
    if (this.live) setText(this.live, terminalText(call.output));
  }

  *#contents() {
    const { call, context } = this;
    this.live = null;
    const diff = this.#diff();
    for (const each of call.answers) yield h("p", { class: "call-answer" }, icon("person"), visible(answerText(each)));
    if (call.changed) yield h("p", { class: "call-answer" }, icon("pencil"), `Changed by the hook ${oneLine(call.changed, 60)}`);
    if (!diff) yield* this.#arguments();
    for (const file of diff ?? []) {
      yield h("p", { class: "diff-path" }, visible(file.path));
      yield h("div", { class: "diff-frame" }, diffTable(file, { wide: context.width() >= WIDE }));
    }
    if (call.child || typeof this.#facts()?.task_id === "string") yield context.childNode(call, this.#facts()?.task_id);
    const { settlement } = call;
    if (!settlement) {
      if (call.output) yield (this.live = h("pre", { class: "output", tabindex: "0" }));
      return;
    }
    yield* this.#result(settlement, diff);
  }

  *#arguments() {
    const { call } = this;
    const values = parsed(call.arguments);
    if (!values) {
      if (call.arguments) yield textBlock(call.arguments, { clean: visible, className: "arguments", label: "Arguments" });
      return;
    }
    const rows = Object.entries(values).map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      const block = textBlock(text, { clean: visible, className: "argument", label: oneLine(name, 60), piece: 4000 });
      return h("div", { class: "argument-row" }, h("span", { class: "argument-name" }, oneLine(name, 60)), block);
    });
    yield h("div", { class: "arguments" }, ...rows);
  }

  *#result(settlement, diff) {
    const text = settlement.text;
    // What an edit answers is only a word about the difference that is shown.
    if (text && !(diff && settlement.status === "completed" && !settlement.failed)) {
      yield h("div", { class: "output-head" }, h("span", {}, `Result, ${count(text.split("\n").length, "line")}`), copyButton(() => text));
      yield textBlock(text, { clean: terminalText, className: "output", label: "Result", piece: 4000 });
    }
    for (const part of [...(settlement.images ?? []), ...(settlement.files ?? [])]) yield mediaNode(part, this.context.loadMedia);
    // The model got a part of it, and the name of the file with the whole.
    if (/\bspill:[0-9a-f]/.test(text)) yield button("Read the whole output", { kind: "quiet", icon: "file", onClick: () => this.context.readOutput(this.call) });
  }
}
