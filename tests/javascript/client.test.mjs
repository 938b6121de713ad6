// The client against a server that misbehaves as told: what a real one does seldom, or only after a while.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";
import WebSocket, { WebSocketServer } from "ws";
import { connect, emptyFamily, foldFamily } from "../../engine/control/page/client/engine-client.js";
import { METHODS, RETRIED_CLOSE_CODES } from "../../engine/control/page/client/protocol.js";

const HEAD = { seq: 3, status: { type: "idle" }, turn: null, parked: false, asked: [], ending: null, queue: [], clients: [] };
const STATE = { session_id: "s", seq: 3, transcript: [], inbox: [], turn: null, undone: [], background: [], prompt: null };
const SNAPSHOT = { position: "p3", sessions: [{ state: STATE, messages: 0, depth: 0, call_id: null }], asked: [], messages: [], older: null };
const LOOPS = [1001, 1006, 1011, 1012, 1013, 1014, 4408, 4429];
const STOPS = [1000, 1002, 1003, 1007, 1008, 1009, 4400, 4401, 4403, 4999];

/** A server; `answers` are results by method, or functions of params and the connection. */
async function server(t, answers = {}, { heartbeat = 15, tickets = () => 200, host = "127.0.0.1" } = {}) {
  const http = createServer((request, response) => {
    request.resume();
    const status = tickets(++at.tickets);
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(status === 200 ? { ticket: "t" } : { detail: "no" }));
  });
  const sockets = new WebSocketServer({ noServer: true });
  const usual = {
    hello: { protocol: 1, heartbeat, role: "full", limits: { in_flight: 64, message_bytes: 1000 } },
    ping: { time: 1 },
    snapshot: SNAPSHOT,
    subscribe: () => ({ sub: `s${++at.subs}`, head: HEAD, mode: "live" }),
    unsubscribe: { position: "" },
  };
  const at = { tickets: 0, subs: 0, connections: [], requests: [], url: "", refusesSockets: false };
  http.on("upgrade", (request, socket, head) => {
    if (at.refusesSockets) return socket.destroy();
    sockets.handleUpgrade(request, socket, head, (connection) => {
      at.connections.push(connection);
      connection.on("message", (text) => {
        const message = JSON.parse(text);
        at.requests.push(message);
        at.wake?.();
        const answer = { ...usual, ...answers }[message.method];
        const result = typeof answer === "function" ? answer(message.params, connection) : answer;
        if (result !== undefined && message.id !== undefined) at.send(connection, { id: message.id, result });
      });
    });
  });
  at.send = (connection, message) => connection.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  at.note = (method, params) => at.send(at.connections.at(-1), { method, params });
  at.methods = () => at.requests.map(({ method }) => method);
  /** Wait until it has got so many requests of a method; return them. */
  at.until = async (method, count = 1) => {
    for (;;) {
      const found = at.requests.filter((each) => each.method === method);
      if (found.length >= count) return found;
      await new Promise((resolve) => (at.wake = resolve));
    }
  };
  http.listen(0, host);
  await once(http, "listening");
  at.url = `http://${host}:${http.address().port}/`;
  t.after(() => {
    for (const connection of at.connections) connection.terminate();
    http.closeAllConnections();
    http.close();
  });
  return at;
}

/** A client, and the states that it has shown. */
async function client(t, at, options = {}) {
  const states = [];
  const waiters = [];
  const onState = (state, details) => {
    states.push({ state, ...details });
    for (const wake of waiters.splice(0)) wake();
  };
  const made = await connect({ url: at.url, token: "t", WebSocket, transport: "websocket", onState, ...options });
  t.after(() => made.close());
  const until = async (state) => {
    while (states.at(-1)?.state !== state) await new Promise((resolve) => waiters.push(resolve));
    return states.at(-1);
  };
  return { client: made, states, until };
}

/** Make what lasts seconds last hundredths of them from now on; return for how long it was to last. */
function hasten(t) {
  const later = globalThis.setTimeout;
  const waits = [];
  globalThis.setTimeout = (task, time, ...rest) => {
    waits.push(time);
    return later(task, time / 100, ...rest);
  };
  t.after(() => (globalThis.setTimeout = later));
  return waits;
}

