// A terminal made with xterm.js. Each line of standard input is JSON: {data} is written to it, {columns, rows} is its new
// size, and {} is answered by its lines, those of the scrollback too, with the wrapped ones joined.
import { createInterface } from "node:readline";
import headless from "@xterm/headless";

const terminal = new headless.Terminal({ cols: 100, rows: 30, scrollback: 100_000, allowProposedApi: true });

function lines() {
  const { active } = terminal.buffer;
  const found = [];
  for (let index = 0; index < active.length; index++) {
    const line = active.getLine(index);
    const isJoined = index + 1 < active.length && active.getLine(index + 1).isWrapped;
    const text = line.translateToString(!isJoined);
    if (line.isWrapped) found[found.length - 1] += text;
    else found.push(text);
  }
  return found;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { data, columns, rows } = JSON.parse(line);
  if (data !== undefined) await new Promise((done) => terminal.write(data, done));
  else if (columns !== undefined) terminal.resize(columns, rows);
  else console.log(JSON.stringify(lines()));
}
