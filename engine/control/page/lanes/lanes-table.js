/** The picture as a table: the same facts in words. */

import { h } from "../dom.js";
import { visible } from "../text.js";
import { clock, duration, endingText, goneTime, labelOf, markText, stateOf, tokensOf } from "./lane-words.js";

/** Rows that are shown at once; more on demand. */
const PAGE = 300;
const HEADINGS = ["What", "State", "Start", "Duration", "Waited", "Ran", "Tokens", "Notes"];
const WAITS = new Set(["queued", "permission", "question", "retry"]);

/**
 * The cells of a row's line. Pure.
 * @param {import("./lane-rows.js").Row} row @param {number} origin @param {number} now @param {boolean} [isStopped] nothing runs it any more
 * @returns {string[]} one for each heading
 */
export function tableCells(row, origin, now, isStopped = false) {
  const sum = (wanted) => row.segments.reduce((all, { kind, from, to }) => all + (wanted(kind) ? (to ?? now) - from : 0), 0);
  const waited = sum((kind) => WAITS.has(kind));
  const ran = sum((kind) => kind === "running" || kind === "request" || kind === "stream");
  const notes = [
    ...(row.ending === null ? [] : [endingText(row.ending, origin)]),
    ...row.marks.map((each) => markText(each, origin)),
    ...row.segments.filter(({ kind, note }) => kind === "queued" && note).map(({ note, from, to }) => `queued ${duration((to ?? now) - from)}: ${note}`),
    ...(row.outcome?.text && row.outcome.status !== "completed" ? [row.outcome.text] : []),
  ];
  return [
    labelOf(row),
    stateOf(row, isStopped),
    clock(row.from - origin, 2),
    duration((row.to ?? now) - row.from - goneTime(row)),
    waited > 0 ? duration(waited) : "",
    ran > 0 ? duration(ran) : "",
    tokensOf(row),
    notes.join("; "),
  ];
}

export class LanesTable {
  /** @param {((row: import("./lane-rows.js").Row) => void) | null} onOpen opens a call; null: calls can't be opened */
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.limit = PAGE;
    this.origin = 0;
    this.now = 0;
    this.isStopped = false;
    this.lines = [];
    this.body = h("tbody");
    const more = () => {
      this.limit += PAGE;
      this.draw(this.lines, this.origin, this.now, this.isStopped);
    };
    this.more = h("button", { type: "button", class: "lanes-button", hidden: true, on: { click: more } });
    const heads = HEADINGS.map((text) => h("th", { scope: "col" }, text));
    this.caption = h("caption", {}, "Turns, steps and calls");
    const table = h("table", { class: "lanes-table" }, this.caption, h("thead", {}, h("tr", {}, ...heads)), this.body);
    this.root = h("div", { class: "lanes-table-box", tabindex: "0", role: "region", "aria-label": "Lanes as a table" }, table, this.more);
  }

  /** @param {import("./visible-rows.js").Line[]} lines @param {number} origin @param {number} now @param {boolean} [isStopped] */
  draw(lines, origin, now, isStopped = false) {
    Object.assign(this, { lines, origin, now, isStopped });
    const shown = lines.slice(0, this.limit);
    shown.forEach((line, n) => this.#row(line, n));
    while (this.body.children.length > shown.length) this.body.lastElementChild?.remove();
    this.more.hidden = lines.length <= this.limit;
    this.more.textContent = `Show more (${lines.length - shown.length})`;
  }

  #row({ row, level }, n) {
    const cells = tableCells(row, this.origin, this.now, this.isStopped);
    let line = this.body.children[n];
    if (line === undefined) {
      line = h("tr", {}, h("th", { scope: "row" }), ...HEADINGS.slice(1).map(() => h("td")));
      this.body.append(line);
    }
    line.setAttribute("data-level", String(Math.min(level, 12)));
    line.setAttribute("data-kind", row.kind);
    cells.forEach((text, at) => {
      const cell = line.children[at];
      const shown = visible(text);
      if (cell.textContent === shown) return;
      cell.textContent = shown;
      if (at === 0 && row.call !== null && this.onOpen !== null) {
        const open = () => this.onOpen?.(row);
        cell.replaceChildren(h("button", { type: "button", class: "lanes-open", on: { click: open } }, shown));
      }
    });
  }
}
