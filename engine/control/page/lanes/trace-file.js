/** The page of a trace file: the lanes of the events that are in the file. */

import { h } from "../dom.js";
import { mountLanes } from "./lanes-view.js";

async function showTrace() {
  const data = JSON.parse(document.getElementById("trace")?.textContent ?? "{}");
  const bytes = Uint8Array.from(atob(data.events), (char) => char.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const events = JSON.parse(await new Response(unpacked).text());
  const view = mountLanes(document.getElementById("lanes"), { scope: "all" });
  view.feed(events);
  const { begin } = view.model;
  const facts = [];
  if (begin !== null) facts.push(`Started ${new Date(begin * 1000).toLocaleString()}`);
  if (view.model.isOpen) facts.push(`not over when this was written, ${new Date(data.at * 1000).toLocaleString()}`);
  if (data.left_out) facts.push(`the first ${data.left_out.toLocaleString("en")} events had no room and are left out`);
  document.getElementById("facts")?.append(h("span", {}, facts.join(" · ")));
}

showTrace();