const event = (seq, type = "notice", more = {}) => ({ type, v: 1, session_id: "s", turn_id: null, path: ["s"], time: 1, seq, ...more });
const take = async (stream, count) => {
  const items = [];
  while (items.length < count) items.push((await stream.next()).value);
  return items;
};
const types = (items) => items.map((item) => item.type);

test("the table of close codes is the protocol's", () => {
  assert.deepEqual([...RETRIED_CLOSE_CODES], [1005, ...LOOPS].sort());
});

for (const code of LOOPS)
  test(`after ${code} it comes back`, async (t) => {
    const at = await server(t);
    const { client: made, until } = await client(t, at);
    if (code === 1006) at.connections[0].terminate();
    else at.connections[0].close(code, "for a test");
    assert.ok((await until("offline")).retryAt > Date.now() - 1000);
    await made.check();
    await until("live");
    assert.equal(at.connections.length, 2);
  });

for (const code of STOPS)
  test(`after ${code} it stops, and says why`, async (t) => {
    const at = await server(t);
    const { client: made, until } = await client(t, at);
    const stream = made.session("s").watch();
    await take(stream, 1);
    const waiting = made.call("session.list");
    at.connections[0].close(code, "for a test");
    assert.deepEqual(await until("refused"), { state: "refused", code, why: "for a test" });
    assert.deepEqual(types(await take(stream, 1)), ["offline"]);
    for (const lost of [waiting, made.call("ping"), stream.next()]) await assert.rejects(lost, { kind: "refused", code });
    await made.check();
    assert.equal(at.connections.length, 1);
  });

// The second is an address of this machine, too, but the client can't tell that.
for (const [host, most] of [["127.0.0.1", 1_500], ["127.0.0.2", 15_000]]) test(`delays to ${host} grow, and differ`, async (t) => {
  const at = await server(t, {}, { host });
  const { client: made, states, until } = await client(t, at);
  at.refusesSockets = true;
  at.connections[0].terminate();
  for (let attempt = 0; attempt < 6; attempt++) {
    await until("offline");
    const count = states.length;
    await made.check();
    while (states.length === count) await new Promise((resolve) => setImmediate(resolve));
  }
  const lost = states.filter(({ state }) => state === "offline");
  assert.deepEqual(new Set(lost.map(({ since }) => since)).size, 1, "the connection was lost once");
  for (const [attempt, { delay }] of lost.entries()) {
    const longest = Math.min(most, 500 * 2 ** attempt);
    assert.ok(delay >= longest / 2 - 1 && delay <= longest + 1, `${delay} ms after ${attempt} attempts`);
  }
});

test("a busy server is asked again", async (t) => {
  const at = await server(t, {}, { tickets: (number) => (number < 3 ? 429 : 200) });
  const { states } = await client(t, at);
  assert.deepEqual(states.map(({ state }) => state), ["offline", "offline", "live"]);
});

test("a silent connection is given up", async (t) => {
  const at = await server(t, {}, { heartbeat: 0.1 });
  const { until } = await client(t, at);
  assert.match((await until("offline")).why, /nothing came/);
  await until("live");
});

test("ticks are answered, and keep a connection", async (t) => {
  const at = await server(t);
  await client(t, at);
  at.note("tick", { time: 7, heads: {} });
  assert.deepEqual((await at.until("tock"))[0].params, { time: 7 });
});

test("a ping without an answer ends the connection", async (t) => {
  const at = await server(t, { ping: undefined });
  const { client: made, until } = await client(t, at);
  const waits = hasten(t);
  made.check();
  assert.match((await until("offline")).why, /did not answer/);
  assert.equal(waits[0], 3_000);
});

test("a hello without an answer ends the connection", async (t) => {
  const at = await server(t, { hello: undefined });
  const stop = new AbortController();
  const waits = hasten(t);
  await new Promise((resolve) => {
    const onState = (state, { why }) => state === "offline" && /did not answer/.test(why) && resolve(why);
    const options = { url: at.url, token: "t", WebSocket, transport: "websocket", onState, signal: stop.signal };
    connect(options).catch(() => {});
  });
  assert.ok(waits.includes(15_000));
  stop.abort();
});

