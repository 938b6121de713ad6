/** The facts of what is under the pointer or has the focus. */

import { h, replace } from "../dom.js";
import { visible } from "../text.js";
import { endingText, factsOf, labelOf, markText, segmentText } from "./lane-words.js";
import { cellsOf } from "./row-scene.js";

/**
 * @param {import("./lanes-view.js").LanesView} view
 * @param {string} key of a cell
 */
export function showDetails(view, key) {
  const line = view.lineOf(key);
  if (line === undefined || !view.view) {
    replace(view.details);
    return;
  }
  const { now, scale, isStopped } = view.view;
  const { row } = line;
  const cell = cellsOf(row).find((each) => each.key === key);
  const about = cell ? cellText(cell, scale.begin, now, isStopped) : "";
  const facts = factsOf(row, scale.begin, now, isStopped);
  // Drawn again only if it says something else: a selection in it would be lost.
  const shown = JSON.stringify([key, about, facts]);
  if (view.details.shown === shown) return;
  view.details.shown = shown;
  const pairs = facts.map(([name, value]) => h("div", { class: "lanes-fact" }, h("dt", {}, name), h("dd", {}, visible(value))));
  const open = () => view.options.onOpenCall?.(row.session, row.call);
  replace(
    view.details,
    h("h3", { class: "lanes-title" }, visible(labelOf(row))),
    about ? h("p", { class: "lanes-about" }, visible(about)) : null,
    row.call && view.options.onOpenCall ? h("button", { type: "button", class: "lanes-button", on: { click: open } }, "Open in the conversation") : null,
    h("dl", { class: "lanes-facts" }, pairs),
  );
}

function cellText(cell, origin, now, isStopped) {
  if (cell.segment) return segmentText(cell.segment, origin, now, isStopped);
  return cell.mark ? markText(cell.mark, origin) : endingText(cell.ending, origin);
}
