// An editor made with the package `@agentclientprotocol/sdk`, as a program: it starts the agent that its arguments name, drives
// it through a conversation, and prints what it has seen as JSON. The first argument is a file for every byte of the agent.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";

import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [recording, command, ...words] = process.argv.slice(2);
const cwd = process.cwd();
const agent = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.on("exit", resolve));
agent.stdout.pipe(createWriteStream(recording));
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

const updates = [];
const asked = [];
const forms = [];
const files = [];
const held = new Map();
let text = "";
let heard = () => {};

const editor = client({ name: "node-editor" })
  .onNotification(methods.client.session.update, ({ params }) => {
    updates.push({ session: params.sessionId, ...params.update });
    if (params.update.sessionUpdate === "agent_message_chunk") text += params.update.content.text;
    heard();
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest(methods.client.elicitation.create, ({ params }) => {
    forms.push(params.message);
    return { action: "decline" };
  })
  .onRequest(methods.client.fs.readTextFile, async ({ params }) => {
    files.push("read");
    return { content: held.get(params.path) ?? (await readFile(params.path, "utf8")) };
  })
  .onRequest(methods.client.fs.writeTextFile, async ({ params }) => {
    files.push("write");
    held.set(params.path, params.content);
    await writeFile(params.path, params.content);
    return {};
  });

const failure = (promise) => promise.then(() => 0, (error) => error.code);
const words_of = (prompt) => [{ type: "text", text: prompt }];

const seen = await editor.connectWith(stream, async (context) => {
  const { session } = methods.agent;
  const started = await context.request(methods.agent.initialize, {
    protocolVersion: 1,
    clientInfo: { name: "node-editor", version: "1" },
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      elicitation: { form: {} },
      session: { notices: {}, compaction: {} },
    },
  });
  const { sessionId } = await context.request(session.new, { cwd, mcpServers: [] });
  const path = join(cwd, "a.txt");
  await writeFile(path, "on disk\n");
  held.set(path, "in the editor\n");
  const first = await context.request(session.prompt, { sessionId, prompt: words_of("rewrite") });
  const asking = await context.request(session.new, { cwd, mcpServers: [] });
  const question = await context.request(session.prompt, { sessionId: asking.sessionId, prompt: words_of("ask") });

  const stopped = [];
  for (const how of ["session/cancel", "$/cancel_request"]) {
    const other = await context.request(session.new, { cwd, mcpServers: [] });
    const controller = new AbortController();
    const from = text.length;
    const begun = new Promise((resolve) => {
      heard = () => text.slice(from).includes("word") && resolve(null);
    });
    const options = { cancellationSignal: controller.signal };
    const prompt = context.request(session.prompt, { sessionId: other.sessionId, prompt: words_of("slow") }, options);
    await begun;
    if (how === "session/cancel") await context.notify(session.cancel, { sessionId: other.sessionId });
    else controller.abort();
    stopped.push((await prompt).stopReason);
  }
  const count = updates.length;
  await context.request(session.close, { sessionId });
  await context.request(session.load, { sessionId, cwd, mcpServers: [] });
  const listed = await context.request(session.list, {});
  return {
    protocol: started.protocolVersion,
    stop_reasons: [first.stopReason, question.stopReason, ...stopped],
    replayed: updates.slice(count).map((update) => update.sessionUpdate),
    updates: [...new Set(updates.slice(0, count).map((update) => update.sessionUpdate))].sort(),
    asked,
    forms,
    files,
    sessions: listed.sessions.map((row) => row.title),
    errors: [
      await failure(context.request(session.load, { sessionId: "ses_none", cwd, mcpServers: [] })),
      await failure(context.request(session.new, { cwd: "relative", mcpServers: [] })),
      await failure(context.request("session/fork", { sessionId, cwd, mcpServers: [] })),
    ],
  };
});
agent.stdin.end();
process.stdout.write(JSON.stringify({ ...seen, exit: await exited }));
