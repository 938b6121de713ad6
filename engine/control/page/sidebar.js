// The list of sessions: what waits for a person first, then what runs, then the rest by age.

import { h, reconcile, replace, setText } from "./dom.js";
import { age, cost, dateTime, shortPath } from "./formats.js";
import { icon } from "./icons.js";
import { oneLine, visible } from "./text.js";
import { button, dialog, problem } from "./widgets.js";
import { endOf, statusText } from "./words.js";

const PAGE = 100;
const SEARCH_MS = 250;
const ENDS = { good: "", neutral: "Stopped", bad: "Failed" };

/** The list, its search, and the button for a new session. */
export class Sidebar {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.next = null;
    this.hits = null;
    this.#build();
  }

  #build() {
    this.search = h("input", { type: "search", class: "search", placeholder: "Search messages", "aria-label": "Search sessions", autocomplete: "off" });
    this.search.addEventListener("input", () => {
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.#search(), SEARCH_MS);
    });
    this.list = h("div", { class: "session-list" });
    this.more = button("Show older sessions", { kind: "quiet more", onClick: () => this.#older() });
    this.more.hidden = true;
    this.create = button("New session", { icon: "plus", kind: "primary", onClick: () => this.newSession() });
    this.foot = h("div", { class: "connection", role: "status" });
    this.node = h(
      "nav",
      { class: "sidebar", "aria-label": "Sessions" },
      h("div", { class: "sidebar-head" }, h("p", { class: "brand" }, "engine"), button("Settings", { icon: "settings", iconOnly: true, kind: "quiet", onClick: () => this.app.showSettings() })),
      h("div", { class: "sidebar-tools" }, this.create, h("label", { class: "search-box" }, icon("search"), this.search)),
      this.list,
      this.more,
      this.foot,
    );
  }

  /** Take what the server says of the list. */
  take({ rows, removed, isReset, next }) {
    if (isReset) {
      this.rows.clear();
      this.next = next;
    }
    for (const entry of rows) this.rows.set(entry.row.id, entry);
    for (const id of removed) this.rows.delete(id);
    this.isLoaded = true;
    this.update();
  }

  /** Take a newer row of a session, also of one that the list has not shown yet. */
  replace(row) {
    if (row.parent_id === null) this.rows.set(row.id, { waiting: 0, waiting_since: null, ...this.rows.get(row.id), row });
    this.update();
  }

  async #older() {
    try {
      const { rows, next } = await this.app.client.call("session.list", { limit: PAGE, before: this.next });
      this.next = next;
      for (const row of rows) if (!this.rows.has(row.id)) this.rows.set(row.id, { row, waiting: 0, waiting_since: null });
      this.update();
    } catch (error) {
      this.app.say(error.message);
    }
  }

  async #search() {
    const words = this.search.value.trim();
    if (!words) {
      this.hits = null;
      return this.update();
    }
    try {
      const { hits } = await this.app.client.call("session.search", { words, limit: 50 });
      if (words !== this.search.value.trim()) return undefined;
      this.hits = hits;
    } catch (error) {
      this.hits = [];
      this.app.say(error.message);
    }
    return this.update();
  }

  /** Return the rows in groups, each with a heading. @returns {any} */
  #groups() {
    const now = this.app.now();
    const entries = [...this.rows.values()].sort((a, b) => b.row.updated - a.row.updated);
    const waiting = entries.filter((entry) => isWaiting(entry)).sort((a, b) => (a.waiting_since ?? 0) - (b.waiting_since ?? 0));
    const running = entries.filter((entry) => !isWaiting(entry) && entry.row.status === "busy");
    const rest = entries.filter((entry) => !isWaiting(entry) && entry.row.status !== "busy");
    const midnight = new Date(now * 1000).setHours(0, 0, 0, 0) / 1000;
    return [
      ["Waits for you", waiting],
      ["Working", running],
      ["Today", rest.filter((entry) => entry.row.updated >= midnight)],
      ["This week", rest.filter((entry) => entry.row.updated < midnight && entry.row.updated >= midnight - 6 * 86_400)],
      ["Older", rest.filter((entry) => entry.row.updated < midnight - 6 * 86_400)],
    ].filter(([, group]) => group.length);
  }

  update() {
    this.more.hidden = !this.next || this.hits !== null;
    this.create.disabled = !this.app.isLive() || this.app.role !== "full";
    if (this.hits) return this.#drawHits();
    const groups = this.#groups();
    if (!groups.length) {
      this.list.replaceChildren(h("p", { class: "hint empty" }, this.isLoaded ? "No sessions yet." : "Loading sessions"));
      return undefined;
    }
    const names = new Map(groups);
    for (const child of [...this.list.children]) if (!child.dataset.key) child.remove();
    reconcile(
      this.list,
      groups.map(([name]) => name),
      (name) => h("section", { class: "group", "aria-label": name }, h("h2", { class: "group-name" }, name), h("ul", {})),
      (node, name) => {
        const entries = names.get(name);
        reconcile(
          node.lastChild,
          entries.map((entry) => entry.row.id),
          (id) => new SessionRow(id).node,
          (item, id) => item.view.update(this.rows.get(id), this.app),
        );
      },
    );
    return undefined;
  }

  #drawHits() {
    const nodes = this.hits.map(({ session, snippet, time }) =>
      h(
        "li",
        {},
        h(
          "a",
          { class: "session-row", href: `#/s/${session.id}` },
          h("span", { class: "session-row-line" }, h("span", { class: "session-row-title" }, oneLine(session.title || "New session", 80)), h("span", { class: "session-row-age" }, age(time, this.app.now()))),
          h("span", { class: "session-row-snippet" }, ...snippetNodes(snippet)),
        ),
      ),
    );
    const title = nodes.length ? `${nodes.length} found` : "Nothing was found";
    this.list.replaceChildren(h("section", { class: "group" }, h("h2", { class: "group-name" }, title), h("ul", {}, ...nodes)));
  }

  /** Ask for a folder, and make a session there. */
  async newSession() {
    if (this.create.disabled) return;
    const folders = [...new Set([...this.rows.values()].sort((a, b) => b.row.updated - a.row.updated).map((entry) => entry.row.cwd))].slice(0, 8);
    const field = h("input", { type: "text", "aria-label": "Folder", placeholder: "/home/you/project", value: folders[0] ?? "", autocomplete: "off", spellcheck: "false", class: "mono" });
    const failure = h("div", {});
    await dialog("New session", (close) => {
      const make = async (cwd) => {
        if (!cwd) return field.focus();
        try {
          const session = await this.app.client.createSession({ cwd });
          close();
          return this.app.open(session.id);
        } catch (error) {
          return replace(failure, problem(error.message));
        }
      };
      field.addEventListener("keydown", (event) => event.key === "Enter" && !event.isComposing && make(field.value.trim()));
      const recent = folders.map((folder) => button(visible(shortPath(folder)), { icon: "folder", kind: "quiet", title: visible(folder), onClick: () => make(folder) }));
      return [
        h("label", { class: "field" }, "Folder, on the server's machine", field),
        failure,
        recent.length ? h("div", { class: "recent" }, h("p", { class: "hint" }, "Or one that was used before:"), ...recent) : "",
        h("div", { class: "dialog-actions" }, button("Cancel", { onClick: () => close() }), button("Create", { kind: "primary", onClick: () => make(field.value.trim()) })),
      ];
    });
  }
}

