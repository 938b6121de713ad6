// Drives a client by commands, one line of JSON each, and writes what it answers and what comes: for tests in Python.
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { connect, emptyFamily, foldFamily, openQuestions } from "../../engine/control/page/client/engine-client.js";

/** What a proxy that knows no WebSockets makes of them. */
class BrokenSocket {
  constructor() {
    setTimeout(() => this.onclose({ code: 1006, reason: "" }));
  }
  close() {}
}

// Of each connection, and of each request over HTTP.
let sockets = 0;

/** Reports the messages of the protocol that go over HTTP: in the body of a request, in its answer, in a stream. */
async function reportingFetch(address, options) {
  const response = await fetch(address, options);
  const path = new URL(address).pathname;
  const isStream = path.endsWith("/stream");
  if (!response.ok || !(isStream || path.endsWith("/v1/rpc"))) return response;
  const socket = ++sockets;
  if (!isStream) {
    const text = await response.text();
    say({ socket, is_sent: true, text: options.body });
    say({ socket, is_sent: false, text });
    return new Response(text, response);
  }
  const [ours, theirs] = response.body.tee();
  reportStream(socket, ours).catch(() => {}); // the client sees how it has ended
  return new Response(theirs, response);
}

async function reportStream(socket, body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ")) say({ socket, is_sent: false, text: line.slice(6) });
  }
}

/** A WebSocket that reports what goes over it, to be compared with the schema. */
class ReportingSocket extends WebSocket {
  constructor(...args) {
    super(...args);
    this.number = ++sockets;
    this.addEventListener("message", ({ data }) => say({ socket: this.number, is_sent: false, text: String(data) }));
  }

  send(text, ...rest) {
    if (this.readyState === WebSocket.OPEN) say({ socket: this.number, is_sent: true, text });
    super.send(text, ...rest);
  }
}

const SOCKETS = { broken: { WebSocket: BrokenSocket }, none: {} };
const say = (message) => console.log(JSON.stringify(message));
const families = new Map();
const streams = new Map();
let client;

const commands = {
  async connect({ sockets: kind, ...options }) {
    const onState = (state, details) => say({ state, details });
    const onNote = (method, params) => say({ note: method, params });
    client = await connect({ ...options, fetch: reportingFetch, ...(SOCKETS[kind] ?? { WebSocket: ReportingSocket }), onState, onNote });
    return { key: client.key, role: client.server.role, transport: client.transport };
  },
  call: ({ method, params }) => client.call(method, params),
  session: ({ id, method, args }) => client.session(id)[method](...args),
  async watch({ id, options, name = id }) {
    families.set(name, emptyFamily(id));
    const stream = client.session(id).watch(options);
    streams.set(name, stream);
    read(name, stream, (item) => families.set(name, foldFamily(families.get(name), item)));
  },
  async list({ options }) {
    const stream = client.watch(options);
    streams.set("list", stream);
    read("list", stream, () => {});
  },
  async end({ name }) {
    await streams.get(name).return();
  },
  async look({ name }) {
    const { sessions, head } = families.get(name);
    const questions = openQuestions(families.get(name)).map((each) => each.request_id);
    return { sessions, head, questions, position: streams.get(name).position };
  },
  async counts() {
    return { healed: client.healed, unknown: client.unknown };
  },
  upload: async ({ text, name }) => client.upload(new TextEncoder().encode(text), name),
  check: () => client.check(),
  async close() {
    client.close();
  },
};

async function read(name, stream, take) {
  try {
    for await (const item of stream) {
      take(item);
      say({ stream: name, item });
    }
    say({ stream: name, end: null });
  } catch (error) {
    say({ stream: name, end: error.kind ?? String(error) });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...rest } = JSON.parse(line);
  Promise.resolve()
    .then(() => commands[command](rest))
    .then(
      (result) => say({ number, result: result ?? null }),
      ({ kind, code, message, data, stack }) => say({ number, error: { kind, code, message, data, stack } }),
    );
}
process.exit(0);
