// A panel for one session, as text: it prompts, answers what is asked, and shows what the model has said.
import { connect, emptyFamily, foldFamily, openQuestions } from "../../engine/control/page/client/engine-client.js";

const [url, token] = process.argv.slice(2);
const onState = (state, { why }) => why && console.log(`${state}: ${why}`);
const client = await connect({ url, token, name: "panel", onState });
const session = await client.createSession({ cwd: process.cwd() });
const { turn_id } = await session.prompt("Delete the old files.");

let family = emptyFamily(session.id);
const shown = new Set();
for await (const item of session.watch()) {
  family = foldFamily(family, item);
  for (const asked of openQuestions(family).filter(({ request_id }) => !shown.has(request_id))) {
    shown.add(asked.request_id);
    console.log(`asked: may ${asked.tool} run?`);
    await session.reply(asked.request_id, { answer: "once" });
  }
  if (family.sessions[session.id]?.state.turns) break; // the turn has ended
}
const { state } = family.sessions[session.id];
for (const message of state.transcript) for (const part of message.parts ?? []) console.log(message.type, part.text ?? part.tool);
console.log("ended:", (await session.wait(turn_id)).stop_reason);
client.close();
