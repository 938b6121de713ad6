// One item of the timeline as a row of the transcript.

import { MarkdownBlock } from "./blocks.js";
import { CallRow } from "./call-row.js";
import { h, replace, setText } from "./dom.js";
import { bytes, clock, cost, count, dateTime, duration, tokens } from "./formats.js";
import { icon } from "./icons.js";
import { mediaNode } from "./media.js";
import { oneLine, visible } from "./text.js";
import { button, copyButton } from "./widgets.js";
import { answerText, endOf, isCut } from "./words.js";

const when = (item) => (item.time ? h("time", { class: "when", title: dateTime(item.time) }, clock(item.time)) : null);

/** Whether an item is drawn: a message without a part is not. */
export function isShown(item) {
  return item.kind !== "assistant" || item.parts.some(isPartShown) || !item.done;
}

const isPartShown = (part) => part.kind !== "reasoning" || part.text.trim() !== "";

/** Return the row of an item: an element with `update()` and `tick()`. */
export function makeRow(item, context) {
  const Row = { input: InputRow, assistant: AssistantRow, end: EndRow, note: NoteRow, engine: EngineRow }[item.kind];
  const row = new Row(item, context);
  row.update();
  return row;
}

class InputRow {
  constructor(item, context) {
    this.item = item;
    this.context = context;
    const { message, mode, by } = item;
    const how = { steer: "Sent while it worked", queue: "From the queue", summary: "Summary of what came before", continue: "Engine" }[mode];
    const title = how ?? (context.isNested ? "Task" : "You");
    const who = by && by !== context.ownName ? `${title} · ${oneLine(by, 40)}` : title;
    this.node = h(
      "article",
      { class: `row row-input${mode === "summary" ? " row-summary" : ""}` },
      h("h3", { class: "row-head" }, who, when(item)),
    );
    if (!message) {
      this.node.append(h("p", { class: "hint" }, "This prompt is further up in the log."));
      return;
    }
    const text = message.display ?? message.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
    this.text = new MarkdownBlock();
    this.node.append(this.text.node);
    this.text.show(text, true);
    const media = message.parts.filter((part) => part.type !== "text").map((part) => mediaNode(part, context.loadMedia));
    if (media.length) this.node.append(h("div", { class: "media-row" }, ...media));
    this.node.append(h("div", { class: "row-actions" }, copyButton(() => text)));
  }

  update() {
    this.node.classList.toggle("is-undone", Boolean(this.item.isUndone));
  }

  tick() {}
}

class AssistantRow {
  constructor(item, context) {
    this.item = item;
    this.context = context;
    this.parts = new Map();
    this.head = h("h3", { class: "row-head" });
    this.body = h("div", { class: "parts" });
    this.wait = h("p", { class: "typing" }, h("span", { class: "typing-dot" }), "Waiting for the model");
    this.node = h("article", { class: "row row-assistant" }, this.head, this.body);
    const isFirst = context.isFirstOfTurn(item);
    this.head.append(isFirst ? oneLine(item.model || "Model", 80) : h("span", { class: "visually-hidden" }, "Model, continued"), isFirst ? (when(item) ?? "") : "");
    if (isFirst) this.node.classList.add("is-first");
  }

  update() {
    const { item } = this;
    this.node.classList.toggle("is-undone", Boolean(item.isUndone));
    const isRunning = !item.done && this.context.isRunning(item.turnId);
    this.node.setAttribute("aria-busy", String(isRunning));
    const shown = item.parts.filter(isPartShown);
    const nodes = shown.map((part) => this.#part(part).node);
    const isSilent = isRunning && !shown.length;
    replace(this.body, ...nodes, isSilent ? this.wait : null);
    for (const part of shown) this.#part(part).update();
  }

  #part(part) {
    let view = this.parts.get(part);
    if (!view || (part.kind === "call" && part.call && !(view instanceof CallRow))) {
      if (part.kind === "call" && part.call) view = new CallRow(part.call, this.context);
      else if (part.kind === "call") view = new PendingCall();
      else if (part.kind === "reasoning") view = new ReasoningView(part);
      else if (part.kind === "text") view = new TextView(part);
      else view = new ProviderView(part);
      this.parts.set(part, view);
    }
    return view;
  }

  tick() {
    for (const view of this.parts.values()) view.tick?.();
  }
}

