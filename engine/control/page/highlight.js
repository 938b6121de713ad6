// A lexer for the colours of code: comments, strings, numbers, keywords. It knows words, not grammar, and never fails.

const words = (text) => new Set(text.split(" "));
const C_LIKE = { comment: /\/\/[^\n]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*(?:\*\/)?/, string: /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/ };
const HASH = { comment: /#[^\n]*/, string: /"(?:[^"\\]|\\[^])*"?|'[^']*'?/ };

const LANGUAGES = {
  python: {
    comment: /#[^\n]*/,
    string: /"""[^"\\]*(?:(?:\\[^]|"(?!""))[^"\\]*)*(?:""")?|'''[^'\\]*(?:(?:\\[^]|'(?!''))[^'\\]*)*(?:''')?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/,
    keywords: words(
      "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield self",
    ),
  },
  javascript: {
    comment: C_LIKE.comment,
    string: /`(?:[^`\\]|\\[^])*`?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/,
    keywords: words(
      "as async await break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private public readonly return set static super switch this throw true try type typeof undefined var void while yield",
    ),
  },
  shell: {
    ...HASH,
    comment: /(?<=^|\s)#[^\n]*/,
    keywords: words("case do done elif else esac export fi for function if in local return set then until while"),
  },
  json: { comment: /\/\/[^\n]*/, string: /"(?:[^"\\\n]|\\.)*"?/, keywords: words("true false null") },
  rust: {
    comment: C_LIKE.comment,
    string: /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\\n]|\\.)'/,
    keywords: words(
      "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
    ),
  },
  go: {
    comment: C_LIKE.comment,
    string: /`[^`]*`?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/,
    keywords: words(
      "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var",
    ),
  },
  c: {
    ...C_LIKE,
    keywords: words(
      "auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float for friend if include inline int long namespace new noexcept nullptr override private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while",
    ),
  },
  java: {
    ...C_LIKE,
    keywords: words(
      "abstract boolean break byte case catch char class const continue default do double else enum extends false final finally float for fun if implements import instanceof int interface internal is long new null object override package private protected public return sealed short static super switch this throw throws true try val var void when while",
    ),
  },
  yaml: { ...HASH, comment: /(?<=^|\s)#[^\n]*/, keywords: words("true false null yes no on off") },
  sql: {
    comment: /--[^\n]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*(?:\*\/)?/,
    string: /'(?:[^']|'')*'?/,
    keywords: words(
      "and as asc begin between by case commit create delete desc distinct drop else end exists from group having in index inner insert into is join key left like limit not null on or order outer primary references select set table then union unique update values when where with",
    ),
    ignoreCase: true,
  },
};

const NAMES = {
  py: "python", python3: "python", pyi: "python", toml: "yaml", yml: "yaml", ini: "yaml", cfg: "yaml",
  js: "javascript", jsx: "javascript", ts: "javascript", tsx: "javascript", mjs: "javascript", typescript: "javascript",
  sh: "shell", bash: "shell", zsh: "shell", console: "shell", makefile: "shell", dockerfile: "shell",
  jsonc: "json", jsonl: "json", rs: "rust", golang: "go", h: "c", cc: "c", cpp: "c", hpp: "c", cxx: "c", cs: "java",
  kt: "java", kotlin: "java", scala: "java", swift: "java", php: "c", css: "c",
};
const LARGEST = 60_000;
const patterns = new Map();

/** Return the language of a name or of a file's ending; null: none that is known. */
export function languageOf(name) {
  const key = name.toLowerCase().split("/").pop().split(".").pop();
  const language = NAMES[key] ?? key;
  return Object.hasOwn(LANGUAGES, language) ? language : null;
}

/** Return *text* as pieces `[kind, text]`, kind being comment, string, number, keyword or empty; null: it is too large. */
export function lex(text, language) {
  if (text.length > LARGEST) return null;
  const { keywords, ignoreCase } = LANGUAGES[language];
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(patternOf(language))) {
    const [all, comment, string, number] = match;
    const word = ignoreCase ? all.toLowerCase() : all;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : keywords.has(word) ? "keyword" : "";
    if (!kind) continue;
    if (match.index > at) pieces.push(["", text.slice(at, match.index)]);
    pieces.push([kind, all]);
    at = match.index + all.length;
  }
  if (at < text.length) pieces.push(["", text.slice(at)]);
  return pieces;
}

function patternOf(language) {
  let pattern = patterns.get(language);
  if (!pattern) {
    const { comment, string } = LANGUAGES[language];
    const number = String.raw`\b0[xob][0-9a-fA-F_]+|\b[0-9][0-9_]*(?:\.[0-9_]+)?(?:e[+-]?[0-9]+)?\b`;
    pattern = new RegExp(`(${comment.source})|(${string.source})|(${number})|[A-Za-z_$][A-Za-z0-9_$]*`, "g");
    patterns.set(language, pattern);
  }
  return pattern;
}
