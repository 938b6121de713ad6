// A unified diff as a table: one column where there is little room, old beside new where there is much.

import { h } from "./dom.js";
import { count } from "./formats.js";
import { languageOf, lex } from "./highlight.js";
import { shortenLines, visible } from "./text.js";

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;
const MOST_TOKENS = 2000;
const FIRST_ROWS = 300;
const MORE_ROWS = 2000;
/** From this width on, old and new are side by side. */
export const WIDE = 900;

/**
 * Parse a unified diff: a list of files, each with its name and rows.
 *
 * @returns {{path: string, added: number, removed: number, rows: object[]}[]}
 */
export function parseDiff(text) {
  const files = [];
  let file = null;
  let [oldLine, newLine, oldLeft, newLeft] = [0, 0, 0, 0];
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (oldLeft > 0 || newLeft > 0) {
      const row = rowOf(line, oldLine, newLine);
      file.rows.push(row);
      if (row.old !== undefined) [oldLine, oldLeft] = [oldLine + 1, oldLeft - 1];
      if (row.new !== undefined) [newLine, newLeft] = [newLine + 1, newLeft - 1];
      if (row.kind === "added") file.added += 1;
      if (row.kind === "removed") file.removed += 1;
    } else if (hunk) {
      if (!file) files.push((file = newFile("")));
      [oldLine, newLine] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file.rows.push({ kind: "hunk", text: hunk[5] });
    } else if (line.startsWith("--- ")) {
      files.push((file = newFile(pathOf(line))));
    } else if (line.startsWith("+++ ") && file) {
      const path = pathOf(line);
      if (path !== "/dev/null") file.path = path;
    } else if (line.startsWith("\\") && file) {
      file.rows.push({ kind: "note", text: line.slice(1) });
    }
  }
  for (const each of files) markWords(each.rows);
  return files;
}

const newFile = (path) => ({ path, added: 0, removed: 0, rows: [] });

function rowOf(line, oldLine, newLine) {
  const text = line.slice(1);
  if (line[0] === "+") return { kind: "added", text, new: newLine };
  if (line[0] === "-") return { kind: "removed", text, old: oldLine };
  if (line[0] === "\\") return { kind: "note", text };
  return { kind: "same", text, old: oldLine, new: newLine };
}

