// What the session waits for: cards above the composer. They never take the focus, and nothing answers by accident.

import { textBlock } from "./blocks.js";
import { diffTable, parseDiff, WIDE } from "./diff.js";
import { h, reconcile, replace, setText } from "./dom.js";
import { clock, count } from "./formats.js";
import { icon } from "./icons.js";
import { oneLine, visible, visibleForApproval } from "./text.js";
import { announce, button, problem } from "./widgets.js";
import { allowQuestion, furtherRights, mainArgument, parsed } from "./words.js";

/** For so long after a card has appeared or changed its buttons do nothing: the click was meant for something else. */
export const GUARD_MS = 400;
const ATTEND_SECONDS = 25;
const SCOPES = [
  ["session", "in this session"],
  ["turn", "in this turn"],
  ["project", "in this project, also later"],
];

/** All open questions of a session, the oldest first. */
export class Questions {
  constructor(context) {
    this.context = context;
    this.cards = new Map();
    this.node = h("section", { class: "questions", "aria-label": "Questions", hidden: true });
  }

  /** Show the open questions, and who else looks at them. */
  update(asked, clients) {
    const known = new Set(this.cards.keys());
    const hasFocus = this.node.contains(document.activeElement);
    this.node.hidden = asked.length === 0;
    reconcile(
      this.node,
      asked.map((question) => question.request_id),
      (id) => this.#card(asked.find((question) => question.request_id === id)).node,
    );
    // Else what is typed next would be taken for single keys.
    if (hasFocus && !this.node.contains(document.activeElement)) this.context.focusField();
    for (const id of known) {
      if (asked.some((question) => question.request_id === id)) continue;
      this.cards.get(id).close();
      this.cards.delete(id);
    }
    for (const [index, question] of asked.entries()) this.cards.get(question.request_id).update({ index, total: asked.length, clients });
  }

  #card(question) {
    const Card = { permission_asked: PermissionCard, question_asked: ChoiceCard, recovery_asked: RecoveryCard }[question.type];
    const card = new Card(question, this.context);
    this.cards.set(question.request_id, card);
    return card;
  }

  /** Move the focus to the next card; return whether there is one. */
  focusNext() {
    const cards = [...this.node.children];
    if (!cards.length) return false;
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    const next = cards[(at + 1) % cards.length];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    return true;
  }

  tick() {
    for (const card of this.cards.values()) card.tick();
  }

  close() {
    for (const card of this.cards.values()) card.close();
  }
}

class Card {
  constructor(question, context, heading, body) {
    this.question = question;
    this.context = context;
    this.head = h("h3", { id: `question-${question.request_id}`, class: "question-head" }, icon("waiting"), h("span", {}, heading));
    this.about = h("p", { class: "question-about" });
    this.actions = h("div", { class: "question-actions" });
    this.failure = h("div", {});
    this.node = h(
      "article",
      { class: `question question-${question.type.split("_")[0]}`, tabindex: "-1", "aria-labelledby": `question-${question.request_id}` },
      this.head,
      this.about,
      ...body,
      this.failure,
      this.actions,
    );
    this.guard();
    this.#attend();
    this.attending = setInterval(() => this.#attend(), (ATTEND_SECONDS - 5) * 1000);
    announce(`A question: ${heading} Alt Q goes there.`);
  }

  /** For a moment its buttons do nothing: it has appeared or changed, or moved to where the pointer may be. */
  guard() {
    this.shownAt = performance.now();
    this.node.classList.add("is-guarded");
    clearTimeout(this.guarding);
    this.guarding = setTimeout(() => this.node.classList.remove("is-guarded"), GUARD_MS);
  }

  /** Show others that somebody looks at it, while the page is seen. */
  #attend() {
    if (document.visibilityState !== "visible" || this.isClosed) return;
    this.context.attend(this.question.request_id, ATTEND_SECONDS);
  }

  close() {
    this.isClosed = true;
    clearInterval(this.attending);
  }

  update({ index, total, clients }) {
    const others = clients.filter((each) => each.client_id !== this.context.clientId && each.attending.includes(this.question.request_id));
    const names = [...new Set(others.map((each) => oneLine(each.name, 40) || "somebody"))];
    const parts = [];
    const place = `${index} of ${total}`;
    if (this.place && this.place !== place) this.guard();
    this.place = place;
    if (this.question.path.length > 1) parts.push(`For ${this.context.childName(this.question)}`);
    if (names.length) parts.push(`${names.join(" and ")} ${names.length === 1 ? "is" : "are"} looking at this`);
    if (this.context.live().isParked) parts.push("The turn is parked: resume it to answer");
    if (total > 1) parts.push(`${index + 1} of ${total}`);
    this.aboutText = parts;
    this.tick();
    const isDisabled = !this.context.mayAnswer();
    for (const control of this.node.querySelectorAll(".question-actions button, .question-form button, .question-form input, .question-form select")) {
      control.disabled = isDisabled;
    }
  }

  tick() {
    const { until } = this.question;
    const left = until ? [`expires at ${clock(until)}`] : [];
    const text = [...(this.aboutText ?? []), ...left].join(" · ");
    setText(this.about, text);
    this.about.hidden = !text;
  }

