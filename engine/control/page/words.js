// What the page says about turns, calls and answers, in one place.

import { duration } from "./formats.js";
import { oneLine } from "./text.js";

// How long a turn may take to be saved after its grace, before that is called no answer.
const SAVING_SECONDS = 1;

export const STOP_REASONS = {
  completed: "Done",
  aborted: "Cancelled",
  step_limit: "Stopped at the step limit",
  token_budget: "Stopped at the token limit",
  diminishing: "Stopped: further work added little",
  cost_limit: "Stopped at the cost limit",
  deadline: "Stopped at the time limit",
  hook_stopped: "Stopped by a hook",
  stop_hook_limit: "Stopped: a hook kept sending the model back",
  blocking_limit: "Stopped: the context window is full",
  prompt_too_long: "Stopped: the request is larger than the context window",
  compaction_ineffective: "Stopped: a summary would not free enough of the window",
  output_limit: "Stopped at the output limit",
  incomplete: "The answer is incomplete",
  refusal: "The model refused",
  content_filter: "Blocked by the host's filter",
  rate_limited: "Stopped by a rate limit",
  auth_failed: "The host refused the key",
  provider_error: "The model's host failed",
  doom_loop: "Stopped: the model repeated itself",
  permission_rejected: "Stopped: you refused a permission",
  internal_error: "An error of the engine ended the turn",
};
const CALM = new Set(["completed", "diminishing"]);
const STOPPED = new Set(["aborted", "permission_rejected", "step_limit", "token_budget", "cost_limit", "deadline", "hook_stopped"]);

/** Return how a turn ended: the words, and whether that is good, neutral or bad. */
export function endOf(result, ending, ownName = "") {
  const reason = result.stop_reason;
  if (isCut(result, ending)) return { text: "Interrupted", tone: "neutral" };
  const by = reason === "aborted" && ending?.by && ending.by !== ownName ? ` by ${oneLine(ending.by, 40)}` : "";
  const during = { streaming: " while the model answered", tools: " while tools ran", waiting: " while it waited" };
  const where = reason === "aborted" ? (during[result.during] ?? "") : "";
  const tone = CALM.has(reason) ? "good" : STOPPED.has(reason) ? "neutral" : "bad";
  return { text: `${STOP_REASONS[reason] ?? reason}${by}${where}`, tone };
}

/** Whether a turn was cut off, by a crash of its engine: nobody has cancelled it. */
export const isCut = (result, ending) => result.stop_reason === "aborted" && !ending;

const ABORTS = {
  cancelled: "cancelled",
  timeout: "timed out",
  not_executed: "never ran",
};

/** Return the state of a call in a word or two, and the icon that goes with it. */
export function callState(call, { isWaiting = false, isEnding = false, isStopped = false } = {}) {
  const { settlement } = call;
  if (settlement) {
    if (settlement.reason === "interrupted_by_crash") return { text: "cut off by a crash: outcome unknown", tone: "bad", icon: "warning" };
    if (settlement.outcome_unknown) return { text: "did not stop: outcome unknown", tone: "bad", icon: "warning" };
    if (settlement.status === "aborted") return { text: ABORTS[settlement.reason] ?? "aborted", tone: "neutral", icon: "ending" };
    if (settlement.status === "denied") return { text: "not allowed", tone: "neutral", icon: "denied" };
    if (settlement.status === "error" || settlement.failed) return { text: "failed", tone: "bad", icon: "failed" };
    return { text: "", tone: "good", icon: "done" };
  }
  if (call.state === "delivered" || call.state === "settled") return { text: "its result is large, and not loaded", tone: "neutral", icon: "done" };
  if (isEnding) return { text: "stopping", tone: "warn", icon: "ending" };
  if (isWaiting) return { text: "waits for your answer", tone: "warn", icon: "waiting" };
  if (isStopped) return { text: "interrupted", tone: "neutral", icon: "interrupted" };
  if (call.state === "running") return { text: "running", tone: "accent", icon: "busy" };
  if (call.state === "queued") return { text: "queued", tone: "neutral", icon: "queued" };
  return { text: "receiving", tone: "neutral", icon: "queued" };
}

/** Return what was answered to a question, and by whom. */
export function answerText({ question, answer }) {
  const by = answer.by ? ` by ${oneLine(answer.by, 40)}` : "";
  if (question.type === "permission_asked") {
    const scope = { turn: "this turn", session: "this session", project: "this project" }[answer.scope] ?? "";
    const allowed = (answer.allowed ?? []).map((right) => oneLine(right.pattern, 80)).join(", ");
    const texts = {
      once: `Allowed once${by}`,
      always: `Allowed for ${scope}${by}${allowed ? `: ${allowed}` : ""}`,
      reject: `Refused${by}${answer.feedback ? `: ${oneLine(answer.feedback, 200)}` : ""}`,
      withdrawn: "The question was withdrawn",
      expired: "Nobody answered in time",
    };
    return texts[answer.answer] ?? answer.answer;
  }
  if (question.type === "question_asked") {
    const texts = {
      answered: `Answered${by}: ${oneLine((answer.answers ?? []).join(", "), 300)}`,
      declined: `Declined${by}`,
      withdrawn: "The question was withdrawn",
      expired: "Nobody answered in time",
    };
    return texts[answer.outcome] ?? answer.outcome;
  }
  const texts = {
    wait: `Waiting and trying again, chosen${by || " by the host"}`,
    switch: `Switched to ${oneLine(answer.model, 80)}${by}`,
    stop: `Stopped${by}`,
    withdrawn: "The question was withdrawn",
    expired: "Nobody answered in time",
  };
  return texts[answer.answer] ?? answer.answer;
}

