/** The buttons above the picture, and the legend below it. */

import { h, s } from "../dom.js";
import { oneLine } from "../text.js";
import { labelOf, MARKS, OUTCOMES, STATES } from "./lane-words.js";
import { targets } from "./visible-rows.js";

/** @type {["running" | "failed" | "slowest" | "ended", string, string][]} */
const JUMPS = [
  ["running", "Running", "r"],
  ["failed", "Failed", "e"],
  ["slowest", "Slowest", "s"],
  ["ended", "Early end", "c"],
];

/** Milliseconds between two looks at what there is to go to. */
const PACE = 250;

/** @param {import("./lanes-view.js").LanesView} view */
export function makeToolbar(view) {
  const button = (text, title, act, pressed) => {
    const attrs = { type: "button", class: "lanes-button", title, on: { click: act } };
    return h("button", pressed === undefined ? attrs : { ...attrs, "aria-pressed": String(pressed) }, text);
  };
  const turns = h("select", { class: "lanes-select", "aria-label": "Turns that are shown", on: { change: () => view.setScope(turns.value) } });
  const follow = button("Follow", "Keep the present in view (f)", () => view.setFollow(!view.follow), true);
  const waits = button("Fold waits", "Draw at most 5 seconds of a wait (w)", () => view.setFoldWaits(!view.foldWaits), true);
  const steps = button("Fold steps", "Show a step and its calls as one line", () => view.toggleFolds("step"));
  const agents = button("Fold agents", "Show sub-agents as one line", () => view.toggleFolds("call"));
  const table = button("Table", "The same facts as a table", () => view.setTable(!view.asTable), false);
  const jumps = JUMPS.map(([kind, text, key]) => [kind, button(text, `Go to the next one (${key})`, () => view.jump(kind))]);
  const zooms = [
    button("−", "Show more time (-)", () => view.zoomBy(1 / 1.6)),
    button("+", "Show less time (+)", () => view.zoomBy(1.6)),
    button("Fit", "Show all of it (0)", () => view.fit()),
  ];
  zooms[0].setAttribute("aria-label", "Zoom out");
  zooms[1].setAttribute("aria-label", "Zoom in");
  const root = h(
    "div",
    { class: "lanes-toolbar", role: "toolbar", "aria-label": "Lanes" },
    turns,
    h("span", { class: "lanes-group" }, zooms),
    h("span", { class: "lanes-group" }, follow, waits, steps, agents),
    h("span", { class: "lanes-group" }, h("span", { class: "lanes-hint" }, "Go to"), jumps.map(([, each]) => each)),
    h("span", { class: "lanes-group lanes-end" }, table),
  );
  let [drawn, drawnAt] = ["", -PACE];
  return { root, legend: makeLegend(view.ids), update };

  function update() {
    const { roots } = view.model;
    press(follow, view.follow);
    press(waits, view.foldWaits);
    press(table, view.asTable);
    follow.hidden = !view.view?.live;
    steps.hidden = view.model.rows.size < 12;
    const key = view.derived?.key;
    if (key === undefined || key === drawn) return;
    // The rest takes as long as a picture: not with each event.
    const wait = drawnAt + PACE - performance.now();
    if (wait > 0) {
      view.drawLater(wait);
      return;
    }
    [drawn, drawnAt] = [key, performance.now()];
    agents.hidden = !roots.some((row) => row.children.some((step) => step.children.some((call) => call.children.length)));
    for (const [kind, each] of jumps) each.disabled = targets(kind, view.roots(), view.view?.now ?? 0).length === 0;
    updateTurns(turns, view);
  }
}

function press(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}

function updateTurns(select, view) {
  const { roots } = view.model;
  select.hidden = roots.length < 2;
  const options = [["newest", "Newest turn"], ["all", `All ${roots.length} turns`], ...roots.map((row) => [row.id, oneLine(labelOf(row), 60)])];
  const key = options.map(([, text]) => text).join("\n");
  if (select.shown !== key) {
    select.shown = key;
    select.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
  }
  select.value = view.scope;
}

// -- the legend -----------------------------------------------------------------------------------

const NOT_DRAWN = new Set(["turn"]);

function makeLegend(ids) {
  const states = Object.entries(STATES).filter(([kind]) => !NOT_DRAWN.has(kind));
  return h(
    "details",
    { class: "lanes-legend" },
    h("summary", {}, "How to read this"),
    h(
      "div",
      { class: "lanes-legend-columns" },
      list("Bars", [...states.map(([kind, [letter, name]]) => [swatch(ids, kind, letter), name])]),
      list("Ends of calls", Object.entries(OUTCOMES).map(([key, [letter, name]]) => [swatch(ids, key, letter), name])),
      list("Marks", Object.entries(MARKS).map(([kind, [sign, name]]) => [disc(kind, sign), name])),
      list("Keys", [
        ["arrows", "along time and lanes"],
        ["+ − 0", "zoom in, out, fit"],
        ["f w", "follow, fold waits"],
        ["r e s c", "next running, failed, slowest, early end"],
        ["space", "fold or unfold"],
        ["Enter", "open in the conversation"],
      ].map(([key, name]) => [h("kbd", {}, key), name])),
    ),
    h(
      "p",
      { class: "lanes-note" },
      "A line with a cross marks the instant at which a turn was ended; the band after it is the grace in which running calls may clean up. What is red beyond the band did not stop in time. The strip below the axis shows how many calls ran at once, and in grey how many were queued.",
    ),
  );
}

function list(title, entries) {
  const rows = entries.map(([sample, name]) => h("li", {}, h("span", { class: "lanes-sample" }, sample), name));
  return h("div", {}, h("h4", {}, title), h("ul", {}, rows));
}

function swatch(ids, look, letter) {
  const thin = look === "settled";
  const shape = { x: 0, y: thin ? 7 : 1, width: 28, height: thin ? 4 : 16, rx: 3 };
  return s(
    "svg",
    { class: "lanes-swatch", width: 28, height: 18, "aria-hidden": "true" },
    s("rect", { class: `lanes-fill lanes-is-${look}`, ...shape }),
    s("rect", { class: "lanes-pattern", fill: `url(#${ids}-${look})`, ...shape }),
    thin ? null : s("text", { class: "lanes-letter", x: 4, y: 13 }, letter),
  );
}

function disc(kind, sign) {
  return s(
    "svg",
    { class: `lanes-swatch lanes-mark-${kind}`, width: 28, height: 18, "aria-hidden": "true" },
    s("circle", { class: "lanes-disc", cx: 14, cy: 9, r: 8 }),
    s("text", { class: "lanes-sign", x: 14, y: 13, "text-anchor": "middle" }, sign),
  );
}