  /** A button that answers. Neither a click nor a key of the moment in which the card appeared does anything. */
  action(label, answer, options = {}) {
    return button(label, {
      ...options,
      onClick: () => {
        if (performance.now() - this.shownAt < GUARD_MS) return;
        this.send(answer);
      },
    });
  }

  async send(answer) {
    if (this.isSending) return;
    this.isSending = true;
    this.node.classList.add("is-sending");
    replace(this.failure);
    try {
      await answer();
    } catch (error) {
      if (error.kind !== "already_settled") replace(this.failure, problem(error.message));
    } finally {
      this.isSending = false;
      this.node.classList.remove("is-sending");
    }
  }
}

/** What a call wants to do, completely: it wraps, and says how much is not in view. */
function detailNode(question, context) {
  const call = context.callOf(question);
  const metadata = parsed(question.metadata || "");
  const diff = typeof metadata?.diff === "string" && metadata.diff ? metadata.diff : /^(---|\+\+\+|@@) /m.test(question.detail) ? question.detail : "";
  const files = diff ? parseDiff(diff) : [];
  if (files.length) {
    return files.flatMap((file) => [
      h("p", { class: "diff-path" }, visibleForApproval(file.path)),
      h("div", { class: "diff-frame question-detail", tabindex: "0", role: "group", "aria-label": "The change" }, diffTable(file, { wide: context.width() >= WIDE })),
    ]);
  }
  const text = question.detail || (call ? mainArgument(call.arguments) : "") || question.patterns.join(", ");
  const lines = text.split("\n").length;
  const size = lines > 12 || text.length > 1500 ? [h("p", { class: "hint" }, `${count(lines, "line")}, ${count(text.length, "character")}: scroll to see all of it.`)] : [];
  return [textBlock(text, { clean: visibleForApproval, className: "question-detail", label: "What it wants to do", piece: 20_000 }), ...size];
}

const MOST_FURTHER = 8;

/** What an approval gives besides; of a long list the beginning, the number of the others, and they on demand. */
function furtherNode(rights) {
  const nodes = rights.map((right) => h("code", {}, visibleForApproval(right)));
  const rest = nodes.length - MOST_FURTHER;
  const node = h("p", { class: "question-note" }, "This also allows ", ...nodes.slice(0, rest > 1 ? MOST_FURTHER : nodes.length));
  if (rest > 1) {
    const more = button(`and ${rest} more`, { kind: "quiet small", onClick: () => more.replaceWith(...nodes.slice(MOST_FURTHER)) });
    node.append(more);
  }
  return node;
}

