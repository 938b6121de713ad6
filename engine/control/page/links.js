// Links in texts of models. They are text: a click shows where they lead, and asks.

import { h } from "./dom.js";
import { visible } from "./text.js";
import { button, dialog } from "./widgets.js";

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** Return the node of a link; one that can't be opened is its text. */
export function linkNode(text, target) {
  const url = parse(target);
  if (!url) return document.createTextNode(text === target ? text : `${text} (${target})`);
  return h("button", { type: "button", class: "link", title: shown(url), on: { click: () => ask(url) } }, text);
}

function parse(target) {
  try {
    const url = new URL(target);
    if (!SCHEMES.has(url.protocol)) return null;
    // A name and a password in front of the host are there to disguise it.
    url.username = "";
    url.password = "";
    return url;
  } catch {
    return null;
  }
}

// `URL` writes names of other scripts in punycode, so that two that look the same are told apart.
const shown = (url) => visible(url.href);

async function ask(url) {
  const isOpened = await dialog("Open this link?", (close) => [
    h("p", { class: "link-host" }, url.protocol === "mailto:" ? "A message to " : "At ", h("b", {}, url.host || url.pathname)),
    h("p", { class: "link-target" }, shown(url)),
    h("p", { class: "hint" }, "A model wrote it. The page that opens learns nothing about this one."),
    h(
      "div",
      { class: "dialog-actions" },
      button("Cancel", { onClick: () => close(false) }),
      button("Open", { kind: "primary", onClick: () => close(true) }),
    ),
  ]);
  if (isOpened) window.open(url.href, "_blank", "noopener,noreferrer");
}