const isWaiting = ({ row, waiting }) => waiting > 0 || row.status === "waiting";

function snippetNodes(snippet) {
  // The server puts each match between these two.
  return snippet.split("\ue000").flatMap((piece, index) => {
    if (!index) return [oneLine(piece, 200)];
    const [match, rest = ""] = piece.split("\ue001");
    return [h("mark", {}, visible(match)), visible(rest)];
  });
}

class SessionRow {
  constructor(id) {
    this.title = h("span", { class: "session-row-title" });
    this.age = h("span", { class: "session-row-age" });
    this.facts = h("span", { class: "session-row-facts" });
    this.mark = h("span", { class: "session-row-mark" });
    this.link = h(
      "a",
      { class: "session-row", href: `#/s/${id}` },
      h("span", { class: "session-row-line" }, this.mark, this.title, this.age),
      this.facts,
    );
    this.node = h("li", {}, this.link);
    this.node.view = this;
  }

  update(entry, app) {
    const { row } = entry;
    const now = app.now();
    const status = isWaiting(entry) ? { type: "waiting", request_ids: new Array(Math.max(1, entry.waiting)) } : { type: row.status };
    const state = statusText(status, { now, row });
    if (this.key !== state.key) {
      this.key = state.key;
      replace(this.mark, icon(state.icon));
      this.link.className = `session-row is-${state.key}`;
    }
    setText(this.title, oneLine(row.title || "New session", 100));
    setText(this.age, age(row.updated, now));
    this.age.title = dateTime(row.updated);
    const word = state.key === "idle" ? (row.stop_reason ? ENDS[endOf(row).tone] : "") : state.text;
    const since = isWaiting(entry) && entry.waiting_since ? `for ${age(entry.waiting_since, now).replace("now", "a moment")}` : "";
    setText(this.facts, [word, since, visible(shortPath(row.cwd)), cost(row.cost)].filter(Boolean).join(" · "));
    this.facts.title = visible(row.cwd);
    if (app.openId === row.id) this.link.setAttribute("aria-current", "page");
    else this.link.removeAttribute("aria-current");
  }
}