class PermissionCard extends Card {
  constructor(question, context) {
    const further = furtherRights(question);
    super(question, context, allowQuestion(question), [
      ...detailNode(question, context),
      further.length ? furtherNode(further) : "",
      question.opaque ? h("p", { class: "question-note tone-warn" }, icon("warning"), `Cannot analyse this command: ${visible(question.opaque)}`) : "",
      question.danger && !question.opaque ? h("p", { class: "question-note tone-warn" }, icon("warning"), `Allow this deliberately: ${visible(question.danger)}`) : "",
      question.rule ? h("p", { class: "hint" }, `Asked because of ${oneLine(question.rule, 200)}`) : "",
    ]);
    this.form = h("div", { class: "question-form", hidden: true });
    this.actions.before(this.form);
    const reply = (answer) => () => context.session.reply(question.request_id, answer);
    // What is dangerous is not allowed by a click: a word is typed, each time.
    this.once = question.danger
      ? button("Allow once", { kind: "primary", onClick: () => this.#toggle("deliberate", () => this.#deliberate(reply)), "aria-expanded": "false" })
      : this.action("Allow once", reply({ answer: "once" }), { kind: "primary" });
    this.always = question.offers.length && !question.danger ? button("Always allow", { onClick: () => this.#toggle("always", () => this.#offers(reply)), "aria-expanded": "false" }) : null;
    this.instead = button("Refuse and explain", { onClick: () => this.#toggle("instead", () => this.#feedback(reply)), "aria-expanded": "false" });
    this.reject = this.action("Refuse and stop", reply({ answer: "reject" }), { kind: "danger" });
    this.actions.append(...[this.once, this.always, this.instead, this.reject].filter(Boolean));
  }

  #toggle(name, build) {
    const isOpen = this.open !== name;
    this.open = isOpen ? name : null;
    this.form.hidden = !isOpen;
    this.always?.setAttribute("aria-expanded", String(this.open === "always"));
    if (this.question.danger) this.once.setAttribute("aria-expanded", String(this.open === "deliberate"));
    this.instead.setAttribute("aria-expanded", String(this.open === "instead"));
    this.guard();
    if (!isOpen) return this.form.replaceChildren();
    this.form.replaceChildren(...build());
    this.form.querySelector("input, textarea")?.focus();
  }

  #deliberate(reply) {
    const input = h("input", { type: "text", class: "own-answer", "aria-label": "Type yes to allow it", placeholder: "Type yes to allow it", autocomplete: "off" });
    const send = () => (input.value.trim().toLowerCase() === "yes" ? reply({ answer: "once" })() : input.focus());
    return [h("div", { class: "question-line" }, input, this.action("Allow", send, { kind: "danger" }))];
  }

  #offers(reply) {
    const name = `offer-${this.question.request_id}`;
    const radios = this.question.offers.map((offer, index) => {
      const input = h("input", { type: "radio", name, value: String(index), checked: index === 0 });
      const patterns = offer.rights.map((right) => h("code", {}, `${visibleForApproval(right.permission)} ${visibleForApproval(right.pattern)}`));
      return h("label", { class: "choice" }, input, h("span", {}, visible(offer.text), h("span", { class: "choice-more" }, ...patterns)));
    });
    const scope = h("select", { "aria-label": "How far it reaches" }, ...SCOPES.map(([value, text]) => h("option", { value }, text)));
    const send = () => {
      const chosen = this.form.querySelector("input:checked");
      return reply({ answer: "always", offer: Number(chosen.value), scope: scope.value })();
    };
    return [
      h("fieldset", {}, h("legend", {}, "From now on, do not ask for"), ...radios),
      h("div", { class: "question-line" }, scope, this.action("Allow this from now on", send, { kind: "primary" })),
    ];
  }

  #feedback(reply) {
    const input = h("textarea", { rows: 2, "aria-label": "What the model should do instead", placeholder: "What should it do instead?" });
    const send = () => {
      const feedback = input.value.trim();
      if (!feedback) return input.focus();
      return reply({ answer: "reject", feedback })();
    };
    return [input, h("div", { class: "question-line" }, h("span", { class: "hint" }, "The model reads this and goes on without the call."), this.action("Refuse and send", send, { kind: "primary" }))];
  }
}

class ChoiceCard extends Card {
  constructor(question, context) {
    super(question, context, oneLine(question.question, 200), question.question.length > 200 || question.question.includes("\n") ? [h("p", { class: "question-text" }, visible(question.question))] : []);
    const name = `choice-${question.request_id}`;
    const choices = question.choices.map((choice) =>
      h(
        "label",
        { class: "choice" },
        h("input", { type: question.several ? "checkbox" : "radio", name, value: choice.label }),
        h("span", {}, visible(choice.label), choice.description ? h("span", { class: "choice-more" }, visible(choice.description)) : ""),
      ),
    );
    const own = h("input", { type: "text", class: "own-answer", "aria-label": "Your own answer", placeholder: choices.length ? "Or your own answer" : "Your answer", autocomplete: "off" });
    const form = h("div", { class: "question-form" }, choices.length ? h("fieldset", {}, h("legend", { class: "visually-hidden" }, "Answers"), ...choices) : "", own);
    this.actions.before(form);
    const answers = () => {
      const labels = [...form.querySelectorAll("input:checked")].map((input) => input.value);
      const text = own.value.trim();
      return text ? (question.several ? [...labels, text] : [text]) : labels;
    };
    const send = () => {
      const chosen = answers();
      if (!chosen.length) throw new Error("Choose an answer, or write your own.");
      return context.session.answer(question.request_id, chosen);
    };
    own.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || !own.value.trim()) return;
      event.preventDefault();
      this.send(send);
    });
    this.actions.append(this.action("Answer", send, { kind: "primary" }), this.action("Decline", () => context.session.answer(question.request_id, [])));
  }
}

class RecoveryCard extends Card {
  constructor(question, context) {
    const reset = question.reset_at ? ` The limit resets at ${clock(question.reset_at)}.` : "";
    super(question, context, `${oneLine(question.model, 80)} failed`, [h("p", { class: "question-text" }, `${visible(question.message)}${reset}`)]);
    this.form = h("div", { class: "question-form", hidden: true });
    this.actions.before(this.form);
    const recover = (answer) => () => context.session.recover(question.request_id, answer);
    const wait = question.reset_at ? `Wait until ${clock(question.reset_at)}` : "Try again";
    this.actions.append(
      this.action(wait, recover({ how: "wait" }), { kind: "primary" }),
      button("Use another model", { onClick: () => this.#models(recover), "aria-expanded": "false" }),
      this.action("Stop the turn", recover({ how: "stop" }), { kind: "danger" }),
    );
  }

  async #models(recover) {
    this.form.hidden = false;
    replace(this.form, h("p", { class: "hint" }, "Loading models"));
    try {
      const { models } = await this.context.session.client.call("model.list");
      const usable = models.filter((model) => !model.why_not && model.name !== this.question.model);
      if (!usable.length) return replace(this.form, h("p", { class: "hint" }, "No other model can be used here."));
      const select = h("select", { "aria-label": "Model" }, ...usable.map((model) => h("option", { value: model.name }, visible(model.name))));
      const send = () => recover({ how: "switch", model: select.value })();
      replace(this.form, h("div", { class: "question-line" }, select, this.action("Go on with it", send, { kind: "primary" })));
      this.guard();
      select.focus();
    } catch (error) {
      replace(this.form, problem(error.message));
    }
  }
}