class TextView {
  constructor(part) {
    this.part = part;
    this.block = new MarkdownBlock();
    this.sources = h("p", { class: "sources" });
    this.node = h("div", { class: "text-part" }, this.block.node);
  }

  update() {
    this.block.show(this.part.text, this.part.done);
    const citations = this.part.part?.citations ?? [];
    if (citations.length && !this.sources.parentNode) {
      const names = [...new Set(citations.map((each) => oneLine(each.title || each.url, 200)))].filter(Boolean);
      this.sources.append(`Sources: ${names.join("; ")}`);
      this.node.append(this.sources);
    }
  }
}

class ReasoningView {
  constructor(part) {
    this.part = part;
    this.label = h("span", {});
    this.body = h("div", { class: "reasoning-body" });
    this.node = h("details", { class: "reasoning" }, h("summary", {}, this.label), this.body);
    this.node.open = Boolean(part.isOpen);
    this.node.addEventListener("toggle", () => {
      part.isOpen = this.node.open;
      this.update();
    });
  }

  update() {
    const { part } = this;
    const last = oneLine(part.text.slice(-400).split("\n").filter((line) => line.trim()).pop() ?? "", 120);
    setText(this.label, part.done ? "Thinking" : `Thinking: ${last}`);
    if (!this.node.open) return;
    if (!this.block) this.body.append((this.block = new MarkdownBlock()).node);
    this.block.show(part.text, part.done);
  }
}

class PendingCall {
  constructor() {
    this.node = h("div", { class: "call" }, h("span", { class: "call-brief" }, "A tool call begins"));
  }

  update() {}
}

class ProviderView {
  constructor(part) {
    const kind = oneLine(part.part?.kind ?? "Something", 80);
    this.node = h("p", { class: "hint" }, `${kind}: done by the model's host`);
  }

  update() {}
}