test("events before the answer to subscribe are not lost", async (t) => {
  const subscribe = (_, connection) => {
    at.send(connection, { method: "head", params: { sub: "early", head: HEAD } });
    at.send(connection, { method: "events", params: { sub: "early", position: "p4", events: [event(4)] } });
    return { sub: "early", head: HEAD, mode: "live" };
  };
  const at = await server(t, { subscribe });
  const { client: made } = await client(t, at);
  const stream = made.session("s").watch();
  assert.deepEqual(types(await take(stream, 3)), ["resync", "head", "notice"]);
  assert.equal(stream.position, "p4");
});

test("what a stream has missed is repaired by a snapshot", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  const stream = made.session("s").watch();
  await take(stream, 1);
  await at.until("subscribe");
  await made.call("ping");
  at.note("tick", { time: 1, heads: { s1: 3 } });
  await made.call("ping");
  assert.equal(made.healed, 0);
  at.note("tick", { time: 1, heads: { s1: 5 } });
  assert.deepEqual(types(await take(stream, 1)), ["resync"]);
  assert.equal(made.healed, 1);
  assert.deepEqual((await at.until("unsubscribe"))[0].params, { sub: "s1" });
});

test("a subscription that the server has ended begins again", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  await take(made.session("s").watch(), 1);
  await at.until("subscribe");
  await made.call("ping");
  at.note("tick", { time: 1, heads: {} });
  assert.equal((await at.until("subscribe", 2))[1].params.after, "p3");
});

test("unknown events are counted, and repaired at the end of the turn", async (t) => {
  const notes = [];
  const at = await server(t);
  const { client: made } = await client(t, at, { onNote: (...note) => notes.push(note) });
  const stream = made.session("s").watch();
  await take(stream, 1);
  await at.until("subscribe");
  await made.call("ping");
  const events = [event(4, "of_the_future"), event(5, "of_the_future"), event(6, "turn_ended", { result: {} })];
  at.note("events", { sub: "s1", position: "p6", events });
  const items = await take(stream, 4);
  assert.deepEqual(types(items), ["of_the_future", "of_the_future", "turn_ended", "resync"]);
  assert.deepEqual([made.unknown, made.healed, notes], [2, 0, [["unknown", { type: "of_the_future" }]]]);
  const folded = items.slice(0, 1).reduce(foldFamily, foldFamily(emptyFamily("s"), { type: "resync", snapshot: SNAPSHOT }));
  assert.deepEqual([folded.sessions.s.isStale, folded.sessions.s.state.seq], [true, 4]);
});

test("a reader that falls behind is unsubscribed until it has read", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  const stream = made.session("s").watch();
  await take(stream, 1);
  await at.until("subscribe");
  await made.call("ping");
  for (let seq = 4; seq < 5204; seq += 100) {
    const events = Array.from({ length: 100 }, (_, index) => event(seq + index));
    at.note("events", { sub: "s1", position: `p${seq + 99}`, events });
  }
  await at.until("unsubscribe");
  const read = await take(stream, 5100);
  assert.deepEqual([read[0].seq, read.at(-1).seq], [4, 5103]);
  const rest = stream.next();
  assert.equal((await at.until("subscribe", 2))[1].params.after, "p5103");
  at.note("events", { sub: "s2", position: "p5104", events: [event(5104)] });
  assert.equal((await rest).value.seq, 5104);
});

test("requests are repeated with their key, or reported as lost", async (t) => {
  const isAnswered = { is: false };
  const prompt = () => (isAnswered.is ? { turn_id: "t", input_id: "i", seq: 4 } : undefined);
  const at = await server(t, { prompt, "session.rename": undefined, "permission.reply": undefined });
  const { client: made, until } = await client(t, at);
  const session = made.session("s");
  const prompted = session.prompt("Go");
  const renamed = session.call("session.rename", { title: "x" });
  await at.until("session.rename");
  at.connections[0].terminate();
  await assert.rejects(renamed, { kind: "lost" });
  await until("offline");
  await assert.rejects(session.reply("r", { answer: "once" }), { kind: "offline" });
  isAnswered.is = true;
  await made.check();
  assert.equal((await prompted).turn_id, "t");
  const [first, second] = await at.until("prompt", 2);
  assert.ok(first.params.key.length > 20);
  assert.deepEqual(first.params, second.params);
  assert.deepEqual(at.methods().filter((method) => method === "permission.reply"), []);
});

