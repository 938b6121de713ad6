// The log of the page, from what a stream yields, and what it asks the server for.
import assert from "node:assert/strict";
import test from "node:test";
import { SessionLog } from "../../engine/control/page/session-log.js";

const head = { seq: 9, status: { type: "idle" }, turn: null, parked: false, asked: [], ending: null, queue: [], clients: [] };
const state = (id, seq) => ({ session_id: id, seq, transcript: [], inbox: [], turn: null, undone: [], background: [], prompt: null });
const member = (id, seq, call_id = null) => ({ state: state(id, seq), messages: 0, depth: call_id ? 1 : 0, call_id });
const event = (id, seq, text = "") => ({
  ...{ type: "notice", v: 1, session_id: id, turn_id: null, path: id === "root" ? ["root"] : ["root", id], time: 1, seq },
  ...{ level: "info", code: "c", text },
});
const elided = (id, seq) => ({ type: "elided", of: "notice", seq, bytes: 300_000, href: `v1/sessions/${id}/events?after=${seq - 1}&limit=1` });

/** A log that has read *items*, of a server whose sessions have *stored* events. */
async function follow(items, stored) {
  const asked = [];
  const client = {
    call: async (method, { session_id, after, limit }) => {
      asked.push([method, session_id, after]);
      const events = stored[session_id].filter(({ seq }) => seq > after);
      return { events: events.slice(0, limit), more: events.length > limit };
    },
  };
  const watched = [];
  const session = {
    id: "root",
    client,
    watch: async function* (options) {
      watched.push(options);
      yield* items;
    },
  };
  const log = new SessionLog(session, { onChange: () => {}, onAdmitted: () => {} });
  await log.run();
  return { log, asked, watched };
}

const numbers = (log, id) => log.events.get(id)?.map(({ seq }) => seq);
const snapshot = (...sessions) => ({ type: "resync", snapshot: { position: "p", sessions, asked: [], messages: [], older: null } });
const stored = { root: [1, 2, 3, 4, 5].map((seq) => event("root", seq, `root ${seq}`)), child: [1, 2, 3].map((seq) => event("child", seq, `child ${seq}`)) };

test("large events come by reference", async () => {
  const { watched } = await follow([], stored);
  assert.equal(watched[0].elide, 256 * 1024);
});

test("a left-out event of a sub-agent is not the session's", async () => {
  const items = [snapshot(member("root", 3), member("child", 2, "call")), { type: "head", head }, elided("child", 3), event("root", 4)];
  const { log } = await follow(items, stored);
  assert.deepEqual([numbers(log, "root"), numbers(log, "child")], [[1, 2, 3, 4], [1, 2, 3]]);
  await log.loadElided(log.events.get("child").at(-1));
  assert.equal(log.events.get("child").at(-1).text, "child 3");
});

test("a snapshot that comes again adds only what was missed", async () => {
  const items = [snapshot(member("root", 2)), { type: "head", head }, event("root", 3), snapshot(member("root", 5))];
  const { log, asked } = await follow(items, stored);
  assert.deepEqual(numbers(log, "root"), [1, 2, 3, 4, 5]);
  assert.deepEqual(asked, [["events", "root", 0], ["events", "root", 3]]);
});

test("a left-out event without a number is left out", async () => {
  const { log } = await follow([snapshot(member("root", 2)), { ...elided("root", 3), seq: null, href: "" }], stored);
  assert.deepEqual(numbers(log, "root"), [1, 2]);
});
