/** The lanes on the page: scrolling, zooming, folding, the focus, and drawing what is in view. */

import { h, s } from "../dom.js";
import { visible } from "../text.js";
import { HEAD, xOf } from "./geometry.js";
import { LaneModel } from "./lane-model.js";
import { showDetails } from "./lanes-details.js";
import { onKey } from "./lanes-keys.js";
import { LanesTable } from "./lanes-table.js";
import { makeToolbar } from "./lanes-toolbar.js";
import { clipNodes, patternNodes } from "./patterns.js";
import { cellsOf } from "./row-scene.js";
import { drawScene } from "./scene.js";
import { patch } from "./svg-patch.js";
import { longWaits, TimeScale, workSpans } from "./time-scale.js";
import { linesOf, pathTo, targets } from "./visible-rows.js";

/** Free space behind the last bar, in pixels: letters of outcomes stand there. */
const MARGIN = 56;
const NARROW = 600;
const MOST_ZOOM = 20_000;
/** Milliseconds between two pictures while time goes on. */
const FRAME = 33;
const CALM_FRAME = 1000;

const KEYS = "Arrow keys move along time and lanes, Space folds a row, Enter opens a call in the conversation.";

let mounted = 0;

/**
 * @typedef {object} LanesOptions
 * @property {() => number} [now] the server's time, in seconds since the epoch; without it, time stands still
 * @property {() => boolean} [isStopped] whether no engine runs what is not over: it grows no more
 * @property {((session: string, call: string) => void) | null} [onOpenCall] shows a call in the conversation
 * @property {() => boolean} [letterKeys] whether single letters are keys
 * @property {"newest"|"all"} [scope] which turns are shown first
 */

export class LanesView {
  /** @param {Element} parent @param {LanesOptions} options */
  constructor(parent, options) {
    mounted += 1;
    this.ids = `lanes${mounted}`;
    this.options = options;
    this.model = new LaneModel();
    this.letterKeys = options.letterKeys ?? (() => true);
    /** @type {Set<string>} */
    this.folded = new Set();
    /** @type {import("./visible-rows.js").Line[]} */
    this.lines = [];
    /** @type {string} */
    this.scope = options.scope ?? "newest";
    this.zoom = 0; // pixels for a drawn second; 0: all of it fits
    this.focus = "";
    this.hovered = "";
    this.follow = true;
    this.foldWaits = true;
    this.asTable = false;
    this.jumps = { kind: "", n: 0 };
    this.frame = 0;
    this.drawnAt = 0;
    this.#build(parent);
    this.draw();
  }

