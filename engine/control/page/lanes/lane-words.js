/** The picture in words: letters, names and facts, shared by the bars, the details, the table and screen readers. Pure. */

/** @typedef {import("./lane-rows.js").Row} Row */

/** Of each kind of segment: the letter on its bar, and its name. @type {Record<string, [letter: string, name: string]>} */
export const STATES = {
  turn: ["", "in progress"],
  compaction: ["K", "summarising the history"],
  request: ["M", "waiting for the model"],
  stream: ["S", "streaming"],
  retry: ["W", "waiting before a retry"],
  receiving: ["A", "receiving arguments"],
  queued: ["Q", "queued"],
  judged: ["J", "being checked and recorded"],
  permission: ["P", "waiting for permission"],
  question: ["?", "waiting for an answer"],
  running: ["R", "running"],
  settled: ["H", "result held for its place in call order"],
  background: ["B", "running in the background"],
  gone: ["G", "nothing recorded: its engine ended"],
};

/** Of each outcome of a call. @type {Record<string, [letter: string, name: string]>} */
export const OUTCOMES = {
  completed: ["C", "completed"],
  failed: ["F", "completed, and reports a failure"],
  error: ["E", "error"],
  denied: ["D", "denied"],
  aborted: ["X", "aborted"],
  unknown: ["U", "aborted, outcome unknown"],
};

/** Of each mark: the sign that is drawn, and its name. @type {Record<string, [sign: string, name: string]>} */
export const MARKS = {
  asked: ["?", "asked"],
  answered: ["✓", "answered"],
  steer: ["▸", "message sent while it works"],
  queue: ["▹", "message queued"],
  promoted: ["▾", "message given to the model"],
  compaction: ["◇", "summary started"],
  compacted: ["◆", "summary ended"],
  limit: ["■", "limit reached"],
  retry: ["↻", "retry scheduled"],
  repetition: ["∞", "repetition found"],
  model: ["⇄", "model changed for the next turn"],
  resumed: ["▶", "resumed by another engine"],
  warning: ["!", "warning"],
};

const CAUSES = {
  user: "cancelled by the user",
  host: "cancelled by the host",
  left: "its block or its engine was left",
  limit: "a limit was reached",
  rejected: "a permission was rejected",
  doom: "a repetition",
  crashed: "a fault of the engine",
};

