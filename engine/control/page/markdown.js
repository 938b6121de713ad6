// Markdown as nodes, line by line: paragraphs, headings, code, lists, quotes, tables.
//
// The same machine as engine/export/html_blocks.py, over the nodes of a document; tests/export/markdown_cases.json holds
// both to the same results. Each line is looked at once and appended to what is open, so text that streams in is never
// parsed again: only its last line, while that is incomplete.

import { h } from "./dom.js";
import { trimBlanks as trim, visible } from "./text.js";

const DEEPEST = 20;
// Browsers take seconds to lay out a table with thousands of columns.
const MOST_COLUMNS = 50;
const LONGEST_LINE = 10_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6}) +([^ ].*)$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-*+]|[0-9]{1,9}[.)])( +|$)/;
const DELIMITER = /^ *:?-+:? *$/;
const CELL_END = /(?<!\\)\|/;
const INLINE =
  /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![A-Za-z0-9_/.*])\*(?![ \t*])([^*\n]+)(?<![ \t])\*(?![A-Za-z0-9_*])/g;
const LINK = /!?\[([^[\]\n]+)\]\(([^()\s]+)\)|(?:https?:\/\/|mailto:)[^\s<>"'`()[\]\\]+/g;

const isBlank = (text) => /^[ \t]*$/.test(text);

/** A text that grows. `root` holds its nodes; `add` appends text, `end` closes the last line. */
export class Markdown {
  /**
   * @param {Element} root where the blocks go.
   * @param {{onCode?: (pre: Element, language: string) => void, link?: (text: string, target: string) => Node}} options
   *   onCode is called when a block of code is complete; link makes the node of a link, which is text without it.
   */
  constructor(root, options = {}) {
    this.root = root;
    this.options = options;
    this.open = [];
    this.leaf = null;
    // The last line, as far as it is shown, and how much more of it there is.
    this.rest = "";
    this.hidden = 0;
    this.tentative = null;
  }

  /** Append *text*. */
  add(text) {
    this.#takeBack();
    let at = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", at)) {
      this.#grow(text.slice(at, end));
      this.#endLine();
      at = end + 1;
    }
    this.#grow(text.slice(at));
    this.#showIncomplete();
  }

  /** The text is complete. */
  end() {
    this.#takeBack();
    if (this.rest) this.#endLine();
    this.#closeLeaf();
  }

  #grow(text) {
    const room = LONGEST_LINE - this.rest.length;
    if (text) this.rest += text.length <= room ? text : text.slice(0, Math.max(0, room));
    this.hidden += Math.max(0, text.length - Math.max(0, room));
  }

  /** Return the last line as it is shown. */
  get #line() {
    const more = this.hidden ? `… [${this.hidden.toLocaleString("en")} more characters in this line]` : "";
    return visible(this.rest) + more;
  }

  #endLine() {
    const line = this.#line;
    this.rest = "";
    this.hidden = 0;
    this.#addLine(line);
  }

  /** Show the last line as plain text: what it is shows at its end. */
  #showIncomplete() {
    if (!this.rest) return;
    const { kind, node, start } = this.leaf ?? {};
    const isInside = kind === "code" || kind === "paragraph";
    const parent = isInside ? node : this.inner;
    const line = this.#line;
    const text = isInside && start !== undefined && (kind === "paragraph" || start > 0) ? `\n${line}` : line;
    this.tentative = isInside ? document.createTextNode(text) : h("p", { dir: "auto" }, text);
    parent.append(this.tentative);
  }

  #takeBack() {
    this.tentative?.remove();
    this.tentative = null;
  }

  get inner() {
    return this.open.length ? this.open[this.open.length - 1].node : this.root;
  }

  /** Add a line, without its end. */
  #addLine(line) {
    const [matched, rest] = this.#matchContainers(line);
    if (matched === this.open.length && this.leaf?.kind === "code") return this.#addCode(this.leaf, rest);
    let sibling = null;
    if (matched < this.open.length) {
      sibling = this.open[matched];
      this.open.length = matched;
      this.#closeLeaf();
    }
    this.#addLeaf(this.#openContainers(rest, sibling));
  }

  #closeLeaf() {
    if (this.leaf?.kind === "code") this.options.onCode?.(this.leaf.node, this.leaf.language);
    this.leaf = null;
  }

  #matchContainers(line) {
    let rest = line;
    for (const [index, container] of this.open.entries()) {
      if (container.kind === "quote") {
        const quote = QUOTE.exec(rest);
        if (!quote) return [index, rest];
        rest = rest.slice(quote[0].length);
      } else if (!isBlank(rest)) {
        const stripped = withoutIndent(rest, container.indent);
        if (stripped === null) return [index, rest];
        rest = stripped;
      }
    }
    return [this.open.length, rest];
  }

  #openContainers(line, before) {
    let rest = line;
    let sibling = before;
    while (this.open.length < DEEPEST) {
      const marker = isRule(rest) ? null : MARKER.exec(rest);
      const quote = QUOTE.exec(rest);
      if (quote) {
        const node = h("blockquote");
        this.inner.append(node);
        this.open.push({ kind: "quote", node });
        rest = rest.slice(quote[0].length);
      } else if (marker && !this.#isText(marker, rest)) {
        rest = this.#openItem(marker, rest, sibling);
      } else {
        break;
      }
      sibling = null;
      this.leaf = null;
    }
    return rest;
  }

  /** Whether a marker inside a paragraph is a part of it: a line that begins with a year, say. */
  #isText(marker, rest) {
    if (this.leaf?.kind !== "paragraph") return false;
    return marker[0].length === rest.length || (marker[2].length > 1 && marker[2].slice(0, -1) !== "1");
  }

  #openItem(marker, rest, sibling) {
    const sign = marker[2].slice(-1);
    let parent = sibling?.marker === sign ? sibling.parent : null;
    if (!parent) {
      const start = Number(marker[2].slice(0, -1));
      parent = ".)".includes(sign) ? h("ol", start === 1 ? {} : { start: String(start) }) : h("ul");
      this.inner.append(parent);
    }
    const spaces = marker[3].length >= 1 && marker[3].length <= 4 ? marker[3].length : 1;
    const indent = marker[1].length + marker[2].length + spaces;
    const node = h("li");
    parent.append(node);
    this.open.push({ kind: "item", node, parent, indent, marker: sign });
    return rest.slice(indent);
  }

  #addLeaf(rest) {
    const leaf = this.leaf;
    let match;
    let columns;
    if (isBlank(rest)) {
      this.leaf = null;
    } else if ((match = FENCE.exec(rest))) {
      const language = trim(match[2]).split(" ")[0];
      const node = h("pre", language ? { "data-language": language } : {});
      this.inner.append(node);
      this.leaf = { kind: "code", node, fence: match[1], language, start: 0 };
    } else if ((match = HEADING.exec(rest))) {
      this.leaf = null;
      const text = trim(trim(match[2]).replace(/#+$/, ""));
      const attributes = { dir: "auto", class: "heading", "data-level": String(match[1].length) };
      this.inner.append(h("p", attributes, ...this.inline(text)));
    } else if (leaf?.kind === "table" && rest.includes("|")) {
      this.#addRow(leaf, "td", cells(rest));
    } else if ((columns = tableColumns(leaf, rest))) {
      this.#beginTable(leaf, columns);
    } else if (isRule(rest)) {
      this.leaf = null;
      this.inner.append(h("hr"));
    } else {
      this.#addText(rest);
    }
  }

  #addText(rest) {
    if (this.leaf?.kind !== "paragraph") {
      const node = h("p", { dir: "auto" });
      this.inner.append(node);
      this.leaf = { kind: "paragraph", node };
    }
    const leaf = this.leaf;
    leaf.line = rest;
    leaf.start = leaf.node.childNodes.length;
    if (leaf.start) leaf.node.append("\n");
    leaf.node.append(...this.inline(rest));
  }

  #addCode(leaf, rest) {
    const end = FENCE.exec(rest);
    if (end && end[1].startsWith(leaf.fence) && trim(rest) === end[1]) return this.#closeLeaf();
    leaf.node.append(leaf.start ? `\n${rest}` : rest);
    leaf.start += 1;
  }

  #beginTable(header, columns) {
    while (header.node.childNodes.length > header.start) header.node.lastChild.remove();
    if (!header.start) header.node.remove();
    const node = h("table");
    this.inner.append(node);
    this.leaf = { kind: "table", node, columns };
    this.#addRow(this.leaf, "th", cells(header.line));
  }

  #addRow(table, tag, texts) {
    const row = h("tr");
    for (const [index, column] of table.columns.entries()) {
      const inside = index < texts.length ? this.inline(texts[index]) : [];
      row.append(h(tag, column ? { class: column } : {}, ...inside));
    }
    table.node.append(row);
  }

  /** Return the nodes of one line: code, bold and emphasised text, links. */
  inline(text) {
    const parts = [];
    let at = 0;
    for (const span of text.matchAll(INLINE)) {
      parts.push(...this.#links(text.slice(at, span.index)));
      const tag = span[1] !== undefined ? "code" : span[2] !== undefined ? "b" : "i";
      const inner = span[1] ?? span[2] ?? span[3];
      parts.push(h(tag, {}, ...(tag === "code" ? [inner] : withCode(inner))));
      at = span.index + span[0].length;
    }
    parts.push(...this.#links(text.slice(at)));
    return parts;
  }

  #links(text) {
    if (!text) return [];
    if (!this.options.link) return [text];
    const parts = [];
    let at = 0;
    for (const match of text.matchAll(LINK)) {
      // The sentence's sign after an address is none of it.
      const whole = match[1] === undefined ? match[0].replace(/[.,;:!?*_]+$/, "") : match[0];
      if (match.index > at) parts.push(text.slice(at, match.index));
      parts.push(this.options.link(match[1] ?? whole, match[2] ?? whole));
      at = match.index + whole.length;
    }
    if (at < text.length) parts.push(text.slice(at));
    return parts;
  }
}

