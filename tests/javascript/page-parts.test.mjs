// Parts of the page that need no browser: what it says and draws of states, and the colours of code.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { parseDiff, WIDE } from "../../engine/control/page/diff.js";
import { languageOf, lex } from "../../engine/control/page/highlight.js";
import { MARKS, OUTCOMES, segmentText, STATES, stateOf } from "../../engine/control/page/lanes/lane-words.js";
import { tableCells } from "../../engine/control/page/lanes/lanes-table.js";
import { patternNodes } from "../../engine/control/page/lanes/patterns.js";
import { callState, connectionText, endText, statusText } from "../../engine/control/page/words.js";

const pageFile = (name) => readFileSync(new URL(`../../engine/control/page/${name}`, import.meta.url), "utf8");
const areDistinct = (values) => assert.deepEqual(values, [...new Set(values)]);
/** The drawing of an icon, by its name. */
const shapeOf = (name) => new RegExp(`^  "?${name}"?: (\\[.*\\]),$`, "m").exec(pageFile("icons.js"))?.[1] ?? assert.fail(`no icon ${name}`);

test("states of a session have words and a shape of their own", () => {
  const running = { type: "busy", step: 2 };
  const states = [
    statusText({ type: "idle" }),
    statusText(running),
    statusText({ type: "retry", attempt: 3, next_at: 10 }, { now: 5 }),
    statusText({ type: "waiting", request_ids: ["a", "b"] }),
    statusText(running, { ending: { until: 12 }, now: 10 }),
    statusText(running, { parked: true }),
    statusText(running, { interrupted: true }),
    statusText(running, { row: { holder: "elsewhere" } }),
  ];
  assert.deepEqual(
    states.map(({ text }) => text),
    ["Idle", "Working, step 2", "Retry 3 in 5 s", "Waits for 2 answers", "Stopping, at most 2.0 s", "Parked: waits for an answer", "Interrupted", "Open in another engine"],
  );
  areDistinct(states.map(({ icon }) => shapeOf(icon)));
});

test("a turn that does not end after its grace is not called saved", () => {
  const text = (now) => statusText({ type: "busy" }, { ending: { until: 12 }, now }).text;
  assert.deepEqual([12, 12.9, 13, 60].map(text), ["Stopping: saving", "Stopping: saving", "No answer: it may still run", "No answer: it may still run"]);
});

test("a connection that is behind, and a server that ends, are said", () => {
  assert.equal(connectionText("behind", { events: 12 }), "Catching up: 12 events");
  assert.deepEqual(
    ["connecting", "live", "offline", "refused"].map((state) => connectionText(state, {})),
    ["Connecting", "Connected", "No connection", "Signed out"],
  );
  assert.equal(connectionText("live", {}, "http"), "Connected, without a WebSocket");
  assert.equal(endText(null, 10), "");
  assert.equal(endText(70, 10), "The server is about to end in 1 min 0 s. No new turns can begin.");
  assert.equal(endText(9, 10), "The server is about to end. No new turns can begin.");
});

test("what was interrupted ends where its record ends", () => {
  const segment = { kind: "running", from: 1, to: null, note: "" };
  assert.match(segmentText(segment, 0, 3), /until now$/);
  assert.match(segmentText(segment, 0, 3, true), /to 0:03\.00$/);
  const row = { kind: "call", name: "bash", from: 1, to: null, segments: [segment], marks: [], ending: null, outcome: null, facts: {} };
  assert.equal(tableCells(row, 0, 3)[1], stateOf(row));
  assert.equal(tableCells(row, 0, 3, true)[1], "interrupted");
});

test("states of a call have a shape and words of their own", () => {
  const settled = (settlement) => callState({ settlement });
  const states = [
    settled({ status: "completed" }),
    settled({ status: "error" }),
    settled({ status: "denied" }),
    settled({ status: "aborted", reason: "cancelled" }),
    settled({ status: "aborted", outcome_unknown: true }),
    callState({ state: "queued" }),
    callState({ state: "running" }),
    callState({ state: "running" }, { isWaiting: true }),
    callState({ state: "running" }, { isStopped: true }),
  ];
  areDistinct(states.map(({ text }) => text));
  areDistinct(states.map(({ icon }) => shapeOf(icon)));
});

test("each bar of the lanes has a colour, a pattern and a letter", () => {
  const css = pageFile("lanes/lanes.css");
  const tiles = new Map(patternNodes("x").map(({ key, children }) => [key, children[0].attrs.d]));
  // Drawn as an outline, as a thin line, or left plain, which is a pattern as long as it is the only one.
  const drawn = { queued: "dashes around it", settled: "a thin line", running: "plain" };
  const bars = Object.keys(STATES).filter((look) => look !== "turn");
  for (const looks of [bars, Object.keys(OUTCOMES)]) {
    for (const look of looks) assert.match(css, new RegExp(`^\\.lanes-is-${look}\\b|, \\.lanes-is-${look}\\b`, "m"));
    const letters = looks.map((look) => (STATES[look] ?? OUTCOMES[look])[0]);
    assert.ok(letters.every((letter) => letter.length === 1), `${letters}`);
    areDistinct(letters);
    const patterns = looks.map((look) => tiles.get(look) ?? drawn[look] ?? assert.fail(`${look} has no pattern`));
    // Both wait for a person.
    areDistinct(patterns.filter((_, index) => looks[index] !== "question"));
  }
  areDistinct(Object.values(MARKS).map(([sign]) => sign));
});

const CODE = {
  "a.py": ["return 'a' + 10 # end", "keyword return, string 'a', number 10, comment # end"],
  "a.ts": ["const a = `b` + 0x1f; // end", "keyword const, string `b`, number 0x1f, comment // end"],
  "run.sh": ["if test 'a' = 1; then x # end", "keyword if, string 'a', number 1, keyword then, comment # end"],
  "a.json": ['{"a": 1.5, "b": true}', 'string "a", number 1.5, string "b", keyword true'],
  "a.rs": ['let a = "b"; 1_000 // end', 'keyword let, string "b", number 1_000, comment // end'],
  "a.go": ["return `b`, 2 // end", "keyword return, string `b`, number 2, comment // end"],
  "a.cpp": ['return "b"; /* end */ 3', 'keyword return, string "b", comment /* end */, number 3'],
  "A.java": ['final a = "b"; // end', 'keyword final, string "b", comment // end'],
  "a.yml": ['a: true # "end"', 'keyword true, comment # "end"'],
  "a.sql": ["SELECT 'it''s' -- end", "keyword SELECT, string 'it''s', comment -- end"],
};

for (const [name, [code, colours]] of Object.entries(CODE))
  test(`${name} has its colours`, () => {
    const pieces = lex(code, languageOf(name));
    assert.equal(pieces.map(([, text]) => text).join(""), code);
    assert.equal(pieces.filter(([kind]) => kind).map(([kind, text]) => `${kind} ${text}`).join(", "), colours);
  });

test("what is too large gets no colours", () => {
  assert.equal(lex("1 ".repeat(40_000), "python"), null);
});

test("words are compared in lines of at most 2,000 of them, and shown beside each other from 900 pixels on", () => {
  const marksOf = (words) => {
    const line = "x ".repeat(words / 2 - 1);
    const [{ rows }] = parseDiff(`--- a/x\n+++ b/x\n@@ -1 +1 @@\n-${line}a \n+${line}b \n`);
    return rows.flatMap(({ pieces = [] }) => pieces).filter(([isChanged]) => isChanged).map(([, text]) => text);
  };
  assert.deepEqual([marksOf(1000), marksOf(1002)], [["a", "b"], []]);
  assert.equal(WIDE, 900);
});