class EngineRow {
  constructor(item) {
    this.item = item;
    const text = item.message.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
    const body = h("div", {});
    this.node = h(
      "article",
      { class: "row row-note" },
      h("details", { on: { toggle: (event) => this.#show(event.target.open, body, text) } }, h("summary", {}, `The engine told the model: ${oneLine(text, 100)}`), body),
    );
  }

  #show(isOpen, body, text) {
    if (!isOpen || body.firstChild) return;
    const block = new MarkdownBlock();
    body.append(block.node);
    block.show(text, true);
  }

  update() {
    this.node.classList.toggle("is-undone", Boolean(this.item.isUndone));
  }

  tick() {}
}

class EndRow {
  constructor(item, context) {
    this.item = item;
    this.context = context;
    const { result } = item;
    const { text, tone } = endOf(result, item.ending, context.ownName);
    this.isCut = isCut(result, item.ending);
    const facts = [
      // When it was cut off is not known: its end was written by the next engine.
      item.started && item.time && !this.isCut ? duration(item.time - item.started) : "",
      result.steps > 1 ? count(result.steps, "step") : "",
      result.usage ? `${tokens(result.usage.input + result.usage.cache_read + result.usage.cache_write + result.usage.output)} tokens` : "",
      cost(result.cost),
    ].filter((fact) => fact && fact !== "0 tokens");
    const mark = { good: "done", neutral: "ending", bad: "failed" }[tone];
    const isTold = result.stop_reason === "aborted" && item.ending;
    const detail = tone !== "good" && result.detail && !isTold ? h("p", { class: "end-detail" }, sentence(result.detail)) : null;
    const reset = result.reset_at ? h("p", { class: "end-detail" }, `The limit resets at ${clock(result.reset_at)}.`) : null;
    const lost = result.durable === false ? h("p", { class: "end-detail tone-bad" }, "The store did not confirm this turn: it may be lost on a restart.") : null;
    this.copy = copyButton(() => context.answerOf(item.turnId), "Copy answer");
    this.undo = button("Undo this turn", { icon: "undo", kind: "quiet small", onClick: () => context.undo() });
    this.resume = button("Continue", { icon: "open", kind: "quiet small", title: "Let the model go on where it stopped", onClick: () => context.resume() });
    this.changes = button("Changes", { icon: "diff", kind: "quiet small", onClick: () => context.showChanges(item.turnId) });
    this.node = h(
      "article",
      { class: `row row-end tone-${tone}`, "aria-label": "End of the turn" },
      h("p", { class: "end-line" }, icon(mark), h("b", {}, text), h("span", { class: "end-facts" }, facts.join(" · ")), h("span", { class: "end-actions" }, this.resume, this.copy, this.changes, this.undo)),
      detail,
      reset,
      lost,
    );
  }

  update() {
    const { item, context } = this;
    this.node.classList.toggle("is-undone", Boolean(item.isUndone));
    const isLast = context.isLastEnd(item);
    this.copy.hidden = !context.answerOf(item.turnId);
    this.undo.hidden = !isLast || !context.mayChange();
    this.resume.hidden = !this.isCut || !isLast || !context.mayChange();
    this.changes.hidden = item.isUndone || !context.changedFiles(item.turnId);
  }

  tick() {}
}

class NoteRow {
  constructor(item, context) {
    this.item = item;
    this.context = context;
    this.icon = h("span", { class: "note-icon" });
    this.body = h("div", { class: "note-body" });
    this.node = h("article", { class: `row row-note level-${item.level}` }, this.icon, this.body);
  }

  update() {
    const { item } = this;
    this.node.classList.toggle("is-undone", Boolean(item.isUndone));
    replace(this.icon, icon(item.level === "warning" ? "warning" : this.#icon()));
    replace(this.body, ...this.#contents());
    this.tick();
  }

  #icon() {
    if (this.item.answered) return "person";
    if (this.item.undo) return this.item.undo.isUndone ? "undo" : "redo";
    return this.item.compaction ? "gauge" : "idle";
  }

  #contents() {
    const { item, context } = this;
    if (item.answered) return [h("p", {}, visible(questionOf(item.answered.question)), " ", h("b", {}, visible(answerText(item.answered))))];
    if (item.compaction) return compactionNodes(item.compaction, context);
    if (item.undo) return undoNodes(item.undo);
    if (item.fork) return [h("p", {}, "A fork of ", h("a", { href: `#/s/${item.fork}` }, oneLine(item.fork, 60)))];
    if (item.elided) {
      const text = `Something large is left out here (${oneLine(item.elided.of, 40)}, ${bytes(item.elided.bytes)}).`;
      return [h("p", {}, text, " ", button("Load it", { kind: "quiet small", onClick: () => context.loadElided(item.elided) }))];
    }
    this.retry = item.retryAt ? button("Retry now", { icon: "retry", kind: "quiet small", onClick: () => context.skipWait() }) : null;
    const heading = item.heading ? h("b", {}, visible(item.heading)) : null;
    return [h("p", {}, heading, heading && item.text ? ": " : "", heading ? visible(item.text) : sentence(item.text), " ", this.retry ?? ""), item.detail ? h("p", { class: "hint" }, h("code", {}, oneLine(item.detail, 300))) : null].filter(Boolean);
  }

  tick() {
    if (this.retry) this.retry.hidden = this.context.retryAt?.() !== this.item.retryAt;
  }
}

/** Messages of the engine begin small, so that they can follow something; here they stand alone. */
function sentence(text) {
  const shown = visible(text);
  return shown.charAt(0).toUpperCase() + shown.slice(1);
}

function questionOf(question) {
  if (question.type === "recovery_asked") return `The model ${question.model} failed: ${question.message}`;
  return question.question ?? question.detail ?? "";
}

function compactionNodes({ started, ended }, context) {
  if (!ended) return [h("p", {}, `Summarising ${started ? count(started.messages, "message") : "the history"}`)];
  if (ended.outcome !== "compacted") {
    const what = ended.outcome === "cancelled" ? "The summary was cancelled" : "The history could not be summarised";
    return [h("p", {}, h("b", {}, what), ended.detail ? `: ${visible(ended.detail)}` : "")];
  }
  const sizes = ended.before ? `: ${tokens(ended.before)} tokens became ${tokens(ended.after)}` : "";
  const undo = context.mayChange() ? button("Bring it back", { kind: "quiet small", icon: "undo", onClick: () => context.undoCompaction() }) : null;
  return [h("p", {}, h("b", {}, "The older part was summarised"), `${sizes}. What is above stays here to read. `, undo)];
}

function undoNodes({ isUndone, files }) {
  const list = files?.length ? ` ${count(files.length, "file")} ${isUndone ? "restored" : "changed again"}: ${files.map((file) => visible(file)).join(", ")}` : " No file was changed.";
  return [h("p", {}, h("b", {}, isUndone ? "The turn above was undone." : "The turn was redone."), list)];
}
