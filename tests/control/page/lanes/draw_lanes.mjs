// What the lanes make of events, for the tests: a list of requests in JSON on standard input, their answers on standard output.
//
//   {"events": [...], "prefixes": true}   the picture, or that of each beginning of the events
//   {"events": [...], "cuts": 7}          the pictures without the first 7, 14, … events
//   {"page": "<!DOCTYPE…"}                that of the events in a trace file
//   {"events": [...], "view": {...}}      what is drawn of it in a view of that size
//   {"events": [...], "keys": [...]}      the cells that these keys lead to, one after the other
//   {"events": [...], "table": true}      the cells of the table
//   {"events": [...], "jump": "failed"}   the rows that a jump goes through
//   {"server": {...}, "loaded": [...]}    what is loaded from a server with these events, by session

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { LaneModel } from "../../../../engine/control/page/lanes/lane-model.js";
import { nextCell } from "../../../../engine/control/page/lanes/lanes-keys.js";
import { tableCells } from "../../../../engine/control/page/lanes/lanes-table.js";
import { loadRecord } from "../../../../engine/control/page/lanes/load-record.js";
import { drawScene } from "../../../../engine/control/page/lanes/scene.js";
import { longWaits, TimeScale, workSpans } from "../../../../engine/control/page/lanes/time-scale.js";
import { linesOf, targets } from "../../../../engine/control/page/lanes/visible-rows.js";

process.stdout.write(JSON.stringify(await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(answer))));

function answer({ server, loaded, events, prefixes, cuts, page, view, keys, table, jump }) {
  if (server !== undefined) return loadFrom(server, loaded);
  if (page !== undefined) return pictureOf(eventsIn(page));
  const model = new LaneModel();
  if (prefixes) return growth(events);
  if (cuts !== undefined) return events.filter((_, n) => n % cuts === 0).map((_, n) => pictureOf(events.slice(n * cuts)));
  model.feedAll(events);
  const lines = linesOf(model.roots, new Set());
  if (view !== undefined) return sceneOf(model, lines, view);
  if (keys !== undefined) return walk(lines, keys);
  if (table) return lines.map(({ row }) => tableCells(row, model.begin, model.end));
  if (jump !== undefined) return targets(jump, model.roots, model.end).map((row) => row.id);
  return copy(model.picture());
}

function pictureOf(events) {
  const model = new LaneModel();
  model.feedAll(events);
  return model.picture();
}

function growth(events) {
  const model = new LaneModel();
  const pictures = [];
  for (const event of events) if (model.feed(event)) pictures.push(copy(model.picture()));
  return pictures;
}

function copy(value) {
  return JSON.parse(JSON.stringify(value));
}

function eventsIn(html) {
  const data = JSON.parse(/<script type="application\/json" id="trace">(.*?)<\/script>/s.exec(html)[1]);
  return JSON.parse(gunzipSync(Buffer.from(data.events, "base64")).toString("utf8"));
}

function sceneOf(model, lines, { width, height, top, zoom, fold, now = model.end }) {
  const scale = new TimeScale(model.begin, now, fold ? longWaits(workSpans(model.roots), model.begin, now) : []);
  const size = { width, height, gutter: 300, rowHeight: 26, left: 0, top };
  const view = { lines, levels: 4, scale, strip: model.picture().strip, zoom, now, live: false, focus: "", ids: "test", ...size };
  return { nodes: drawScene(view), waits: scale.breaks, length: scale.length, ticks: scale.ticks(1, 0, scale.length) };
}

function walk(lines, keys) {
  let focus = `${lines[0].row.id}|label`;
  return keys.map((key) => {
    const whole = key.startsWith("Ctrl+");
    focus = nextCell(whole ? key.slice(5) : key, whole, lines, focus) ?? focus;
    return focus;
  });
}

async function loadFrom(server, loaded) {
  const ids = Object.keys(server);
  const methods = {
    events: ({ session_id: id, after, limit }) => {
      const later = server[id].filter((event) => event.seq > after);
      return { events: later.slice(0, limit), more: later.length > limit };
    },
    "session.list": ({ parent }) => ({ rows: ids.filter((id) => server[id][0].parent_id === parent).map((id) => ({ id })).reverse() }),
  };
  return loadRecord(async (method, params) => methods[method](params), ids[0], loaded);
}
