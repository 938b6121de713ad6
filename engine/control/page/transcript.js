// The transcript: only the rows in view are in the document, however long the session is.

import { h } from "./dom.js";
import { isShown, makeRow } from "./rows.js";
import { button, onNextFrame } from "./widgets.js";

const NEAR_END = 48;
// Scrolling goes on for a while after a finger or a wheel has begun it.
const TOUCH_MS = 1000;
const GUESS = { input: 90, assistant: 140, end: 44, note: 36, engine: 36 };

/** A list of rows of different heights in a scroller. */
export class Transcript {
  /** @param {any} context what rows need of their session's view. */
  constructor(context) {
    this.context = context;
    this.rows = new Map();
    this.heights = new Map();
    this.items = [];
    this.isAtEnd = true;
    this.touchedAt = -Infinity;
    this.hasOlder = false;
    this.above = h("div", { class: "rows-space" });
    this.below = h("div", { class: "rows-space" });
    this.list = h("div", { class: "rows" });
    this.oldest = h("div", { class: "rows-oldest", role: "status" });
    this.latest = button("Latest", { icon: "down", kind: "latest", onClick: () => this.toEnd() });
    this.latest.hidden = true;
    this.scroller = h("div", { class: "transcript", tabindex: "0", role: "region", "aria-label": "Transcript" }, this.oldest, this.above, this.list, this.below);
    this.node = h("div", { class: "transcript-frame" }, this.scroller, this.latest);
    this.draw = onNextFrame(() => this.#draw());
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    for (const input of ["wheel", "touchmove", "pointerdown", "keydown", "focusin"]) {
      this.scroller.addEventListener(input, () => (this.touchedAt = performance.now()), { passive: true });
    }
    this.resized = new ResizeObserver(() => this.#sizes() !== this.drawnSizes && this.draw());
    this.resized.observe(this.scroller);
    this.resized.observe(this.list);
  }

  /** Show the items of *timeline*. */
  show(timeline) {
    if (timeline !== this.timeline) {
      this.timeline = timeline;
      this.heights.clear();
      for (const row of this.rows.values()) row.node.remove();
      this.rows.clear();
    }
    this.#draw();
  }

  toEnd() {
    this.isAtEnd = true;
    this.draw();
  }

  /** Scroll to a call, open it, and focus it: the last of *ids*, which is inside of the others. Those of a sub-agent may not be loaded. */
  async openCall(ids) {
    const item = this.items.find((each) => each.kind === "assistant" && each.parts.some((part) => part.call?.id === ids[0]));
    if (!item) return false;
    let line = this.timeline;
    for (const id of ids) {
      const call = line?.calls.get(id);
      if (call) call.isOpen = true;
      line = call?.child;
    }
    this.rows.get(item.id)?.node.remove();
    this.rows.delete(item.id);
    this.isAtEnd = false;
    this.#scrollTo(this.items.indexOf(item));
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const node = document.getElementById(`call-${ids.at(-1)}`) ?? document.getElementById(`call-${ids[0]}`);
    node?.scrollIntoView({ block: "center" });
    node?.querySelector("summary")?.focus();
    return Boolean(node);
  }

  /** Go to the row before or after the one at the top of the view. */
  step(direction) {
    const starts = this.items.map((item, index) => [index, item]).filter(([, item]) => item.kind === "input" || item.kind === "end");
    const top = this.scroller.scrollTop;
    const offsets = this.#offsets();
    const base = this.list.offsetTop - this.#spaceAbove;
    const target =
      direction > 0
        ? starts.find(([index]) => offsets[index] + base > top + 8)
        : starts.reverse().find(([index]) => offsets[index] + base < top - 8);
    if (target) {
      this.isAtEnd = false;
      this.#scrollTo(target[0]);
    } else if (direction > 0) this.toEnd();
  }

  #scrollTo(index) {
    this.scroller.scrollTop = this.#offsets()[index] + this.list.offsetTop - this.#spaceAbove;
    this.draw();
  }

  get #spaceAbove() {
    return this.above.offsetHeight;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const isNear = scrollHeight - scrollTop - clientHeight < NEAR_END;
    // Only a person leaves the end. The browser scrolls, too: when a text becomes shorter, say.
    const isPerson = performance.now() - this.touchedAt < TOUCH_MS;
    if (isPerson) this.touchedAt = performance.now();
    if (isNear || isPerson) this.isAtEnd = isNear;
    if (scrollTop < clientHeight && this.hasOlder) this.context.loadOlder();
    this.draw();
  }

