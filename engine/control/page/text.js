// Text of models, tools and files, made safe to display. The table is the engine's own (engine/export/sanitize.py).

import { BLANK, UNSAFE } from "./unsafe-chars.js";

const PLAIN = /^[\t\n\x20-\x7e]*$/;
const UNSAFE_CHARS = new RegExp(`[\\r${UNSAFE}]`, "gu");
const UNSEEN_CHARS = new RegExp(`[${UNSAFE}${BLANK}]`, "gu");
const ANSI = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g;

function written(char) {
  const code = char.codePointAt(0);
  const digits = code.toString(16);
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/** Return *text* with what is no good character written as `\u202e`; a carriage return is left out. */
export function visible(text) {
  if (PLAIN.test(text)) return text;
  return text.replace(UNSAFE_CHARS, (char) => (char === "\r" ? "" : written(char)));
}

/** The same for a text that somebody is asked to approve: joiners and odd blanks are written out as well. */
export function visibleForApproval(text) {
  return PLAIN.test(text) ? text : text.replace(UNSEEN_CHARS, written);
}

/** Return the output of a program as a terminal would leave it: without its colours, and with lines overwritten. */
export function terminalText(text) {
  const plain = text.includes("\x1b") ? text.replace(ANSI, "") : text;
  return visible(plain.includes("\r") ? plain.split("\n").map(overwritten).join("\n") : plain);
}

function overwritten(line) {
  let end = line.length;
  while (end > 0 && line[end - 1] === "\r") end -= 1;
  return line.slice(line.lastIndexOf("\r", end - 1) + 1, end);
}

/** Return the beginning of *text* on one line of at most *width* characters. */
export function oneLine(text, width) {
  const line = visible(String(text).slice(0, 8 * width).replace(ANSI, "")).split(/\s+/).filter(Boolean).join(" ");
  return line.length <= width ? line : `${[...line].slice(0, width - 1).join("")}…`;
}

/** Return *text* without blanks at its ends. */
export function trimBlanks(text) {
  let start = 0;
  let end = text.length;
  while (start < end && (text[start] === " " || text[start] === "\t")) start += 1;
  while (end > start && (text[end - 1] === " " || text[end - 1] === "\t")) end -= 1;
  return text.slice(start, end);
}

/** Return where to cut *text* near *end* without cutting a character in two. */
export function cutAt(text, end) {
  if (end >= text.length) return text.length;
  const code = text.charCodeAt(end - 1);
  return code >= 0xd800 && code < 0xdc00 ? end + 1 : end;
}

const LINE_CHARS = 10_000;

/** Return *text* with each line cut to 10,000 characters, saying how much is missing. */
export function shortenLines(text) {
  if (text.length <= LINE_CHARS) return text;
  const lines = text.split("\n");
  if (lines.every((line) => line.length <= LINE_CHARS)) return text;
  return lines
    .map((line) =>
      line.length <= LINE_CHARS
        ? line
        : `${line.slice(0, LINE_CHARS)}… [${(line.length - LINE_CHARS).toLocaleString("en")} more characters in this line]`,
    )
    .join("\n");
}
