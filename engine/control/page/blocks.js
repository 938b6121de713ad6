// Blocks of text in rows: Markdown that grows, code, output of programs, with what is too long shown on demand.

import { h } from "./dom.js";
import { bytes } from "./formats.js";
import { languageOf, lex } from "./highlight.js";
import { linkNode } from "./links.js";
import { Markdown } from "./markdown.js";
import { cutAt, shortenLines } from "./text.js";
import { copyButton, whenIdle } from "./widgets.js";

const PIECE = 200 * 1024;

/** A block of Markdown that grows with its text. */
export class MarkdownBlock {
  constructor() {
    this.node = h("div", { class: "markdown" });
    this.#begin();
  }

  #begin() {
    this.taken = "";
    this.limit = PIECE;
    this.more = null;
    this.isEnded = false;
    this.node.replaceChildren();
    this.markdown = new Markdown(this.node, { link: linkNode, onCode: finishCode });
  }

  /** Show *text*, which usually is what is shown already and something more. */
  show(text, isDone) {
    const isSame = text.length === this.taken.length && (!isDone || text === this.taken);
    if (!isSame && (this.isEnded || text.length < this.taken.length || (isDone && !text.startsWith(this.taken)))) this.#begin();
    const end = cutAt(text, this.limit);
    if (end > this.taken.length) {
      this.markdown.add(text.slice(this.taken.length, end));
      this.taken = text.slice(0, end);
    }
    this.#offerMore(text, isDone);
    if (isDone && !this.isEnded && end === text.length) {
      this.isEnded = true;
      this.markdown.end();
    }
  }

  #offerMore(text, isDone) {
    this.more?.remove();
    this.more = null;
    const rest = text.length - this.taken.length;
    if (rest <= 0) return;
    this.more = moreButton(rest, () => {
      this.limit += PIECE;
      this.show(text, isDone);
    });
    this.node.after(this.more);
  }
}

function moreButton(rest, onClick) {
  return h("button", { type: "button", class: "button quiet more", on: { click: onClick } }, `Show more: ${bytes(rest)} are not shown`);
}

/** A complete block of code gets its language, its colours, and a button to copy it. */
function finishCode(pre, name) {
  const text = pre.textContent;
  const frame = h("div", { class: "code-block" });
  pre.replaceWith(frame);
  frame.append(h("div", { class: "code-head" }, h("span", {}, name || "text"), copyButton(() => text)), pre);
  colour(pre, text, languageOf(name));
}

/** Give code its colours, when there is time for it. */
export function colour(pre, text, language) {
  if (!language) return;
  whenIdle(() => {
    if (pre.textContent !== text) return;
    const pieces = lex(text, language);
    if (pieces) pre.replaceChildren(...pieces.map(([kind, piece]) => (kind ? h("span", { class: `code-${kind}` }, piece) : piece)));
  });
}

/**
 * A text in its own lines, cut to what can be drawn quickly; the rest comes on demand.
 *
 * @param {string} text
 * @param {{clean: (text: string) => string, label?: string, className?: string, language?: string | null, piece?: number}} options
 */
export function textBlock(text, { clean, label, className = "", language = null, piece = 20_000 }) {
  const pre = h("pre", { class: className, tabindex: "0", role: "group", "aria-label": label ?? null });
  const frame = h("div", { class: "text-block" }, pre);
  let end = 0;
  const add = (size) => {
    const next = cutAt(text, end + size);
    pre.append(shortenLines(clean(text.slice(end, next))));
    end = next;
    if (end < text.length) {
      const more = moreButton(text.length - end, () => {
        more.remove();
        add(PIECE);
      });
      frame.append(more);
    }
    if (end === text.length && language) colour(pre, pre.textContent, language);
  };
  add(piece);
  return frame;
}