  /** Return where each item begins, as far as that is known, and at last where they end. */
  #offsets() {
    const offsets = new Float64Array(this.items.length + 1);
    for (const [index, item] of this.items.entries()) {
      offsets[index + 1] = offsets[index] + (this.heights.get(item.id) ?? GUESS[item.kind]);
    }
    return offsets;
  }

  #range(offsets) {
    const view = this.scroller.clientHeight || 800;
    const total = offsets[this.items.length];
    const base = this.list.offsetTop - this.#spaceAbove;
    const top = this.isAtEnd ? total - view : Math.min(this.scroller.scrollTop - base, total - view / 2);
    let start = 0;
    while (start < this.items.length && offsets[start + 1] < top - view) start += 1;
    let end = start;
    while (end < this.items.length && offsets[end] < top + 2 * view) end += 1;
    return [start, end];
  }

  #draw() {
    if (!this.timeline || !this.node.isConnected) return;
    this.items = this.timeline.items.filter(isShown);
    const anchor = this.isAtEnd ? null : this.#anchor();
    const [start, end] = this.#range(this.#offsets());
    this.#mount(this.items.slice(start, end));
    this.#measure();
    const offsets = this.#offsets();
    this.#setSpace(this.above, offsets[start]);
    this.#setSpace(this.below, offsets[this.items.length] - offsets[end]);
    this.#place(anchor);
    this.latest.hidden = this.isAtEnd;
    this.drawnSizes = this.#sizes();
  }

  /** What changes when something else than drawing has changed it: the window, or an image that has come. */
  #sizes() {
    return `${this.scroller.clientWidth} ${this.scroller.clientHeight} ${this.list.offsetHeight}`;
  }

  /** Return a row in view and where it is, to keep it there. */
  #anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const node of this.list.children) {
      const box = node.getBoundingClientRect();
      if (box.bottom > top) return [node, box.top];
    }
    return null;
  }

  #mount(items) {
    const kept = new Set(items.map((item) => item.id));
    for (const [id, row] of this.rows) {
      // What has the focus, or holds a selection, stays.
      if (kept.has(id)) continue;
      row.node.remove();
      this.rows.delete(id);
    }
    let next = this.list.firstElementChild;
    for (const item of items) {
      let row = this.rows.get(item.id);
      if (!row || row.item !== item) {
        row?.node.remove();
        if (row?.node === next) next = this.list.firstElementChild;
        row = makeRow(item, this.context);
        row.rev = item.rev;
        this.rows.set(item.id, row);
      } else if (row.rev !== item.rev || row.version !== this.context.version) {
        row.update();
        row.rev = item.rev;
      }
      row.version = this.context.version;
      if (row.node === next) next = next.nextElementSibling;
      else this.list.insertBefore(row.node, next);
    }
  }

  #measure() {
    for (const [id, row] of this.rows) this.heights.set(id, row.node.offsetHeight);
  }

  #setSpace(node, height) {
    const text = `${Math.max(0, Math.round(height))}px`;
    if (node.style.height !== text) node.style.height = text;
  }

  #place(anchor) {
    const { scroller } = this;
    if (this.isAtEnd) {
      const bottom = scroller.scrollHeight - scroller.clientHeight;
      if (Math.abs(scroller.scrollTop - bottom) > 1) scroller.scrollTop = bottom;
      return;
    }
    if (!anchor || !anchor[0].isConnected) return;
    const moved = anchor[0].getBoundingClientRect().top - anchor[1];
    if (Math.abs(moved) >= 1) scroller.scrollTop += moved;
  }

  /** Bring times up to date. */
  tick() {
    for (const row of this.rows.values()) row.tick();
  }

  close() {
    this.resized.disconnect();
  }
}