/** @param {number} seconds @returns {string} such as `350 ms`, `3.2 s`, `2 min 14 s` */
export function duration(seconds) {
  const value = Math.max(0, seconds);
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.995) return `${value.toFixed(2)} s`;
  if (value < 59.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** @param {number} offset seconds @param {number} [digits] @returns {string} such as `1:04.5` */
export function clock(offset, digits = 0) {
  const value = Number(Math.abs(offset).toFixed(digits));
  const seconds = (value % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  const minutes = Math.floor(value / 60);
  const hours = Math.floor(minutes / 60);
  const sign = offset < 0 && value > 0 ? "−" : "";
  return hours ? `${sign}${hours}:${String(minutes % 60).padStart(2, "0")}:${seconds}` : `${sign}${minutes}:${seconds}`;
}

/** @param {Row} row @returns {string} the key of its outcome in `OUTCOMES`; empty: it has none of a call */
export function outcomeKey(row) {
  const { outcome } = row;
  if (outcome === null || row.kind !== "call") return "";
  if (outcome.unknown) return "unknown";
  return outcome.status === "completed" && outcome.failed ? "failed" : outcome.status;
}

/** @param {Row} row @param {boolean} [isStopped] nothing runs it any more @returns {string} how it ended, or what it does */
export function stateOf(row, isStopped = false) {
  if (row.to === null && isStopped) return "interrupted";
  const key = outcomeKey(row);
  if (key !== "") {
    const reason = row.outcome?.reason ? ` (${row.outcome.reason.replaceAll("_", " ")})` : "";
    return (OUTCOMES[key]?.[1] ?? key) + reason;
  }
  const open = row.segments.at(-1);
  if (row.to === null && open !== undefined) return STATES[open.kind]?.[1] ?? open.kind;
  if (row.outcome !== null) return row.outcome.status.replaceAll("_", " ") + (row.facts.undone ? ", undone later" : "");
  return row.to === null ? "in progress" : "ended";
}

/** @param {Row} row @returns {string} */
export function labelOf(row) {
  return row.detail ? `${row.name}: ${row.detail}` : row.name;
}

/** @param {Row} row @returns {number} for how long no engine was there, within it */
export function goneTime(row) {
  return row.segments.reduce((sum, { kind, from, to }) => sum + (kind === "gone" ? (to ?? from) - from : 0), 0);
}

/** @param {import("./lane-rows.js").Ending} ending */
export function causeOf(ending) {
  if (ending.cause === "user" && ending.by) return `cancelled by ${ending.by}`;
  return CAUSES[ending.cause] ?? ending.cause;
}

/** @param {import("./lane-rows.js").Segment} segment @param {number} origin @param {number} now @param {boolean} [isStopped] nothing runs it any more */
export function segmentText(segment, origin, now, isStopped = false) {
  const name = STATES[segment.kind]?.[1] ?? segment.kind;
  const to = segment.to ?? now;
  const span = `${duration(to - segment.from)}, from ${clock(segment.from - origin, 2)} ${segment.to === null && !isStopped ? "until now" : `to ${clock(to - origin, 2)}`}`;
  return segment.note ? `${name}: ${span}: ${segment.note}` : `${name}: ${span}`;
}

/** @param {import("./lane-rows.js").Mark} each @param {number} origin */
export function markText(each, origin) {
  const name = MARKS[each.kind]?.[1] ?? each.kind;
  const by = each.by ? ` by ${each.by}` : "";
  return `${name}${by} at ${clock(each.at - origin, 2)}${each.text ? `: ${each.text}` : ""}`;
}

/** @param {import("./lane-rows.js").Ending} ending @param {number} origin */
export function endingText(ending, origin) {
  const grace = `grace until ${clock(ending.until - origin, 2)} (${duration(ending.until - ending.at)})`;
  const detail = ending.detail && ending.cause !== "user" ? `: ${ending.detail}` : "";
  return `${causeOf(ending)} at ${clock(ending.at - origin, 2)}${detail}; ${grace}`;
}

/**
 * Everything about a row, as label and value.
 * @param {Row} row @param {number} origin @param {number} now @param {boolean} [isStopped] nothing runs it any more
 * @returns {[label: string, value: string][]}
 */
export function factsOf(row, origin, now, isStopped = false) {
  const end = row.to ?? now;
  /** @type {[string, string][]} */
  const facts = [
    ["State", stateOf(row, isStopped)],
    ["Time", `${row.partial ? "before " : ""}${clock(row.from - origin, 2)} to ${row.to === null && !isStopped ? "now" : clock(end - origin, 2)}`],
    ["Duration", duration(end - row.from - goneTime(row))],
  ];
  if (row.kind !== "turn") row.segments.forEach((each, n) => facts.push([n ? "" : "Phases", segmentText(each, origin, now, isStopped)]));
  if (row.ending !== null) facts.push(["Ending", endingText(row.ending, origin)]);
  row.marks.forEach((each, n) => facts.push([n ? "" : "Marks", markText(each, origin)]));
  const { facts: known } = row;
  if (known.arguments) facts.push(["Arguments", String(known.arguments)]);
  if (known.verdict) facts.push(["Verdict", String(known.verdict)]);
  if (known.safe === "no") facts.push(["Scheduling", "runs alone"]);
  if (row.outcome?.text) facts.push([row.kind === "call" ? "Result" : "Detail", row.outcome.text]);
  if (known.model) facts.push(["Model", `${known.model}${Number(known.attempt) > 1 ? `, attempt ${known.attempt}` : ""}`]);
  if (known.by) facts.push(["Sent by", String(known.by)]);
  const tokens = tokensOf(row);
  if (tokens) facts.push(["Tokens", tokens]);
  if (known.cost) facts.push(["Cost", `$${Number(known.cost).toFixed(4)}`]);
  if (row.outcome?.unknown) facts.push(["Note", "It did not stop within its grace. It may still be running."]);
  return facts;
}

/** @param {Row} row @returns {string} */
export function tokensOf(row) {
  const { tokens_in: input, tokens_out: output, tokens_cached: cached } = row.facts;
  if (!input && !output) return "";
  const share = cached ? ` (${Number(cached).toLocaleString("en")} from the cache)` : "";
  return `${Number(input).toLocaleString("en")} in${share}, ${Number(output).toLocaleString("en")} out`;
}