function pathOf(line) {
  const path = line.slice(4).split("\t")[0].trim();
  return path.replace(/^[ab]\//, "");
}

/** Find what changed within lines: each removed line is compared with the added one in the same place. */
function markWords(rows) {
  for (let start = 0; start < rows.length; ) {
    if (rows[start].kind !== "removed") {
      start += 1;
      continue;
    }
    let middle = start;
    while (rows[middle]?.kind === "removed") middle += 1;
    let end = middle;
    while (rows[end]?.kind === "added") end += 1;
    const pairs = Math.min(middle - start, end - middle);
    for (let index = 0; index < pairs; index += 1) compareWords(rows[start + index], rows[middle + index]);
    for (let index = 0; index < pairs; index += 1) {
      rows[start + index].pair = rows[middle + index];
      rows[middle + index].isPaired = true;
    }
    start = end;
  }
}

const TOKEN = /[A-Za-z0-9_]+|\s+|[^]/gu;

function compareWords(removed, added) {
  const before = removed.text.match(TOKEN) ?? [];
  const after = added.text.match(TOKEN) ?? [];
  if (before.length + after.length > MOST_TOKENS) return;
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  const most = Math.min(before.length, after.length) - head;
  while (tail < most && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const [old, young] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
  const kept = commonTokens(old, young);
  const same = head + tail + kept.old.filter(Boolean).length;
  // Lines with little in common are different lines; marks would only be noise.
  if (same * 3 < Math.max(before.length, after.length)) return;
  const marks = (tokens, flags) => tokens.map((_, index) => index >= head && index < tokens.length - tail && !flags[index - head]);
  removed.pieces = piecesOf(before, marks(before, kept.old));
  added.pieces = piecesOf(after, marks(after, kept.new));
}

/** Return which tokens of two lists belong to their longest common subsequence. */
function commonTokens(before, after) {
  const width = after.length + 1;
  const lengths = new Uint16Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      const below = lengths[(i + 1) * width + j];
      const right = lengths[i * width + j + 1];
      lengths[i * width + j] = before[i] === after[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(below, right);
    }
  }
  const kept = { old: before.map(() => false), new: after.map(() => false) };
  for (let i = 0, j = 0; i < before.length && j < after.length; ) {
    if (before[i] === after[j]) {
      kept.old[i++] = true;
      kept.new[j++] = true;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return kept;
}

function piecesOf(tokens, marks) {
  const pieces = [];
  for (const [index, token] of tokens.entries()) {
    const last = pieces[pieces.length - 1];
    if (last && last[0] === marks[index]) last[1] += token;
    else pieces.push([marks[index], token]);
  }
  return pieces;
}

/**
 * Return a diff as a table, with more rows on demand.
 *
 * @param {{path: string, rows: object[]}} file
 * @param {{wide?: boolean}} options wide: old beside new.
 */
export function diffTable(file, { wide = false } = {}) {
  const language = languageOf(file.path);
  const body = h("tbody");
  const table = h(
    "table",
    { class: wide ? "diff diff-wide" : "diff", "aria-label": `Changes of ${visible(file.path) || "the file"}` },
    // The first row may span all columns, so their widths are told here.
    h("colgroup", {}, ...(wide ? ["number", "text", "number", "text"] : ["number", "sign", "text"]).map((name) => h("col", { class: `diff-${name}-column` }))),
    body,
  );
  const rows = wide ? pairRows(file.rows) : file.rows;
  const add = (from, to) => {
    body.append(...rows.slice(from, to).map((row) => (wide ? wideRow(row, language) : narrowRow(row, language))));
    if (to >= rows.length) return;
    const more = h("button", { type: "button", class: "quiet" }, `Show ${count(Math.min(rows.length - to, MORE_ROWS), "more line")} of ${(rows.length - to).toLocaleString("en")}`);
    const line = h("tr", { class: "diff-more" }, h("td", { colspan: wide ? 4 : 3 }, more));
    more.addEventListener("click", () => {
      line.remove();
      add(to, to + MORE_ROWS);
    });
    body.append(line);
  };
  add(0, FIRST_ROWS);
  return table;
}

function pairRows(rows) {
  const pairs = [];
  for (const row of rows) {
    if (row.kind === "removed") pairs.push({ left: row, right: row.pair });
    else if (row.kind === "added") {
      if (!row.isPaired) pairs.push({ right: row });
    } else pairs.push({ left: row, right: row });
  }
  return pairs;
}

const SIGNS = { added: "+", removed: "−", same: " " };

function narrowRow(row, language) {
  if (row.kind === "hunk" || row.kind === "note") return separator(row, 3);
  return h(
    "tr",
    { class: `diff-${row.kind}` },
    h("td", { class: "diff-number" }, String(row.new ?? row.old)),
    h("td", { class: "diff-sign" }, SIGNS[row.kind]),
    h("td", { class: "diff-text" }, ...content(row, language)),
  );
}

function wideRow({ left, right }, language) {
  const row = left ?? right;
  if (row.kind === "hunk" || row.kind === "note") return separator(row, 4);
  return h("tr", {}, ...side(left, left?.old, language), ...side(right, right?.new, language));
}

function side(row, number, language) {
  if (!row) return [h("td", { class: "diff-number diff-none" }), h("td", { class: "diff-text diff-none" })];
  const sign = row.kind === "same" ? [] : [h("span", { class: "diff-sign" }, SIGNS[row.kind])];
  return [
    h("td", { class: `diff-number diff-${row.kind}` }, String(number)),
    h("td", { class: `diff-text diff-${row.kind}` }, ...sign, ...content(row, language)),
  ];
}

function separator(row, columns) {
  const text = row.kind === "hunk" ? `⋯ ${visible(row.text)}` : visible(row.text.trim());
  return h("tr", { class: "diff-hunk" }, h("td", { colspan: columns }, text));
}

function content(row, language) {
  if (row.pieces) return row.pieces.map(([isChanged, text]) => (isChanged ? h("mark", {}, visible(text)) : visible(text)));
  const text = shortenLines(visible(row.text));
  if (!language || text.length > 2000) return [text];
  return lex(text, language).map(([kind, piece]) => (kind ? h("span", { class: `code-${kind}` }, piece) : piece));
}