test("every method that needs a key gets one", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  const needing = Object.entries(METHODS).filter(([, { key }]) => key).map(([method]) => method);
  assert.ok(needing.includes("prompt") && needing.includes("session.create"));
  for (const method of needing) made.call(method, { session_id: "s" }).catch(() => {});
  for (const method of needing) assert.ok((await at.until(method))[0].params.key);
});

test("aborting takes back what only reads", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  const stop = new AbortController();
  const reading = made.call("session.list", {}, { signal: stop.signal });
  const writing = made.call("session.rename", { session_id: "s", title: "x" }, { signal: stop.signal });
  const [{ id }] = await at.until("session.list");
  stop.abort(new Error("no longer wanted"));
  for (const request of [reading, writing]) await assert.rejects(request, /no longer wanted/);
  await made.call("ping");
  assert.deepEqual(at.requests.filter(({ method }) => method === "rpc.cancel").map(({ params }) => params), [{ id }]);
  await assert.rejects(made.call("ping", {}, { signal: stop.signal }), /no longer wanted/);
});

test("ending a loop ends its subscription", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  for await (const item of made.session("s").watch()) {
    assert.equal(item.type, "resync");
    await at.until("subscribe");
    await made.call("ping");
    break;
  }
  assert.deepEqual((await at.until("unsubscribe"))[0].params, { sub: "s1" });
  const stop = new AbortController();
  const stream = made.session("s").watch({ signal: stop.signal });
  await take(stream, 1);
  stop.abort();
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
});

test("no more requests run at once than the server takes", async (t) => {
  const hello = { protocol: 1, heartbeat: 15, role: "full", limits: { in_flight: 2, message_bytes: 1000 } };
  const held = [];
  const clients = (_, connection) => void held.push(connection);
  const at = await server(t, { hello, clients });
  const { client: made } = await client(t, at);
  const all = Promise.all([1, 2, 3, 4].map(() => made.call("clients")));
  for (let answered = 0; answered < 4; answered++) {
    const requests = await at.until("clients", Math.min(4, answered + 2));
    assert.equal(requests.length, Math.min(4, answered + 2));
    at.send(at.connections[0], { id: requests[answered].id, result: { clients: [] } });
  }
  assert.equal((await all).length, 4);
});

test("closing rejects what waits, and ends streams quietly", async (t) => {
  const at = await server(t);
  const { client: made } = await client(t, at);
  const stream = made.session("s").watch();
  await take(stream, 1);
  const waiting = made.call("session.list");
  made.close();
  await assert.rejects(waiting, { kind: "closed" });
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  await assert.rejects(made.call("ping"), { kind: "closed" });
});

test("a signal ends the wait for a server that is not there", async () => {
  const stop = new AbortController();
  const onState = (state) => state === "offline" && stop.abort();
  await assert.rejects(connect({ url: "http://127.0.0.1:9/", token: "t", WebSocket, onState, signal: stop.signal }), {
    kind: "closed",
  });
});

test("a subscription that nobody wants any more is ended", async (t) => {
  const at = await server(t, { subscribe: undefined });
  const { client: made } = await client(t, at);
  const stop = new AbortController();
  await take(made.session("s").watch({ signal: stop.signal }), 1);
  const [{ id }] = await at.until("subscribe");
  stop.abort();
  at.send(at.connections[0], { id, result: { sub: "late", head: HEAD, mode: "live" } });
  assert.deepEqual((await at.until("unsubscribe"))[0].params, { sub: "late" });
});

test("a stream whose connection is lost while it begins, begins once", async (t) => {
  const isAnswered = { is: false };
  const at = await server(t, { snapshot: () => (isAnswered.is ? SNAPSHOT : undefined) });
  const { client: made, until } = await client(t, at);
  const stream = made.session("s").watch();
  const first = stream.next();
  await at.until("snapshot");
  at.connections[0].terminate();
  await until("offline");
  isAnswered.is = true;
  await made.check();
  assert.deepEqual(types([(await first).value, ...(await take(stream, 2))]), ["offline", "resync", "online"]);
  await made.call("ping");
  assert.deepEqual(at.methods().filter((method) => method === "snapshot").length, 2);
  assert.equal(at.subs, 1);
});
