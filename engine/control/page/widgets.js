// Small parts that all views are made of.

import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { visible } from "./text.js";

/**
 * A button. `label` is its text, and its name where only an icon is shown.
 * @param {string} label @param {Record<string, any>} [options]
 */
export function button(label, { icon: name, kind = "", onClick, iconOnly = false, title, key, ...attributes } = {}) {
  const shown = [name && icon(name), !iconOnly && h("span", {}, label)];
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}${iconOnly ? " icon-only" : ""}`.trim(),
      title: title ?? (key ? `${label} (${key})` : iconOnly ? label : null),
      "aria-label": iconOnly ? label : null,
      "aria-keyshortcuts": key ?? null,
      on: onClick ? { click: onClick } : {},
      ...attributes,
    },
    ...shown,
  );
}

/** Run *task* when the browser draws next, once, however often this is called before. */
export function onNextFrame(task) {
  let timer = null;
  const run = () => {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    task();
  };
  return () => {
    if (timer !== null) return;
    // Frames are not drawn in a tab that is not seen, but its title and its announcements go on.
    timer = setTimeout(run, 250);
    requestAnimationFrame(run);
  };
}

const RELOADED = "engine.reloaded";
const RELOAD_MS = 60_000;

/**
 * Load a part of the page. If the server was updated since the page was loaded, it has other files: then all of it is loaded
 * again, once. What was written is kept, and so is the sign-in.
 * @template T @param {() => Promise<T>} load @returns {Promise<T>}
 */
export async function loadPart(load) {
  try {
    return await load();
  } catch (error) {
    if (Date.now() - Number(sessionStorage.getItem(RELOADED)) < RELOAD_MS) throw new Error(`The page has to be loaded again: ${error.message}`);
    sessionStorage.setItem(RELOADED, String(Date.now()));
    location.reload();
    return new Promise(() => {});
  }
}

/** Run *task* when the browser has nothing else to do. */
export function whenIdle(task) {
  if (globalThis.requestIdleCallback) requestIdleCallback(task, { timeout: 2000 });
  else setTimeout(task, 50);
}

/** Show a dialog until it is closed; return what `close` was called with. */
export function dialog(title, build, { kind = "" } = {}) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: "dialog-title" }, title);
    const node = h("dialog", { class: `dialog ${kind}`.trim(), "aria-labelledby": "dialog-title" });
    const close = (result) => {
      resolve(result);
      node.close();
    };
    node.append(heading, ...build(close));
    node.addEventListener("close", () => {
      resolve(undefined);
      node.remove();
    });
    node.addEventListener("click", (event) => event.target === node && node.close());
    document.body.append(node);
    node.showModal();
  });
}

/** Ask whether to do something that can't be taken back. */
export function confirm(title, text, action) {
  return dialog(title, (close) => [
    h("p", {}, text),
    h(
      "div",
      { class: "dialog-actions" },
      button("Cancel", { onClick: () => close(false) }),
      button(action, { kind: "danger", onClick: () => close(true) }),
    ),
  ]);
}

const announcer = () => document.getElementById("status-line");

/** Tell screen readers, once what they say now is over. */
export function announce(text) {
  const line = announcer();
  if (!line) return;
  // The same words again would not be a change.
  replace(line, h("span", {}, visible(text)));
}

/** Copy *text* as it is shown. A second button offers the raw text, where that differs. */
export function copyButton(raw, label = "Copy") {
  const copy = async (node, text, done) => {
    try {
      await navigator.clipboard.writeText(text);
      replace(node, icon("done"), h("span", {}, done));
    } catch {
      replace(node, icon("failed"), h("span", {}, "The browser refused"));
    }
    announce(node.textContent);
    setTimeout(() => replace(node, icon("copy"), h("span", {}, label)), 2000);
  };
  const node = button(label, { icon: "copy", kind: "quiet small" });
  node.addEventListener("click", () => {
    const text = raw();
    const safe = visible(text);
    copy(node, safe, "Copied");
    if (safe !== text.replaceAll("\r", "") && !node.nextElementSibling?.matches(".copy-raw")) {
      const second = button("Copy raw, with hidden characters", { icon: "warning", kind: "quiet small copy-raw" });
      second.addEventListener("click", () => copy(second, raw(), "Copied raw"));
      node.after(second);
    }
  });
  return node;
}

/** A message about something that failed, with what can be done about it. */
export function problem(text, ...actions) {
  return h("div", { class: "problem", role: "alert" }, icon("warning"), h("span", {}, visible(text)), ...actions);
}

/** A bar that is filled by *share*, from 0 to 1. What it shows stands beside it in words. */
export function shareBar(share, className = "") {
  const inner = h("span", { class: "bar-share" });
  inner.style.width = `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;
  return h("span", { class: `bar ${className}`.trim(), "aria-hidden": "true" }, inner);
}
