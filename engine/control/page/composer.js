// Where prompts are written. What was typed is kept until the server has admitted it, also over a reload.

import { newId } from "./client/links.js";
import { h, reconcile, replace, setText } from "./dom.js";
import { bytes } from "./formats.js";
import { icon } from "./icons.js";
import { oneLine, visible } from "./text.js";
import { announce, button, problem } from "./widgets.js";

const MOST_BYTES = 32 * 1024 * 1024;
// What is kept over a reload, for each session.
const draftKey = (id) => `engine.draft.${id}`;
const outboxKey = (id) => `engine.outbox.${id}`;

/** Texts that were sent and are not admitted yet. Each is sent again with the same key, which admits it once. */
class Outbox {
  constructor(id) {
    this.key = outboxKey(id);
    this.entries = load(this.key, []);
  }

  add(entry) {
    this.entries.push(entry);
    this.save();
  }

  remove(key) {
    this.entries = this.entries.filter((entry) => entry.key !== key);
    this.save();
  }

  save() {
    keep(this.key, this.entries.length ? this.entries.map(({ state: _, why: __, ...entry }) => entry) : null);
  }
}

function load(key, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keep(key, value) {
  try {
    if (value === null || value === "") sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // The storage is full or forbidden: the text is still in the field.
  }
}

/** The field, its buttons, what is being sent and what is queued. */
export class Composer {
  constructor(context) {
    this.context = context;
    this.outbox = new Outbox(context.session.id);
    this.attachments = [];
    this.isEditing = false;
    this.#build();
    for (const entry of this.outbox.entries) this.#send(entry);
  }

  #build() {
    this.field = h("textarea", { class: "composer-field", rows: 1, "aria-label": "Message", enterkeyhint: "send", spellcheck: "true" });
    this.field.value = load(draftKey(this.context.session.id), "");
    this.field.addEventListener("input", () => {
      keep(draftKey(this.context.session.id), this.field.value);
      this.#grow();
      this.update();
    });
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.field.addEventListener("paste", (event) => this.#paste(event));
    this.picker = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Attach files" });
    this.picker.addEventListener("change", () => {
      this.attach([...this.picker.files]);
      this.picker.value = "";
    });
    this.chips = h("div", { class: "chips" });
    this.pending = h("div", { class: "pending" });
    this.queued = h("ol", { class: "queued", "aria-label": "Queued messages" });
    this.failure = h("div", {});
    this.clip = button("Attach files", { icon: "clip", iconOnly: true, kind: "quiet", onClick: () => this.picker.click() });
    this.queueButton = button("Queue", { kind: "quiet", title: "Send it as the next turn, when this one has ended (Ctrl+Enter)", onClick: () => this.submit("queue") });
    this.sendButton = button("Send", { icon: "send", kind: "primary", onClick: () => this.submit() });
    this.stopButton = button("Stop", { icon: "stop", kind: "danger", title: "Cancel the turn (Ctrl+.)", "aria-keyshortcuts": "Control+.", onClick: () => this.context.cancel() });
    this.resumeButton = button("Resume", { icon: "open", kind: "primary", onClick: () => this.context.resume() });
    this.hint = h("p", { class: "hint composer-hint" });
    this.node = h(
      "section",
      { class: "composer", "aria-label": "Write" },
      this.pending,
      this.queued,
      this.failure,
      h(
        "div",
        { class: "composer-box" },
        this.chips,
        this.field,
        this.picker,
        h("div", { class: "composer-line" }, this.clip, this.hint, h("span", { class: "composer-buttons" }, this.stopButton, this.resumeButton, this.queueButton, this.sendButton)),
      ),
    );
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => {
      event.preventDefault();
      this.attach([...event.dataTransfer.files]);
    });
    queueMicrotask(() => this.#grow());
  }

  #grow() {
    const { field } = this;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, window.innerHeight * 0.4)}px`;
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit(event.ctrlKey || event.metaKey ? "queue" : undefined);
  }

  #paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attach(files);
  }

  /** Upload files for the next message. */
  attach(files) {
    for (const file of files) {
      const entry = { name: file.name || "pasted", size: file.size, id: newId(), state: "uploading" };
      this.attachments.push(entry);
      this.#upload(entry, file);
    }
    this.update();
  }

  async #upload(entry, file) {
    try {
      if (file.size > MOST_BYTES) throw new Error(`larger than ${bytes(MOST_BYTES)}`);
      entry.upload = (await this.context.session.client.upload(file, entry.name)).upload;
      entry.state = "ready";
    } catch (error) {
      Object.assign(entry, { state: "failed", why: error.message });
    }
    this.update();
  }

  get mode() {
    const { turn, isParked, isEnding } = this.context.live();
    if (!turn || isParked) return "prompt";
    return isEnding ? "queue" : "steer";
  }

  /** Send what is written: as a prompt, to the turn that runs, or for the next turn. */
  submit(wanted) {
    const text = this.field.value.trim();
    const attachments = this.attachments.filter((each) => each.state === "ready");
    if (this.attachments.some((each) => each.state === "uploading")) return replace(this.failure, problem("Wait until the files are uploaded."));
    if (!text && !attachments.length && this.context.retryAt()) return this.context.skipWait();
    if ((!text && !attachments.length) || !this.context.mayChange()) return undefined;
    const mode = this.mode === "prompt" ? "prompt" : (wanted ?? this.mode);
    const entry = {
      key: newId(),
      text,
      mode,
      attachments: attachments.map(({ upload, name }) => ({ upload, name })),
      turnId: mode === "steer" ? this.context.live().turn : undefined,
    };
    this.outbox.add(entry);
    this.field.value = "";
    this.attachments = [];
    keep(draftKey(this.context.session.id), null);
    replace(this.failure);
    this.#grow();
    this.#send(entry);
    this.context.toEnd();
    return undefined;
  }

  async #send(entry) {
    Object.assign(entry, { state: "sending", why: "" });
    this.update();
    const { session } = this.context;
    const options = { key: entry.key, attachments: entry.attachments ?? [] };
    try {
      if (entry.mode === "steer") await session.steer(entry.turnId, entry.text, options);
      else if (entry.mode === "queue") await session.queue(entry.text, options);
      else await session.prompt(entry.text, options);
      this.outbox.remove(entry.key);
    } catch (error) {
      if (entry.mode === "steer" && (error.kind === "conflict" || error.kind === "nothing_to_do")) return this.#sendLater(entry);
      if (entry.mode === "prompt" && error.kind === "busy") return this.#sendLater(entry);
      Object.assign(entry, { state: "failed", why: error.message });
      announce("A message was not sent");
    }
    return this.update();
  }

  /** The turn was over, or another one had begun: then it is the next. */
  #sendLater(entry) {
    this.outbox.remove(entry.key);
    const next = { ...entry, key: newId(), mode: "queue", turnId: undefined };
    this.outbox.add(next);
    return this.#send(next);
  }

  /** The server has admitted that input: it is in the log from now on. */
  admitted(inputId) {
    if (this.outbox.entries.some((entry) => entry.key === inputId)) {
      this.outbox.remove(inputId);
      this.update();
    }
  }

  /** Put a text back into the field, in front of what is there. */
  putBack(text) {
    this.field.value = this.field.value.trim() ? `${text}\n\n${this.field.value}` : text;
    keep(draftKey(this.context.session.id), this.field.value);
    this.#grow();
    this.update();
    this.field.focus();
  }

  update() {
    const { turn, isParked, isInterrupted, isEnding, isRunning } = this.context.live();
    const mayChange = this.context.mayChange();
    const hasText = this.field.value.trim() !== "" || this.attachments.some((each) => each.state === "ready");
    const mode = this.mode;
    this.stopButton.hidden = !turn || isParked;
    this.stopButton.disabled = isEnding || !this.context.mayAnswer();
    setText(this.stopButton.lastChild, isEnding ? "Stopping" : "Stop");
    this.resumeButton.hidden = !isParked;
    this.resumeButton.disabled = !mayChange;
    this.queueButton.hidden = mode !== "steer" || !hasText;
    this.sendButton.disabled = !hasText || !mayChange;
    setText(this.sendButton.lastChild, mode === "steer" ? "Send now" : mode === "queue" ? "Queue" : "Send");
    const parked = isInterrupted ? "The turn was interrupted: resume it, or write what to do next" : "The turn is parked: resume it first";
    const open = isRunning && !isEnding ? "Write to the model while it works" : "What should be done?";
    const elsewhere = "Another engine has this session open: write to it there";
    const placeholder = this.context.isElsewhere() ? elsewhere : isParked ? parked : open;
    if (this.field.placeholder !== placeholder) this.field.placeholder = placeholder;
    setText(this.hint, this.context.hint());
    this.#drawChips();
    this.#drawPending();
    this.#drawQueue();
  }

  #drawChips() {
    replace(
      this.chips,
      ...this.attachments.map((entry) => {
        const state = { uploading: "uploading", failed: `failed: ${entry.why}`, ready: bytes(entry.size) }[entry.state];
        const remove = button(`Remove ${oneLine(entry.name, 60)}`, {
          icon: "close",
          iconOnly: true,
          kind: "quiet small",
          onClick: () => {
            this.attachments = this.attachments.filter((other) => other !== entry);
            this.update();
          },
        });
        return h("span", { class: `chip chip-${entry.state}` }, icon("file"), `${oneLine(entry.name, 60)} · ${oneLine(state, 80)}`, remove);
      }),
    );
  }

  #drawPending() {
    const isLive = this.context.isLive();
    replace(
      this.pending,
      ...this.outbox.entries.map((entry) => {
        const isFailed = entry.state === "failed";
        const state = isFailed ? `Not sent: ${oneLine(entry.why, 200)}` : isLive ? "Sending" : "Not sent yet: it goes out when the connection is back";
        const retry = button("Send again", { kind: "quiet small", onClick: () => this.#send(entry) });
        const back = button("Edit", {
          kind: "quiet small",
          onClick: () => {
            this.outbox.remove(entry.key);
            this.putBack(entry.text);
          },
        });
        return h(
          "article",
          { class: `pending-entry${isFailed ? " is-failed" : ""}` },
          h("p", { class: "pending-text" }, visible(entry.text) || "(files only)"),
          h("p", { class: "pending-state", role: "status" }, icon(isFailed ? "warning" : "busy"), state, isFailed && retry, isFailed && back),
        );
      }),
    );
  }

  #drawQueue() {
    const queue = this.context.queue();
    // After a turn that was cancelled, what is queued waits until somebody says so.
    const waiting = this.context.live().turn || !this.context.mayChange() ? null : queue.find((entry) => entry.mode === "queue");
    this.queued.hidden = queue.length === 0;
    reconcile(
      this.queued,
      queue.map((entry) => entry.input_id),
      () => h("li", { class: "queued-entry" }),
      (node, id) => this.#drawQueued(node, queue.find((entry) => entry.input_id === id), waiting?.input_id === id),
    );
  }

  #drawQueued(node, entry, isNext) {
    // What the user wrote: the model gets a message for the running turn with words of the engine around it.
    const text = entry.message.display ?? entry.message.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
    const key = JSON.stringify([text, entry.mode, isNext]);
    if (node.dataset.drawn === key) return;
    node.dataset.drawn = key;
    const what = isNext ? "Waits" : entry.mode === "steer" ? "At the next step" : "Next turn";
    const remove = async (isEdit) => {
      try {
        const { removed } = await this.context.session.call("queue.remove", { input_id: entry.input_id });
        if (removed && isEdit) this.putBack(text);
        if (!removed) announce("Its turn has begun already");
      } catch (error) {
        replace(this.failure, problem(error.message));
      }
    };
    replace(
      node,
      h("span", { class: "queued-what" }, what),
      h("span", { class: "queued-text" }, oneLine(text, 200) || "(files only)"),
      isNext ? button("Send now", { icon: "send", kind: "quiet small", onClick: () => this.context.resume() }) : "",
      button("Edit", { icon: "pencil", iconOnly: true, kind: "quiet small", title: "Take it back into the field", onClick: () => remove(true) }),
      button("Remove", { icon: "bin", iconOnly: true, kind: "quiet small", onClick: () => remove(false) }),
    );
  }
}