/** Permission profiles: what is chosen, and what is said while it holds. */
export const PROFILES = {
  ask: ["Ask before anything is changed", "This session asks before anything is changed."],
  "auto-edit": ["Change files of the project without asking", "This session changes files of the project without asking."],
  "read-only": ["Only read", "This session may only read."],
  full: ["Allow everything without asking", "This session does everything without asking, except what a rule denies or asks about."],
};

const ACTIONS = {
  bash: "run this command",
  edit: "change this file",
  read: "read this",
  outside: "access this path outside of the project",
  task: "start this sub-agent",
};

/** Return the question for a permission, as the terminal asks it (engine/permission/question_text.py). */
export function allowQuestion(request) {
  const { length } = request.patterns;
  if (request.permission === "edit" && length > 1) return `Allow ${oneLine(request.tool, 60)} to change ${length} files?`;
  const action = ACTIONS[request.permission] ?? `use the permission ${oneLine(request.permission, 60)}`;
  return `Allow ${oneLine(request.tool, 60)} to ${action}?`;
}

/** Return the rights that an approval gives besides the one in the question. */
export function furtherRights(request) {
  return request.rights
    .filter((right) => right.permission !== "opaque" && right.permission !== request.permission)
    .map((right) => `${right.permission} ${right.pattern}`);
}

/**
 * Return what distinguishes calls of one tool: the first short text among the arguments, which may be cut off.
 */
export function mainArgument(text) {
  const values = parsed(text);
  if (values) {
    const found = Object.values(values).find((value) => typeof value === "string" && value.trim());
    return found ?? "";
  }
  const match = /:\s*"((?:[^"\\]|\\.)*)/.exec(text.slice(0, 2000));
  return match ? match[1].replace(/\\n/g, " ").replace(/\\(.)/g, "$1") : "";
}

/** Return a JSON object, or null if *text* is none. */
export function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/**
 * Return the states of a session as people say them, with an icon for each.
 * @param {any} status @param {Record<string, any>} [facts]
 */
export function statusText(status, { now = 0, ending = null, parked = false, interrupted = false, row = null } = {}) {
  if (interrupted) return statusText({ type: "interrupted" }, { row });
  if (row?.holder === "elsewhere") return { key: "elsewhere", icon: "elsewhere", text: "Open in another engine" };
  if (parked) return { key: "parked", icon: "parked", text: "Parked: waits for an answer" };
  if (ending) {
    const left = ending.until - now;
    const saving = left > -SAVING_SECONDS ? "Stopping: saving" : "No answer: it may still run";
    return { key: "ending", icon: "ending", text: left > 0 ? `Stopping, at most ${left.toFixed(1)} s` : saving };
  }
  switch (status?.type) {
    case "waiting":
      return { key: "waiting", icon: "waiting", text: status.request_ids?.length > 1 ? `Waits for ${status.request_ids.length} answers` : "Waits for your answer" };
    case "retry": {
      const left = Math.max(0, Math.ceil(status.next_at - now));
      return { key: "retry", icon: "retry", text: `Retry ${status.attempt}${left ? ` in ${left} s` : " now"}` };
    }
    case "busy":
      return { key: "busy", icon: "busy", text: status.step > 1 ? `Working, step ${status.step}` : "Working" };
    case "interrupted":
      return { key: "interrupted", icon: "interrupted", text: "Interrupted" };
    default:
      return { key: "idle", icon: "idle", text: "Idle" };
  }
}

/**
 * Return how the connection is.
 * @param {string} state @param {{events?: number}} details of the state @param {string} [transport]
 */
export function connectionText(state, details, transport = "") {
  switch (state) {
    case "live":
      return transport === "http" ? "Connected, without a WebSocket" : "Connected";
    case "behind":
      return `Catching up: ${details.events} events`;
    case "offline":
      return "No connection";
    case "refused":
      return "Signed out";
    default:
      return "Connecting";
  }
}

/**
 * Return what is said of a server that is about to end.
 * @param {?number} until when, in seconds since the epoch; null: it is not @param {number} now
 */
export function endText(until, now) {
  if (until === null || until === undefined) return "";
  return `The server is about to end${until > now ? ` in ${duration(until - now)}` : ""}. No new turns can begin.`;
}