  #build(parent) {
    const open = this.options.onOpenCall ? (row) => this.options.onOpenCall?.(row.session, row.call) : null;
    this.size = s("svg", { class: "lanes-size", "aria-hidden": "true", width: 1, height: 1 });
    this.defs = s("defs", {});
    this.layer = s("g", { role: "presentation" });
    this.svg = s("svg", { class: "lanes-picture", role: "treegrid", "aria-label": "Lanes: turns, steps and calls over time", "aria-description": KEYS }, this.defs, this.layer);
    this.scroller = h("div", { class: "lanes-scroll" }, this.size, this.svg);
    this.table = new LanesTable(open);
    this.details = h("div", { class: "lanes-details" });
    this.toolbar = makeToolbar(this);
    this.empty = h("p", { class: "lanes-empty" }, "Nothing has run yet.");
    this.remarks = h("p", { class: "lanes-remark", role: "status", hidden: true });
    this.root = h("section", { class: "lanes", "aria-label": "Lanes" }, this.toolbar.root, this.remarks, this.empty, this.scroller, this.table.root, this.details, this.toolbar.legend);
    parent.append(this.root);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.scroller.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.svg.addEventListener("keydown", (event) => onKey(this, event));
    this.svg.addEventListener("focusin", (event) => this.#select(cellAt(event.target)));
    this.svg.addEventListener("pointerover", (event) => this.#hover(cellAt(event.target)));
    this.svg.addEventListener("pointerleave", () => this.#hover(""));
    this.svg.addEventListener("click", (event) => this.#click(event));
    this.svg.addEventListener("dblclick", () => this.open());
    this.resized = new ResizeObserver(() => this.schedule());
    this.resized.observe(this.scroller);
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.coarse = matchMedia("(pointer: coarse)");
  }

  // -- what hosts call --------------------------------------------------------------------

  /** Add events as they come; some may have come before. @param {Iterable<Record<string, any>>} events */
  feed(events) {
    if (this.model.feedAll(events)) this.schedule();
  }

  /** Begin again with these events, because earlier ones were missing. @param {Iterable<Record<string, any>>} events */
  reset(events) {
    this.model = new LaneModel();
    this.model.feedAll(events);
    this.remark("");
    this.schedule();
  }

  /** Go to a call. @param {string} session @param {string} call @returns {boolean} whether it is in the picture */
  showCall(session, call) {
    const row = this.model.rows.get(`call ${session} ${call}`);
    if (row !== undefined) this.showRow(row);
    return row !== undefined;
  }

  /** Say something about the picture, until it begins again. @param {string} text */
  remark(text) {
    this.remarks.textContent = visible(text);
    this.remarks.hidden = text === "";
  }

  /** Take it off the page. */
  destroy() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.resized.disconnect();
    this.root.remove();
    this.gone = true;
  }

  // -- drawing ------------------------------------------------------------------------------

  schedule() {
    if (this.frame === 0 && !this.gone) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const isEmpty = this.model.roots.length === 0;
    this.empty.hidden = !isEmpty;
    this.scroller.hidden = isEmpty || this.asTable;
    this.table.root.hidden = isEmpty || !this.asTable;
    this.details.hidden = this.scroller.hidden;
    if (isEmpty) return;
    const view = this.#view();
    this.view = view;
    this.lines = view.lines;
    this.toolbar.update();
    if (this.asTable) this.#drawTable(view);
    else if (view.width > 0) this.#drawPicture(view);
    showDetails(this, this.hovered || this.focus);
    if (view.live) this.drawLater(this.calm.matches || this.asTable ? CALM_FRAME : FRAME);
  }

  /** What is in the picture now, in which scale. */
  #view() {
    const roots = this.roots();
    const { lines, levels, strip, work } = this.#derive(roots);
    const isOpen = roots.some((row) => row.to === null);
    const isStopped = isOpen && Boolean(this.options.isStopped?.());
    const live = isOpen && this.options.now !== undefined && !isStopped;
    const now = isOpen ? Math.max(this.model.end, this.options.now?.() ?? 0) : Math.max(...roots.map((row) => row.to ?? 0));
    // A grace is shown as a whole, from the moment at which it begins.
    const end = Math.max(now, ...roots.map((row) => row.ending?.until ?? 0));
    const begin = Math.min(...roots.map((row) => row.from));
    const scale = new TimeScale(begin, end, this.foldWaits ? longWaits(work, begin, now, end) : []);
    const { clientWidth: width, clientHeight: height } = this.scroller;
    const narrow = width < NARROW;
    const gutter = narrow ? 0 : Math.min(320, Math.round(width * 0.3));
    const coarse = this.coarse.matches;
    const rowHeight = narrow ? (coarse ? 48 : 42) : coarse ? 44 : 26;
    const zoom = this.zoom || Math.max(0.001, (width - gutter - MARGIN) / Math.max(scale.length, 0.001));
    if (!lines.some(({ row }) => this.focus.startsWith(`${row.id}|`))) this.focus = `${lines[0].row.id}|label`;
    return { lines, levels, scale, strip, zoom, left: 0, top: 0, width, height, gutter, rowHeight, now, live, isStopped, focus: this.focus, ids: this.ids };
  }

  /** What follows from the events and not from the time: worked out again only if there are new ones. */
  #derive(roots) {
    const key = `${this.model.version} ${this.scope} ${[...this.folded].join()}`;
    if (this.derived?.key !== key || this.derived.model !== this.model) {
      const lines = linesOf(roots, this.folded);
      const levels = lines.reduce((most, { level }) => Math.max(most, level), 1);
      this.derived = { key, model: this.model, lines, levels, strip: this.model.picture().strip, work: workSpans(roots) };
    }
    return this.derived;
  }

