// A client made with opencode's own SDK: a whole session, with a connection that is cut in the middle of its events.
// It writes each document that the server sent, with the type that the SDK has for it, as a line of JSON.
import { createOpencodeClient } from "@opencode-ai/sdk/v2";

const [url, token, directory] = process.argv.slice(2);
const say = (type, document) => console.log(JSON.stringify({ type, document }));
const said = (type, { data, error }) => {
  if (error) throw new Error(`${type}: ${JSON.stringify(error)}`);
  if (type) say(type, data);
  return data;
};

// The SDK comes back by itself, with the id of the last event, when a connection fails.
const fetched = globalThis.fetch;
const connections = [];
globalThis.fetch = async (resource, options) => {
  const response = await fetched(resource, options);
  if (!String(resource.url ?? resource).includes("/event")) return response;
  connections.push(new Headers(options?.headers ?? resource.headers).get("last-event-id"));
  let left = connections.length <= 3 ? 3 : Infinity;
  const cut = new TransformStream({
    transform(chunk, controller) {
      if (left-- > 0) controller.enqueue(chunk);
      else controller.error(new Error("the connection is cut"));
    },
  });
  return new Response(response.body.pipeThrough(cut), response);
};

const authorization = `Basic ${btoa(`opencode:${token}`)}`;
const client = createOpencodeClient({ baseUrl: url, directory, headers: { authorization } });
said("GlobalHealthResponse", await client.global.health());
const { stream } = await client.event.subscribe({}, { sseSleepFn: async () => {} });
const idle = { wait: null };
const events = [];
const reading = (async () => {
  for await (const event of stream) {
    events.push(event);
    if (event.type !== "server.heartbeat") say("Event", event);
    if (event.type === "permission.asked") {
      const { sessionID, id } = event.properties;
      said("PermissionRespondResponse", await client.permission.respond({ sessionID, permissionID: id, response: "once" }));
    }
    if (event.type === "session.idle") idle.wait?.();
    if (event.type === "session.deleted") return;
  }
})();
while (!events.length) await new Promise((resolve) => setTimeout(resolve, 5));

const session = said("SessionCreateResponse", await client.session.create({ title: "A title" }));
const sessionID = session.id;
let ended = new Promise((resolve) => (idle.wait = resolve));
said(null, await client.session.promptAsync({ sessionID, messageID: "msg_0001", parts: [{ type: "text", text: "Go" }] }));
await ended;

ended = new Promise((resolve) => (idle.wait = resolve));
said(null, await client.session.promptAsync({ sessionID, parts: [{ type: "text", text: "Wait" }] }));
while (!events.some((event) => event.properties.part?.tool === "wait_forever" && event.properties.part.state.status === "running"))
  await new Promise((resolve) => setTimeout(resolve, 5));
said("SessionStatusResponse", await client.session.status());
said("SessionAbortResponse", await client.session.abort({ sessionID }));
await ended;

const messages = said("SessionMessagesResponses[200]", await client.session.messages({ sessionID }));
said("SessionMessageResponse", await client.session.message({ sessionID, messageID: messages[1].info.id }));
said("SessionGetResponse", await client.session.get({ sessionID }));
said("SessionListResponse", await client.session.list());
const missing = await client.session.get({ sessionID: "ses_none" });
say("NotFoundError", missing.error);
const wrong = await client.session.promptAsync({ sessionID, parts: [] });
say("InvalidRequestError & { name: string; data: unknown }", wrong.error);
said("SessionDeleteResponse", await client.session.delete({ sessionID }));
await reading;
said("InstanceDisposeResponse", await client.instance.dispose());
say(null, { connections });
process.exit(0);