function withCode(text) {
  const pieces = text.split("`");
  const parts = [];
  for (const [index, piece] of pieces.entries()) {
    const isCode = index % 2 === 1 && index < pieces.length - 1;
    const sign = isCode ? "``" : index % 2 ? "`" : "";
    if (isCode && piece) parts.push(h("code", {}, piece));
    else if (sign + piece) parts.push(sign + piece);
  }
  return parts;
}

function isRule(line) {
  const signs = line.replaceAll(" ", "");
  return signs.length >= 3 && "-*_".includes(signs[0]) && signs === signs[0].repeat(signs.length);
}

function withoutIndent(line, columns) {
  let end = 0;
  let width = 0;
  while (width < columns && (line[end] === " " || line[end] === "\t")) {
    width += line[end] === "\t" ? 4 : 1;
    end += 1;
  }
  return width >= columns ? " ".repeat(width - columns) + line.slice(end) : null;
}

function cells(line) {
  let inner = trim(line);
  if (inner.startsWith("|")) inner = inner.slice(1);
  if (inner.endsWith("|") && !inner.endsWith("\\|")) inner = inner.slice(0, -1);
  return inner.split(CELL_END).map((cell) => trim(cell).replaceAll("\\|", "|"));
}

function tableColumns(leaf, rest) {
  if (leaf?.kind !== "paragraph" || !leaf.line.includes("|") || !rest.includes("-")) return null;
  const signs = cells(rest);
  if (signs.length > MOST_COLUMNS || signs.length !== cells(leaf.line).length || !signs.every((cell) => DELIMITER.test(cell))) return null;
  return signs.map((cell) => (cell.startsWith(":") && cell.endsWith(":") ? "center" : cell.endsWith(":") ? "right" : ""));
}