  #drawPicture(view) {
    const width = Math.ceil(view.gutter + view.scale.length * view.zoom + MARGIN);
    const height = HEAD + view.lines.length * view.rowHeight + 6;
    setSize(this.size, this.zoom === 0 ? view.width : Math.max(width, view.width), height);
    setSize(this.svg, view.width, Math.min(view.height, height));
    if (this.follow && view.live) this.#followNow(view, width);
    view.left = this.scroller.scrollLeft;
    view.top = this.scroller.scrollTop;
    const held = document.activeElement === this.svg || this.svg.contains(document.activeElement) ? this.focus : "";
    patch(this.defs, [...patternNodes(this.ids), ...clipNodes(this.ids, { ...view, head: HEAD })]);
    patch(this.layer, drawScene(view));
    this.svg.setAttribute("aria-rowcount", String(view.lines.length));
    // An element that was moved has lost it.
    if (held && cellAt(document.activeElement) !== held) this.#element(held)?.focus({ preventScroll: true });
  }

  #followNow(view, width) {
    if (this.zoom !== 0) this.scroller.scrollLeft = width;
    const running = view.lines.findLast(({ row }) => row.to === null);
    if (running === undefined) return;
    const bottom = (running.index + 1) * view.rowHeight + HEAD;
    if (bottom > this.scroller.scrollTop + view.height) this.scroller.scrollTop = bottom - view.height + view.rowHeight;
  }

  #drawTable(view) {
    // Not with each event: somebody reads it.
    if (performance.now() - this.drawnAt < CALM_FRAME && this.drawnLines === view.lines.length) return;
    this.drawnAt = performance.now();
    this.drawnLines = view.lines.length;
    this.table.draw(linesOf(this.roots(), new Set()), view.scale.begin, view.now, view.isStopped);
  }

  /** Draw again after so many milliseconds, because time goes on. @param {number} wait */
  drawLater(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.schedule(), wait);
  }

  // -- what the toolbar and the keys do ---------------------------------------------------------

  /** The turns that are shown. @returns {import("./lane-rows.js").Row[]} */
  roots() {
    const { roots } = this.model;
    if (this.scope === "all") return roots;
    const chosen = roots.find((row) => row.id === this.scope);
    return [chosen ?? roots[roots.length - 1]];
  }

  /** @param {string} scope "newest", "all", or the id of a turn's row */
  setScope(scope) {
    this.scope = scope;
    this.fit();
  }

  fit() {
    this.zoom = 0;
    this.schedule();
  }

  /** @param {number} factor @param {number} [x] the place that stays, in pixels from the left */
  zoomBy(factor, x) {
    const { view } = this;
    if (!view) return;
    const at = x ?? this.#focusX() ?? (view.gutter + view.width) / 2;
    const place = (at - view.gutter + view.left) / view.zoom;
    const fitting = (view.width - view.gutter - MARGIN) / Math.max(view.scale.length, 0.001);
    const zoom = Math.min(MOST_ZOOM, view.zoom * factor);
    // As far out as in: rounding must leave no rest.
    this.zoom = zoom <= fitting * 1.001 ? 0 : zoom;
    this.draw();
    // Who follows the present goes on with that.
    if (this.follow && view.live && x === undefined) return;
    this.scroller.scrollLeft = place * (this.zoom || fitting) - (at - view.gutter);
    this.schedule();
  }

  /** @param {boolean} follow */
  setFollow(follow) {
    this.follow = follow;
    this.schedule();
  }

  /** @param {boolean} fold */
  setFoldWaits(fold) {
    this.foldWaits = fold;
    this.schedule();
  }

  /** @param {boolean} asTable */
  setTable(asTable) {
    this.asTable = asTable;
    this.drawnAt = 0;
    this.drawnLines = -1;
    this.schedule();
  }

  /** Go to the next one. @param {"running"|"failed"|"slowest"|"ended"} kind @returns {boolean} whether there is one */
  jump(kind) {
    const found = targets(kind, this.roots(), this.view?.now ?? 0);
    if (found.length === 0) return false;
    this.jumps = { kind, n: this.jumps.kind === kind ? (this.jumps.n + 1) % found.length : 0 };
    this.follow = false;
    this.showRow(found[this.jumps.n], kind === "ended");
    return true;
  }

  /** Bring a row into view, large enough to be read, and focus it. @param {import("./lane-rows.js").Row} row @param {boolean} [ending] */
  showRow(row, ending = false) {
    if (!this.lines.some((line) => line.row === row) && !pathTo(this.roots(), row.id).length) this.scope = "all";
    for (const id of pathTo(this.model.roots, row.id)) this.folded.delete(id);
    this.draw();
    const { view } = this;
    if (!view) return;
    const shown = row.segments.find(({ kind }) => kind === "running") ?? row.segments[0];
    const span = ending && row.ending ? { from: row.ending.at, to: row.ending.until } : { from: shown?.from ?? row.from, to: shown?.to ?? view.now };
    const length = view.scale.place(span.to) - view.scale.place(span.from);
    const room = view.width - view.gutter;
    if (length * view.zoom < 24) this.zoom = Math.min(MOST_ZOOM, (room * 0.4) / Math.max(length, 0.001));
    this.draw();
    this.scroller.scrollLeft = view.scale.place(span.from) * (this.zoom || view.zoom) - room * 0.3;
    const cell = ending ? `${row.id}|ending` : (cellsOf(row).find((each) => each.segment === shown)?.key ?? `${row.id}|label`);
    this.focusCell(cell);
  }

  /** Fold the focused row, or unfold it. @returns {boolean} whether it has anything to fold */
  toggleFold() {
    const line = this.lineOf(this.focus);
    if (!line || line.row.children.length === 0) return false;
    if (!this.folded.delete(line.row.id)) this.folded.add(line.row.id);
    this.focusCell(`${line.row.id}|label`);
    return true;
  }

  /** Fold every row of a kind, or unfold them. @param {"step"|"call"} kind */
  toggleFolds(kind) {
    const rows = [...this.model.rows.values()].filter((row) => row.kind === kind && row.children.length > 0);
    const unfolds = rows.every((row) => this.folded.has(row.id));
    for (const { id } of rows) {
      if (unfolds) this.folded.delete(id);
      else this.folded.add(id);
    }
    this.schedule();
  }

  /** Open the focused call in the conversation. @returns {boolean} whether that is possible */
  open() {
    const row = this.lineOf(this.focus)?.row;
    if (!row?.call || !this.options.onOpenCall) return false;
    this.options.onOpenCall(row.session, row.call);
    return true;
  }

  /** @param {string} key of a cell @returns {import("./visible-rows.js").Line|undefined} */
  lineOf(key) {
    return this.lines.find(({ row }) => key.startsWith(`${row.id}|`));
  }

  // -- the focus ----------------------------------------------------------------------------------

  /** @param {string} key */
  focusCell(key) {
    this.focus = key;
    this.draw();
    this.#reveal(key);
    this.draw();
    this.#element(key)?.focus({ preventScroll: true });
  }

  #reveal(key) {
    const line = this.lineOf(key);
    const { view } = this;
    if (!line || !view) return;
    const top = line.index * view.rowHeight;
    const room = view.height - HEAD - view.rowHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    const cell = cellsOf(line.row).find((each) => each.key === key);
    if (!cell) return;
    const x = xOf({ ...view, left: this.scroller.scrollLeft }, cell.at);
    if (x < view.gutter || x > view.width - 20) {
      this.follow = false;
      this.scroller.scrollLeft += x - view.gutter - (view.width - view.gutter) * 0.3;
    }
  }

  #focusX() {
    const line = this.lineOf(this.focus);
    const cell = line && cellsOf(line.row).find(({ key }) => key === this.focus);
    if (!cell || !this.view) return undefined;
    const x = xOf(this.view, cell.at);
    return x >= this.view.gutter && x <= this.view.width ? x : undefined;
  }

  #element(key) {
    return [...this.layer.querySelectorAll("[data-cell]")].find((each) => each.getAttribute("data-cell") === key);
  }

  #select(key) {
    if (key === "" || key === this.focus) return;
    this.focus = key;
    this.schedule();
  }

  #hover(key) {
    if (key === this.hovered) return;
    this.hovered = key;
    this.schedule();
  }

  #click(event) {
    const row = this.model.rows.get(event.target.getAttribute("data-go"));
    if (row !== undefined) this.focusCell(cellsOf(row)[0]?.key ?? `${row.id}|label`);
    const key = cellAt(event.target);
    if (key === "") return;
    this.focusCell(key);
    if (key.endsWith("|label") && event.detail === 1) this.toggleFold();
  }

  #scrolled() {
    const { scrollLeft, scrollWidth, clientWidth } = this.scroller;
    // Whoever scrolls back wants to look at something.
    if (this.zoom !== 0 && this.view?.live) this.follow = scrollLeft + clientWidth > scrollWidth - 40;
    this.schedule();
  }

  #wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoomBy(Math.exp(-event.deltaY / 200), event.clientX - this.scroller.getBoundingClientRect().left);
  }
}

/**
 * Draw the lanes into an element of the page.
 * @param {Element} parent
 * @param {LanesOptions} [options]
 * @returns {LanesView} `feed(events)`, `reset(events)`, `showCall(session, call)`, `destroy()`
 */
export function mountLanes(parent, options = {}) {
  return new LanesView(parent, options);
}

function cellAt(target) {
  return target instanceof Element ? (target.closest("[data-cell]")?.getAttribute("data-cell") ?? "") : "";
}

function setSize(svg, width, height) {
  svg.setAttribute("width", String(Math.max(1, width)));
  svg.setAttribute("height", String(Math.max(1, height)));
}
