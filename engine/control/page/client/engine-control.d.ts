// Written by `make surface` from the classes of engine/control/protocol: change those.

/** A number that JSON doesn't have comes as a text. */
export type Float = number | "NaN" | "Infinity" | "-Infinity";
export type RetryAdvice = "no" | "later" | "same_key";
export type Role = "read" | "answer" | "full";

export type DurableEvent = SessionCreated | SessionTitled | InputAdmitted | InputPromoted | InputEdited | InputRemoved | PromptBlocked | NudgeAdded | PromptSet | PromptUpdated | TurnStarted | TurnResumed | StepStarted | StepReceived | StepEnded | LoopContinued | RetryScheduled | RecoveryAsked | RecoveryAnswered | ModelSwitched | SessionConfigured | TurnEnded | PartStarted | PartEnded | PartReplaced | PartDiscarded | CallAnnounced | CallQueued | CallJudged | CallChanged | CallStarted | CallSettled | CallDelivered | ContextChanged | PermissionAsked | PermissionAnswered | QuestionAsked | QuestionAnswered | CompactionStarted | CompactionEnded | HistoryReplaced | SnapshotTaken | TurnUndone | TurnRedone | BackgroundStarted | BackgroundEnded | DoomDetected | Notice;
export type LiveEvent = TextDelta | ReasoningDelta | ArgumentsDelta | CallProgress | CallHeartbeat | TurnEnding;
/** An event, by its `type`. */
export type Event = DurableEvent | LiveEvent;
export type CloseCode = 1000 | 1001 | 1002 | 1003 | 1007 | 1009 | 1011 | 1012 | 4400 | 4401 | 4403 | 4408 | 4429;
/** The `data` of an error, by its `kind`; `error` names the engine's class where there is one. */
export type ErrorData =
  /** The message is not JSON. */
  | { kind: "parse"; retry: RetryAdvice; error?: string; }
  /** The message is no request, or its id is in use. */
  | { kind: "request"; retry: RetryAdvice; error?: string; }
  /** There is no such method. */
  | { kind: "method"; retry: RetryAdvice; error?: string; method?: unknown; nearest?: unknown; }
  /** A parameter is missing, unknown or wrong. */
  | { kind: "params"; retry: RetryAdvice; error?: string; path?: unknown; expected?: unknown; nearest?: unknown; }
  /** A fault of the server; its log has more under that incident. */
  | { kind: "internal"; retry: RetryAdvice; error?: string; incident?: unknown; }
  /** Too many requests are running. */
  | { kind: "overloaded"; retry: RetryAdvice; error?: string; limit?: unknown; }
  /** The first message must be `hello`. */
  | { kind: "not_ready"; retry: RetryAdvice; error?: string; }
  /** The connection's role does not allow it. */
  | { kind: "forbidden"; retry: RetryAdvice; error?: string; role?: unknown; needed?: unknown; }
  /** There is no such session, message, call, question, input, grant or upload. */
  | { kind: "not_found"; retry: RetryAdvice; error?: string; what?: unknown; }
  /** A turn is running in the session, or the session was just closed. */
  | { kind: "busy"; retry: RetryAdvice; error?: string; turn_id?: unknown; status?: unknown; }
  /** The key was used with other parameters, or the turn is over. */
  | { kind: "conflict"; retry: RetryAdvice; error?: string; current?: unknown; }
  /** The question was answered before, has expired, or was withdrawn. */
  | { kind: "already_settled"; retry: RetryAdvice; error?: string; answer?: unknown; by?: unknown; seq?: unknown; }
  /** Another engine has the session open. */
  | { kind: "elsewhere"; retry: RetryAdvice; error?: string; session_id?: unknown; host?: unknown; pid?: unknown; until?: unknown; url?: unknown; }
  /** The message or the result is too large. */
  | { kind: "too_large"; retry: RetryAdvice; error?: string; limit?: unknown; }
  /** Too many requests, or too many failed logins. */
  | { kind: "rate_limited"; retry: RetryAdvice; error?: string; retry_after?: unknown; }
  /** The server is about to end. */
  | { kind: "draining"; retry: RetryAdvice; error?: string; until?: unknown; successor?: unknown; }
  /** No common version, or a capability that this server does not have. */
  | { kind: "unsupported"; retry: RetryAdvice; error?: string; min?: unknown; max?: unknown; capability?: unknown; }
  /** There is nothing to undo, redo, compare, restore or resume. */
  | { kind: "nothing_to_do"; retry: RetryAdvice; error?: string; }
  /** The session's turn is parked: resume it first. */
  | { kind: "parked"; retry: RetryAdvice; error?: string; turn_id?: unknown; }
  /** Something else has changed the files; nothing was restored. `force` overwrites them. */
  | { kind: "undo_conflict"; retry: RetryAdvice; error?: string; paths?: unknown; }
  /** Some files are restored; the same request does the rest. */
  | { kind: "undo_incomplete"; retry: RetryAdvice; error?: string; done?: unknown; left?: unknown; }
  /** The store can't read or write; what was changed may not be durable. */
  | { kind: "store"; retry: RetryAdvice; error?: string; is_newer?: unknown; is_full?: unknown; durable?: unknown; }
  /** The model's host failed. */
  | { kind: "provider"; retry: RetryAdvice; error?: string; retryable?: unknown; status?: unknown; retry_after?: unknown; reset_at?: unknown; time_limit?: unknown; seconds?: unknown; info?: unknown; }
  /** The request was cancelled by `rpc.cancel`. */
  | { kind: "cancelled"; retry: RetryAdvice; error?: string; }
  /** A configured or passed value can't work. */
  | { kind: "config"; retry: RetryAdvice; error?: string; field?: unknown; nearest?: unknown; host?: unknown; }
  /** A snapshot of the files can't be taken or read. No file was changed. */
  | { kind: "snapshot"; retry: RetryAdvice; error?: string; };
export type ErrorKind = ErrorData["kind"];

/** The agents. */
export interface AgentListResult {
  /** the agents. */
  agents: AgentRow[];
}

/** An agent. */
export interface AgentRow {
  /** its name. */
  name: string;
  /** when to use it. */
  description: string;
  /** where it can be used. */
  mode: string;
  /** its model; None: that of the session. */
  model: string | null;
}

/** Live: more of a call's arguments, which begin at `offset`. */
export interface ArgumentsDelta {
  type: "arguments_delta";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
  after: number;
  offset: number;
  text: string;
}

/** What the model wrote in one step. */
export interface AssistantMessage {
  type: "assistant";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  parts: (TextPart | ReasoningPart | CallPart | ProviderPart)[];
  model: string;
  finish: "stop" | "calls" | "length" | "pause" | "refusal" | "content_filter" | "overflow" | "malformed" | "unknown" | null;
}

/** An image or a file that comes with a prompt: its content, or the reference of an upload. */
export interface Attachment {
  /** the content as base64. */
  data?: string | null;
  /** what the upload was answered with. */
  upload?: string | null;
  /** its type; empty: as the content or the name shows. */
  media_type?: string;
  /** its name for the model. */
  name?: string;
}

/** A question that a user is looking at. */
export interface AttendParams {
  /** the question. */
  request_id: string;
  /** for how long to show that to others; 0: no longer. */
  seconds?: Float;
}

/** Who else looks at it. */
export interface AttendResult {
  /** the names of their clients. */
  others: string[];
}

/** Background work ended, and its session was informed. */
export interface BackgroundEnded {
  type: "background_ended";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  work_id: string;
}

/** Background work started. It continues after its call and its turn have ended. */
export interface BackgroundStarted {
  type: "background_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** identifies it; for a sub-agent, the id of its session. */
  work_id: string;
  kind: "agent" | "command";
  /** the agent's name, or the job's. */
  name: string;
  /** the command line, for a command. */
  detail: string;
}

/** A piece of background work. See `BackgroundStarted`. */
export interface BackgroundWork {
  work_id: string;
  kind: "agent" | "command";
  name: string;
  detail: string;
}

/** A turn is running that step. */
export interface Busy {
  type: "busy";
  /** Where it is not a part of another document. */
  v?: number;
  step: number;
}

/** The model started to write a tool call. Its arguments are being received. */
export interface CallAnnounced {
  type: "call_announced";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  message_id: string;
  part_id: string;
  tool: string;
}

/** A hook replaced the arguments, or the text of the result. */
export interface CallChanged {
  type: "call_changed";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  /** which of the two. */
  kind: "arguments" | "result";
  /** the new arguments; or the result before the change. */
  text: string;
  /** the hook's name. */
  source: string;
}

/** The result was added to the results message, in call order. */
export interface CallDelivered {
  type: "call_delivered";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
}

/** Live: the step waits for this call. */
export interface CallHeartbeat {
  type: "call_heartbeat";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  tool: string;
  elapsed: Float;
  last_progress: string;
  pending_inputs: number;
}

/** A hook, a rule or the user decided whether the call may run. The last decision counts. */
export interface CallJudged {
  type: "call_judged";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  /** run it, ask the user, or refuse it. */
  verdict: "allow" | "ask" | "deny";
  /** the hook's name, the text of the rule, or the answer. */
  source: string;
}

/** A tool invocation that the model asked for. */
export interface CallPart {
  type: "call";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  call_id: string;
  tool: string;
  /** the JSON text as received; broken if not `complete`. */
  arguments: string;
  /** the host's own id, which need not be unique. */
  provider_id: string;
  /** whether all of the arguments arrived. */
  complete: boolean;
}

/** Live: the progress that a running tool reports. */
export interface CallProgress {
  type: "call_progress";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  message: string;
  output: string;
}

/** The arguments are complete, and the call waits to be run. */
export interface CallQueued {
  type: "call_queued";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  /** the registered name of the tool; the model may have used an alias. */
  tool: string;
  /** as the model wrote them. */
  arguments: string;
  /** repairs that were made in them: `limit: the text "5" was taken for 5`. */
  mended: string[];
  /** whether it may run at the same time as other safe calls, or runs alone; None: from an engine that did not record it. */
  safe: boolean | null;
}

/** A settled call, as it appears in the transcript. */
export interface CallResult {
  call_id: string;
  tool: string;
  settlement: Settlement;
}

/** The result of a call that waits for it. */
export interface CallSettleParams {
  /** the session. */
  session_id: string;
  /** the call. */
  call_id: string;
  /** what the model reads. */
  text: string;
  /** the work was done, but reports a failure. */
  failed?: boolean;
  /** JSON text for clients. */
  metadata?: string;
}

/** The call ended. Each call is settled exactly once. */
export interface CallSettled {
  type: "call_settled";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  settlement: Settlement;
}

/** The tool's body starts. All checks and permissions come before this. */
export interface CallStarted {
  type: "call_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  /** the span that stands for the call, as W3C writes it; empty: the call is not traced. */
  traceparent: string;
}

/** A turn to be cancelled. */
export interface CancelParams {
  /** the session. */
  session_id: string;
  /** the turn. */
  turn_id: string;
  /** shown with the end of the turn. */
  reason?: string;
  /** optional: cancelling a turn twice changes nothing. */
  key?: string | null;
}

/** What became of the turn. */
export interface CancelResult {
  /** it is ending, or it was over already. */
  state: "ending" | "over";
  /** when the grace of its tasks is over, at the latest. */
  until: Float | null;
}

/** One of the answers that a question offers. */
export interface Choice {
  label: string;
  description: string;
}

/** A source that the model cites. */
export interface Citation {
  /** its address; empty for a document in the request. */
  url: string;
  /** its title. */
  title: string;
  /** the cited words, if the host reports them. */
  quote: string;
  /** the host's own record of it, as JSON text. */
  raw: string;
}

/** A client program. */
export interface ClientInfo {
  /** what other clients are shown. */
  name: string;
  /** its version. */
  version?: string;
  /** a random text that stays the same for one installation. It is no credential. */
  instance?: string;
}

/** A connected client. */
export interface ClientRow {
  /** its connection. */
  client_id: string;
  /** what it calls itself. */
  name: string;
  /** what it may do. */
  role: "read" | "answer" | "full";
  /** when it connected. */
  since: Float;
  /** the ids of the questions that a user looks at there. */
  attending: string[];
}

/** Who is connected has changed, or what they attend to. */
export interface ClientsNote {
  /** the newest of those who are connected now, at most 32; the method `clients` returns all. */
  clients: ClientRow[];
  /** how many others there are. */
  more: number;
}

/** Who is connected. */
export interface ClientsResult {
  /** the clients. */
  clients: ClientRow[];
}

/** History to be summarised, in a turn of its own. */
export interface CompactParams {
  /** the session. */
  session_id: string;
  /** what the summary must also take into account. */
  instructions?: string;
  /** the first turn that is summarised; None: the older part is. */
  since?: string | null;
}

/** The turn that summarises. */
export interface CompactResult {
  /** the turn. */
  turn_id: string;
}

/** A compaction is over. If the history was summarised, a `HistoryReplaced` comes before this; else it is unchanged. */
export interface CompactionEnded {
  type: "compaction_ended";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** whether it succeeded. */
  outcome: "compacted" | "failed" | "cancelled";
  /** why it failed, or a remark about the summary. */
  detail: string;
  /** how many messages the history has now. */
  messages: number;
  /** tokens that the next request would have had, estimated; 0: unknown. */
  before: number;
  /** tokens that it has now. */
  after: number;
  /** how many messages were summarised. */
  source: number;
  /** a hash of those messages. */
  digest: string;
  /** the model that wrote the summary; empty: none did. */
  model: string;
  /** tokens of its requests. */
  usage: Usage;
  /** money for its requests. */
  cost: Float;
}

/** The history is about to be summarised. */
export interface CompactionStarted {
  type: "compaction_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the window is full, a request was too large, or the user asked for it. */
  trigger: "full" | "overflow" | "manual";
  /** how many messages the history has. */
  messages: number;
}

/** A call changed the shared context. Changes are applied in call order. */
export interface ContextChanged {
  type: "context_changed";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  call_id: string;
  /** the new working directory. */
  cwd: string;
  /** new and changed values, by name, as JSON text. */
  values: ([string, string])[];
  /** the names of removed values. */
  removed: string[];
}

/** What fills the window. */
export interface ContextReport {
  /** whose window it is. */
  model: string;
  /** tokens of the window. */
  context: number;
  /** how much of it the next request may take. */
  usable: number;
  /** how much it takes. */
  tokens: number;
  /** whether that is the host's count plus an estimate of what came since; otherwise it is all estimated. */
  is_counted: boolean;
  /** by kind, the largest first; their sum is `tokens`. */
  shares: Share[];
  /** the part of it that a summary leaves unchanged. */
  pinned: number;
  /** the files that calls have read or written, the largest first: a part of `shares`, by another measure. */
  files: Share[];
}

/** What fills the model's window. */
export interface ContextResult {
  /** by kind. */
  report: ContextReport;
}

/** The tokens of the newest request, as its host counted them. */
export interface CountedRequest {
  usage: Usage;
  /** how many messages of the transcript it had, from the first one on. */
  messages: number;
}

/** Whose changes to show. */
export interface DiffParams {
  /** the session. */
  session_id: string;
  /** the turn; None: the newest that changed files. */
  turn_id?: string | null;
}

/** The changes of a turn. */
export interface DiffResult {
  /** the files. */
  files: FileDifference[];
}

/** Loop detection found that the model repeats itself. */
export interface DoomDetected {
  type: "doom_detected";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  kind: "repeat" | "near_repeat" | "errors" | "monologue";
  action: "nudge" | "ask" | "stop";
  detail: string;
}

/** The server is about to end. */
export interface DrainingNote {
  /** when its turns are parked or cancelled. */
  until: Float;
  /** where another server will be; None: unknown. */
  successor: string | null;
}

/** In place of an event that is larger than the subscriber wants. */
export interface Elided {
  type: "elided";
  /** the event's type. */
  of: string;
  /** its number; None: it is live. */
  seq: number | null;
  /** its size. */
  bytes: number;
  /** where to read it, relative to the server's address. */
  href: string;
}

/** Why a turn ended before it had finished by itself, since when, and until when its calls could clean up. */
export interface Ending {
  /** what ended it; see `TurnEnding`, of which this is a copy. */
  cause: "user" | "host" | "left" | "limit" | "rejected" | "doom" | "lost" | "crashed";
  /** the same in words. */
  detail: string;
  /** when the grace period of its running calls is over, in seconds since the epoch. */
  until: Float;
  /** who cancelled it, as its host names its clients; empty: the host itself, or none did. */
  by: string;
  /** when the cause was written, in seconds since the epoch; 0: from an engine that did not record it. */
  at: Float;
}

/** The facts of a failure. Empty or None: unknown, or it has none. */
export interface ErrorInfo {
  /** what failed. */
  code: "key_rejected" | "not_allowed" | "no_credit" | "rate_limited" | "overloaded" | "model_not_found" | "option_rejected" | "request_rejected" | "media_rejected" | "too_long" | "filtered" | "name_not_found" | "connection_refused" | "certificate_expired" | "certificate_untrusted" | "proxy_login" | "connection_failed" | "connection_lost" | "not_an_api" | "silent" | "provider_failed" | "step_limit" | "token_budget" | "cost_limit" | "deadline" | "internal";
  /** the provider, as in the names of its models. */
  host: string;
  /** the model, `host/model`. */
  model: string;
  /** the HTTP status of the response. */
  http_status: number | null;
  /** the provider's id of the request, for its support. */
  request_id: string;
  /** what it is about: the rejected option, the address, the proxy, the date on which a certificate expired, the number of an internal error, or how much the next request would take of a limit that it exceeds. */
  subject: string;
  /** how much there was: tokens, dollars, requests or seconds. */
  amount: Float | null;
  /** how much is allowed, in the same unit. */
  limit: Float | null;
}

/** Events of a subscription, in order. */
export interface EventsNote {
  /** the subscription. */
  sub: string;
  /** where it is after the last of them. */
  position: string;
  /** the events. */
  events: (SessionCreated | SessionTitled | InputAdmitted | InputPromoted | InputEdited | InputRemoved | PromptBlocked | NudgeAdded | PromptSet | PromptUpdated | TurnStarted | TurnResumed | StepStarted | StepReceived | StepEnded | LoopContinued | RetryScheduled | RecoveryAsked | RecoveryAnswered | ModelSwitched | SessionConfigured | TurnEnded | PartStarted | PartEnded | PartReplaced | PartDiscarded | CallAnnounced | CallQueued | CallJudged | CallChanged | CallStarted | CallSettled | CallDelivered | ContextChanged | PermissionAsked | PermissionAnswered | QuestionAsked | QuestionAnswered | CompactionStarted | CompactionEnded | HistoryReplaced | SnapshotTaken | TurnUndone | TurnRedone | BackgroundStarted | BackgroundEnded | DoomDetected | Notice | TextDelta | ReasoningDelta | ArgumentsDelta | CallProgress | CallHeartbeat | TurnEnding | Elided | Unknown)[];
}

/** A page of the record, forwards. */
export interface EventsParams {
  /** the session. */
  session_id: string;
  /** only events after this number. */
  after?: number;
  /** the maximum number. */
  limit?: number;
}

/** Durable events of one session, in order. */
export interface EventsResult {
  /** the events. */
  events: (SessionCreated | SessionTitled | InputAdmitted | InputPromoted | InputEdited | InputRemoved | PromptBlocked | NudgeAdded | PromptSet | PromptUpdated | TurnStarted | TurnResumed | StepStarted | StepReceived | StepEnded | LoopContinued | RetryScheduled | RecoveryAsked | RecoveryAnswered | ModelSwitched | SessionConfigured | TurnEnded | PartStarted | PartEnded | PartReplaced | PartDiscarded | CallAnnounced | CallQueued | CallJudged | CallChanged | CallStarted | CallSettled | CallDelivered | ContextChanged | PermissionAsked | PermissionAnswered | QuestionAsked | QuestionAnswered | CompactionStarted | CompactionEnded | HistoryReplaced | SnapshotTaken | TurnUndone | TurnRedone | BackgroundStarted | BackgroundEnded | DoomDetected | Notice | TextDelta | ReasoningDelta | ArgumentsDelta | CallProgress | CallHeartbeat | TurnEnding | Elided | Unknown)[];
  /** whether there are later ones. */
  more: boolean;
}

/** A session with its live sub-agents, at one instant. */
export interface FamilySnapshot {
  /** to continue from. */
  position: string;
  /** the session, then its live sub-agents. */
  sessions: SessionSnapshot[];
  /** their open questions, the oldest first. */
  asked: (PermissionAsked | QuestionAsked | RecoveryAsked)[];
  /** the newest messages of the session. In place of an image's or a file's content is `href:` and where to fetch it, relative to the server's address. */
  messages: (UserMessage | AssistantMessage | ResultsMessage)[];
  /** what to send as `before` to `messages` for older ones; None: these are all. */
  older: string | null;
}

/** What a turn did to a file. */
export interface FileDifference {
  /** relative to the working directory. */
  path: string;
  /** whether it was there before and after. */
  change: "added" | "changed" | "removed";
  /** the difference as a unified diff; empty for what is no text. */
  text: string;
}

/** A file other than an image (a PDF, a recording), as base64. */
export interface FilePart {
  type: "file";
  /** Where it is not a part of another document. */
  v?: number;
  media_type: string;
  data: string;
  name: string;
}

/** What "always" has allowed. */
export interface GrantListResult {
  /** the rights. */
  grants: GrantRow[];
}

/** A right to take back. */
export interface GrantRevokeParams {
  /** the right. */
  id: string;
}

/** Whether there was such a right. */
export interface GrantRevokeResult {
  /** it no longer applies. */
  revoked: boolean;
}

/** A right that was allowed for longer than one call. */
export interface GrantRow {
  /** names it. */
  id: string;
  /** the permission. */
  permission: string;
  /** what it covers. */
  pattern: string;
  /** where it applies. */
  scope: "turn" | "session" | "project";
  /** the project that it applies to. */
  project: string;
  /** the session that it applies to; None: all of the project. */
  session_id: string | null;
  /** when it ends; None: with its scope. */
  until: Float | null;
}

/** A turn that has a cause to end, and has not ended. */
export interface HeadEnding {
  /** what ends it. */
  cause: string;
  /** when the grace of its tasks is over. */
  until: Float;
  /** the client that asked for it; empty: none did. */
  by: string;
}

/** The first notification of every subscription: what is true now, even if nothing has changed. */
export interface HeadNote {
  /** the subscription. */
  sub: string;
  /** what is true. */
  head: SessionHead;
}

/** The turn under way. */
export interface HeadTurn {
  /** the turn. */
  turn_id: string;
  /** the prompt that it began with, if the server knows it: a client finds its own prompt again by it. */
  input_id: string | null;
}

/** The first request of a connection. */
export interface HelloParams {
  /** the versions that the client speaks. */
  protocol: VersionRange;
  /** what the client is. */
  client: ClientInfo;
  /** what it can do beyond the version, by name; unknown names are ignored. */
  capabilities?: { [name: string]: unknown };
  /** a ticket instead of a token, for browsers. */
  ticket?: string | null;
  /** less than the token gives. */
  role?: "read" | "answer" | "full" | null;
}

/** What a client has to know of its server. */
export interface HelloResult {
  /** the version that both speak from now on. */
  protocol: number;
  /** which server this is. */
  server: ServerInfo;
  /** the life of the server's store; positions of another epoch are answered by a snapshot. */
  epoch: string;
  /** the server's clock. */
  time: Float;
  /** what this connection may do. */
  role: "read" | "answer" | "full";
  /** this connection's name in `clients` and in `by`. */
  client_id: string;
  /** the longest time without a message from the server, in seconds. */
  heartbeat: Float;
  /** the server's limits. */
  limits: WireLimits;
  /** the SHA-256 digest of the schema. */
  schema: string;
  /** the types of events, with the version of each. */
  events: { [name: string]: number };
  /** what the server can do, by name. */
  capabilities: { [name: string]: unknown };
  /** versions and methods that will be removed. */
  deprecated: string[];
}

/** Another history replaces the old one: a shorter one, or the one that a fork or an import begins with. */
export interface HistoryReplaced {
  type: "history_replaced";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  kind: "prune" | "collapse" | "compact" | "restore" | "fork" | "import";
  messages: (UserMessage | AssistantMessage | ResultsMessage)[];
}

/** No turn is running. */
export interface Idle {
  type: "idle";
  /** Where it is not a part of another document. */
  v?: number;
}

/** Messages of this client were ignored: only `tock` and `rpc.cancel` may be sent as notifications. */
export interface IgnoredNote {
  /** the method of the last one. */
  method: string;
  /** how many so far. */
  count: number;
}

/** An image, as base64. */
export interface ImagePart {
  type: "image";
  /** Where it is not a part of another document. */
  v?: number;
  media_type: string;
  data: string;
}

/** Input was accepted and saved. It waits for its place in the transcript. */
export interface InputAdmitted {
  type: "input_admitted";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  input_id: string;
  mode: "prompt" | "steer" | "queue";
  message: UserMessage;
  /** who sent it, as its host names its clients; empty: the host itself. */
  by: string;
}

/** Waiting input was changed; it keeps its place. */
export interface InputEdited {
  type: "input_edited";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  input_id: string;
  /** what it is now. */
  message: UserMessage;
}

/** Waiting input became the newest message of the transcript. */
export interface InputPromoted {
  type: "input_promoted";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  input_id: string;
}

/** Waiting input was removed: the model will not read it. */
export interface InputRemoved {
  type: "input_removed";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  input_id: string;
  message_id: string;
}

/** Input was admitted. */
export interface InputResult {
  /** its id. */
  input_id: string;
  /** the number of the event that admitted it. */
  seq: number;
  /** whether it is in the store. False: the store fails or is slow, so a crash now would lose it. */
  durable: boolean;
}

/** The loop continues, for the given reason. */
export interface LoopContinued {
  type: "loop_continued";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  reason: "next_step" | "steered" | "provider_retry" | "overflow_prune_retry" | "reactive_compact_retry" | "output_escalate" | "output_recover" | "stop_hook_blocked" | "budget_continue" | "resume_after_break" | "compacted" | "provider_pause" | "schema_repair" | "empty_retry" | "signature_retry" | "model_fallback";
  step: number;
  /** with another model, the one that is used from now on. */
  model: string;
  /** why the model before it failed. */
  message: string;
  /** what failed, as facts; None: there are none. */
  failure: ErrorInfo | null;
}

/** A page of the transcript, backwards. */
export interface MessagesParams {
  /** the session. */
  session_id: string;
  /** only messages before this one; None: the newest. */
  before?: string | null;
  /** the maximum number. */
  limit?: number;
}

/** Messages in order. */
export interface MessagesResult {
  /** the messages, with references as in a snapshot. */
  messages: (UserMessage | AssistantMessage | ResultsMessage)[];
  /** whether there are older ones. */
  more: boolean;
}

/** The models. */
export interface ModelListResult {
  /** the models. */
  models: ModelRow[];
}

/** A model. */
export interface ModelRow {
  /** as it is written, `host/model`. */
  name: string;
  /** why it can't be used here; empty: it can. */
  why_not: string;
  /** the size of its window in tokens. */
  context: number;
  /** the maximum tokens of an answer. */
  output: number;
  /** the price of a million tokens of input. */
  price_input: Float;
  /** the price of a million tokens of output. */
  price_output: Float;
}

/** A session's model from the next turn on. */
export interface ModelSetParams {
  /** the session. */
  session_id: string;
  /** the model. */
  model: string;
}

/** From the next turn on, the session's model is another one. */
export interface ModelSwitched {
  type: "model_switched";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  model: string;
  /** who switched it, as its host names its clients; empty: the host itself, or it was opened with another one. */
  by: string;
}

/** No parameters. */
export interface NoParams {
}

/** Information for the user. Nothing depends on it. */
export interface Notice {
  type: "notice";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  level: "info" | "warning";
  code: string;
  text: string;
}

/** The engine added a message of its own to the transcript, for the model. */
export interface NudgeAdded {
  type: "nudge_added";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message: UserMessage;
}

/** The rights that one "always" would grant, all together. */
export interface Offer {
  rights: Right[];
}

/** A call of the open step. */
export interface OpenCall {
  call_id: string;
  part_id: string;
  tool: string;
  state: "receiving" | "queued" | "running" | "settled" | "delivered";
  arguments: string;
  settlement: Settlement | null;
}

/** A part of the open message; `part` once it has ended. */
export interface OpenPart {
  part_id: string;
  kind: "text" | "reasoning" | "call" | "provider";
  text: string;
  part: TextPart | ReasoningPart | CallPart | ProviderPart | null;
}

/** An open question. */
export interface OpenQuestionRow {
  /** the session at which it is answered: the root of the one that asks. */
  session_id: string;
  /** from there to the session that asks. */
  path: string[];
  /** the event that asked it. */
  question: PermissionAsked | QuestionAsked | RecoveryAsked;
}

/** The step under way: its message is not in the transcript yet. */
export interface OpenStep {
  step: number;
  attempt: number;
  message_id: string;
  model: string;
  parts: OpenPart[];
  calls: OpenCall[];
  /** its complete answer, if the step waits for the user; else None. */
  received: Received | null;
}

/** The turn under way. */
export interface OpenTurn {
  turn_id: string;
  step: OpenStep | null;
  /** permissions that are asked for. */
  requests: string[];
  /** what tools ask the user. */
  questions: string[];
  /** the question how to go on after a failed request, while it is open. */
  recovery: string | null;
  retry: Retry | null;
  steps: number;
  /** what ends it; None: it goes on, or finishes by itself. */
  ending: Ending | null;
}

/** For which session. */
export interface OptionalSessionParams {
  /** the session; None: for the engine. */
  session_id?: string | null;
}

/** A piece of a result that was too long for the transcript. */
export interface OutputReadParams {
  /** the session. */
  session_id: string;
  /** the call. */
  call_id: string;
  /** the first character. */
  offset?: number;
  /** the maximum number of characters. */
  limit?: number;
}

/** A piece of a result. */
export interface OutputReadResult {
  /** the piece. */
  text: string;
  /** how many characters there are. */
  total: number;
}

/** A part is withdrawn. What follows replaces it. */
export interface PartDiscarded {
  type: "part_discarded";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
  reason: "next_step" | "steered" | "provider_retry" | "overflow_prune_retry" | "reactive_compact_retry" | "output_escalate" | "output_recover" | "stop_hook_blocked" | "budget_continue" | "resume_after_break" | "compacted" | "provider_pause" | "schema_repair" | "empty_retry" | "signature_retry" | "model_fallback" | "failed";
}

/** A part is complete. Its text is all of its deltas in order. */
export interface PartEnded {
  type: "part_ended";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part: TextPart | ReasoningPart | CallPart | ProviderPart;
}

/** An open part starts over: its text is empty again, and deltas follow from offset 0. */
export interface PartReplaced {
  type: "part_replaced";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
}

/** A part of the assistant's message opens. */
export interface PartStarted {
  type: "part_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
  kind: "text" | "reasoning" | "call" | "provider";
}

/** Input that was admitted and has no place in the transcript yet. */
export interface PendingInput {
  input_id: string;
  mode: "prompt" | "steer" | "queue";
  message: UserMessage;
}

/** The question is settled: answered, withdrawn with its call, or expired. */
export interface PermissionAnswered {
  type: "permission_answered";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the question. */
  request_id: string;
  /** the answer, or why there is none. */
  answer: "once" | "always" | "reject" | "withdrawn" | "expired";
  /** the user's text with a rejection. */
  feedback: string;
  /** the rights that "always" has granted. */
  allowed: Right[];
  /** for how long; None: only this call was allowed. */
  scope: "turn" | "session" | "project" | null;
  /** who answered, as its host names its clients; empty: the host itself, or a rule. */
  by: string;
}

/** A call needs permission. Answer with `turn.reply`. */
export interface PermissionAsked {
  type: "permission_asked";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  request_id: string;
  call_id: string;
  tool: string;
  /** the kind of right, such as `bash` or `edit`. */
  permission: string;
  /** what it applies to. */
  patterns: string[];
  /** all rights that have to be allowed, of this and other kinds, without those that a rule allows already. */
  rights: Right[];
  /** what "always" would allow, narrowest first; none: it can be allowed only once. */
  offers: Offer[];
  /** for the user: the command, the diff, the path. */
  detail: string;
  /** the same for clients, as JSON text. */
  metadata: string;
  /** why the effects of the call can't be determined; empty: the rights cover them all. */
  opaque: string;
  /** the rule or the hook that requires the question. */
  rule: string;
  /** when it expires, in seconds since the epoch; None: never. */
  until: Float | null;
  /** why it has to be allowed deliberately, each time, as in `it deletes outside the project`; empty: it needn't. */
  danger: string;
}

/** The answer to a question for permission. */
export interface PermissionReplyParams {
  /** the session. */
  session_id: string;
  /** the question. */
  request_id: string;
  /** allow this call, allow what one of the offers covers, or refuse. */
  answer: "once" | "always" | "reject";
  /** with "always", the index of the offer; the first is the narrowest. */
  offer?: number;
  /** with "always", how far it reaches. */
  scope?: "turn" | "session" | "project";
  /** with "always", for how long; None: as long as the scope. */
  seconds?: Float | null;
  /** with "reject", for the model, which then continues; empty: the turn ends. */
  feedback?: string;
}

/** The answer counts. */
export interface PermissionReplyResult {
  /** the number of its event. */
  seq: number;
  /** what it did. */
  effect: "allowed" | "granted" | "refused";
}

/** No parameters. */
export interface PingParams {
}

/** The server's clock. */
export interface PingResult {
  /** in seconds since the epoch. */
  time: Float;
}

/** A hook blocked the user's prompt: its message is removed from the transcript, and the turn ends. */
export interface PromptBlocked {
  type: "prompt_blocked";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  /** the hook's name. */
  source: string;
  /** for the user; the model never sees it. */
  reason: string;
}

/** A prompt, which starts a turn. */
export interface PromptParams {
  /** the session. */
  session_id: string;
  /** the prompt. */
  text: string;
  /** images and files for the model. */
  attachments?: Attachment[];
  /** for this turn. */
  settings?: TurnSettings | null;
  /** "cancel": the turn is cancelled once this client is gone for `linger` seconds. */
  on_disconnect?: "continue" | "cancel";
  /** see there. */
  linger?: Float;
  /** the id of this input: sending the same prompt again starts nothing. */
  key: string;
}

/** The turn was started. */
export interface PromptResult {
  /** the turn. */
  turn_id: string;
  /** the prompt. */
  input_id: string;
  /** the number of the event that admitted it. */
  seq: number;
  /** whether it is in the store. False: the store fails or is slow, so a crash now would lose it; or a prompt that is cancelled with its connection did not wait for it. */
  durable: boolean;
}

/** One layer of the text at the start of every request. */
export interface PromptSection {
  /** what it is: `base`, `environment`, `instructions:/path/AGENTS.md`. */
  name: string;
  /** what the model reads. */
  text: string;
  /** where it comes from, for messages. */
  source: string;
  /** how often it may change. A change never alters the text in place: a message informs the model. */
  stability: "static" | "conversation" | "step";
}

/** Requests begin with these sections from now on, byte for byte, until the next `PromptSet`. */
export interface PromptSet {
  type: "prompt_set";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the sections, in order. */
  sections: PromptSection[];
  /** the working directory that they were made for. */
  cwd: string;
  /** the project whose instruction files were allowed to be read; empty: none. */
  project: string;
  /** the session starts, its history was compacted, its working directory changed, or the host changed the system prompt. */
  reason: "start" | "compacted" | "moved" | "system";
}

/** The beginning of requests, and the later changes that messages informed the model of. */
export interface PromptState {
  /** the baseline. */
  sections: PromptSection[];
  /** the folder that it was made for. */
  cwd: string;
  /** the project whose own files may be read for it. */
  project: string;
  /** the changes since then, the oldest first. */
  updates: PromptUpdate[];
  /** the history was compacted since: the next request has a new baseline. */
  is_outdated: boolean;
}

/** A change of the prompt, of which a message informed the model. */
export interface PromptUpdate {
  /** the message. */
  message_id: string;
  /** the changed sections. */
  sections: PromptSection[];
  /** what holds no longer, by name. */
  removed: string[];
  /** the message is in the transcript. The model does not know of one that is not. */
  is_held: boolean;
}

/** A section of the prompt changed. A message informs the model; the beginning of requests stays, and so does its cache. */
export interface PromptUpdated {
  type: "prompt_updated";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the newest of the transcript now. */
  message: UserMessage;
  /** the new and changed ones. */
  sections: PromptSection[];
  /** the names of sections that no longer apply. */
  removed: string[];
}

/** An item that only its provider understands (a hosted tool's work, say). */
export interface ProviderPart {
  type: "provider";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  kind: string;
  data: string;
  model: string;
}

/** The answer to a tool's question. */
export interface QuestionAnswerParams {
  /** the session. */
  session_id: string;
  /** the question. */
  request_id: string;
  /** labels of its choices, or any text; none: decline. */
  answers?: string[];
}

/** A question was answered, declined, withdrawn, or it expired. */
export interface QuestionAnswered {
  type: "question_answered";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  request_id: string;
  outcome: "answered" | "declined" | "withdrawn" | "expired";
  /** labels of choices, or free text; empty unless `answered`. */
  answers: string[];
  /** who answered, as its host names its clients; empty: the host itself. */
  by: string;
}

/** A call asks the user a question. Answer with `turn.answer(request_id, "…")`. */
export interface QuestionAsked {
  type: "question_asked";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  request_id: string;
  /** the call; empty: the engine itself asks whether it may read a project's own files. */
  call_id: string;
  /** its text. */
  question: string;
  /** the answers that it offers; any other text is an answer as well. */
  choices: Choice[];
  /** whether more than one may be selected. */
  several: boolean;
}

/** Whose questions to list. */
export interface QuestionListParams {
  /** only those of this session and its sub-agents; None: all of open sessions, and those of parked turns among the newest sessions. */
  session_id?: string | null;
}

/** Open questions. */
export interface QuestionListResult {
  /** the oldest first. */
  questions: OpenQuestionRow[];
}

/** Input for the next turn. */
export interface QueueParams {
  /** the session. */
  session_id: string;
  /** the prompt of that turn. */
  text: string;
  /** images and files for the model. */
  attachments?: Attachment[];
  /** the id of this input. */
  key: string;
}

/** Queued input to be removed. */
export interface QueueRemoveParams {
  /** the session. */
  session_id: string;
  /** the input. */
  input_id: string;
}

/** Whether it was removed. */
export interface QueueRemoveResult {
  /** false: its turn has begun, or it was removed before. */
  removed: boolean;
}

/** The input is admitted. */
export interface QueueResult {
  /** its id. */
  input_id: string;
  /** the number of the event that admitted it. */
  seq: number;
  /** how many inputs are before it; 0: its turn is next, or has begun. */
  position: number;
  /** whether it is in the store. False: the store fails or is slow, so a crash now would lose it. */
  durable: boolean;
}

/** Input that waits for its place in the transcript. */
export interface QueuedInput {
  /** its id. */
  input_id: string;
  /** how it was sent. */
  mode: "prompt" | "steer" | "queue";
  /** the input. */
  message: UserMessage;
  /** the client that sent it. */
  by: string;
}

/** Live: more thinking, which begins at `offset` of its part. */
export interface ReasoningDelta {
  type: "reasoning_delta";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
  after: number;
  offset: number;
  text: string;
}

/** Thinking, with the data that the host needs to accept it again. */
export interface ReasoningPart {
  type: "reasoning";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  text: string;
  signature: string | null;
  redacted: string | null;
  model: string;
}

/** A complete answer whose step waits for the user. See `StepReceived`. */
export interface Received {
  finish: "stop" | "calls" | "length" | "pause" | "refusal" | "content_filter" | "overflow" | "malformed" | "unknown" | null;
  detail: string;
  usage: Usage;
  cost: Float;
  prefix_broken_at: string;
}

/** How to go on after the model's host has failed. */
export interface RecoveryAnswerParams {
  /** the session. */
  session_id: string;
  /** the question. */
  request_id: string;
  /** wait and try again, use another model, or stop. */
  how: "wait" | "switch" | "stop";
  /** with "switch", the model. */
  model?: string | null;
}

/** A `RecoveryAsked` was answered, or it expired and the turn stops. */
export interface RecoveryAnswered {
  type: "recovery_answered";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  request_id: string;
  answer: "wait" | "switch" | "stop" | "withdrawn" | "expired";
  /** with "switch", the new model. */
  model: string;
  /** who answered, as its host names its clients; empty: the host itself. */
  by: string;
}

/** A model's host failed and retries are used up: wait and try again, switch the model, or stop? */
export interface RecoveryAsked {
  type: "recovery_asked";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  request_id: string;
  /** the one that failed. */
  model: string;
  /** the error. */
  message: string;
  /** when a rate limit is lifted, in seconds since the epoch; "wait" waits until then. */
  reset_at: Float | null;
  /** what failed, as facts; None: there are none. */
  failure: ErrorInfo | null;
}

/** Files to restore as they were before a turn. */
export interface RestoreParams {
  /** the session. */
  session_id: string;
  /** files and folders, relative to the working directory. */
  paths: string[];
  /** the turn; None: the newest that changed files. */
  turn_id?: string | null;
  /** also overwrite what something else has changed since. */
  force?: boolean;
}

/** What was restored. */
export interface RestoreResult {
  /** the files. */
  paths: string[];
}

/** The results of the assistant message before it, in call order. */
export interface ResultsMessage {
  type: "results";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  results: CallResult[];
}

/** A session to go on with: its turn is parked or was ended by a crash, or input is queued in it. */
export interface ResumeParams {
  /** the session. */
  session_id: string;
  /** makes repeating the request safe. */
  key: string;
}

/** The turn goes on. */
export interface ResumeResult {
  /** the parked turn, or the new one. */
  turn_id: string;
  /** the last event before it. */
  seq: number;
}

/** The position could not be continued from: the client replaces what it has by this snapshot. */
export interface ResyncNote {
  /** the subscription. */
  sub: string;
  /** what is true now. */
  snapshot: FamilySnapshot;
}

/** A failed request waits to be sent again. */
export interface Retry {
  type: "retry";
  /** Where it is not a part of another document. */
  v?: number;
  attempt: number;
  message: string;
  next_at: Float;
}

/** A failed request will be sent again. */
export interface RetryScheduled {
  type: "retry_scheduled";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the number of the retry, from 1. */
  attempt: number;
  /** why the request failed. */
  message: string;
  /** when it is sent again, in seconds since the epoch. */
  next_at: Float;
  /** how many retries there are at most; 0: unknown. */
  attempts: number;
  /** what failed, as facts; None: there are none. */
  failure: ErrorInfo | null;
}

/** A turn to be undone with all later ones. */
export interface RewindParams {
  /** the session. */
  session_id: string;
  /** the oldest turn to undo. */
  turn_id: string;
  /** the messages and the changes of files, or only one of them. */
  scope?: "both" | "conversation" | "files";
  /** also overwrite what something else has changed since. */
  force?: boolean;
  /** makes repeating the request safe. */
  key: string;
}

/** A prompt to which a session can be rewound. */
export interface RewindPointRow {
  /** its turn. */
  turn_id: string;
  /** what the user said. */
  prompt: string;
  /** when, in seconds since the epoch. */
  time: Float;
  /** the files that changed while the turn ran; those of old turns are not listed. */
  files: string[];
  /** whether it changed any. */
  has_files: boolean;
}

/** The prompts to which a session can be rewound. */
export interface RewindPointsResult {
  /** the oldest first. */
  points: RewindPointRow[];
}

/** A turn to which a session might be rewound. */
export interface RewindPreviewParams {
  /** the session. */
  session_id: string;
  /** the oldest turn that would be undone. */
  turn_id: string;
}

/** What rewinding would do. */
export interface RewindPreviewResult {
  /** the turns that would be undone, the newest first. */
  turns: string[];
  /** the files that would change. */
  files: FileDifference[];
  /** files that another program has changed: they are overwritten by force only. */
  conflicts: string[];
  /** files that have changed, too, but are not in snapshots. */
  left: string[];
}

/** A permission for one pattern. In an offer the pattern may have wildcards, as in a rule. */
export interface Right {
  permission: string;
  pattern: string;
}

/** A running request to cancel. */
export interface RpcCancelParams {
  /** its id. */
  id: string | number;
}

/** Whether it was running. */
export interface RpcCancelResult {
  /** it is answered with the error `cancelled`. */
  cancelled: boolean;
}

/** A session that contains the words. */
export interface SearchHit {
  session: SessionRow;
  /** the newest event of the session that contains them. */
  seq: number;
  /** the author, or that it is the title. */
  role: "user" | "assistant" | "title";
  /** the text around them, each match between U+E000 and U+E001. */
  snippet: string;
  /** when the event happened. */
  time: Float;
}

/** A change of a session. */
export interface SeqResult {
  /** the number of its event: a client whose cursor has passed it has seen the effect. */
  seq: number;
}

/** How to end the server. */
export interface ServerDrainParams {
  /** how long running turns may continue. */
  seconds?: Float;
  /** shown to clients. */
  reason?: string;
}

/** When the server ends. */
export interface ServerDrainResult {
  /** when turns that still run are parked or cancelled. */
  until: Float;
}

/** A server. */
export interface ServerInfo {
  /** the engine's version. */
  version: string;
  /** a random text, new for each start. */
  instance: string;
  /** when it was started, in seconds since the epoch, like all times. */
  started: Float;
}

/** What the server does. */
export interface ServerStatusResult {
  /** the number of open sessions by status. */
  sessions: { [name: string]: number };
  /** the number of open questions, as `asked` lists them. */
  questions: number;
  /** when the oldest of them was asked; None: there is none. */
  waiting_since: Float | null;
  /** the number of connected clients. */
  connections: number;
  /** the server is about to end. */
  draining: boolean;
  /** what this client may do. */
  role: "read" | "answer" | "full";
}

/** Whether something changed. */
export interface SessionCloseResult {
  /** the session was open, and other engines may open it now. */
  released: boolean;
}

/** Settings of a session that all clients share. */
export interface SessionConfigureParams {
  /** the session. */
  session_id: string;
  /** the permission profile, for calls that no rule matches: "full" allows everything that no rule denies. None: that of its folder again. */
  profile: string | null;
}

/** A setting that all clients of the session share was changed. It applies at once, and until it is changed again. */
export interface SessionConfigured {
  type: "session_configured";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the permission profile, for calls that no rule matches; empty: the engine's. */
  profile: string;
  /** who changed it, as its host names its clients; empty: the host itself, or an engine that can't apply it. */
  by: string;
}

/** A new session. */
export interface SessionCreateParams {
  /** its working directory, on the server's machine. */
  cwd: string;
  /** its model; None: the engine's. */
  model?: string | null;
  /** the name of a configured agent. */
  agent?: string | null;
  /** its title. */
  title?: string | null;
  /** for all of its turns. */
  settings?: TurnSettings | null;
  /** makes repeating the request safe. */
  key: string;
}

/** The new session. */
export interface SessionCreateResult {
  /** the session. */
  row: SessionRow;
  /** its last event. */
  seq: number;
}

/** A session begins; a child names the call that made it. */
export interface SessionCreated {
  type: "session_created";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  context: SharedContext;
  model: string;
  parent_id: string | null;
  parent_call_id: string | null;
  /** the name of the agent; empty: the default one. */
  agent: string;
  /** the session that it was forked from. A `HistoryReplaced` with the history of that one follows. */
  forked_from: string | null;
}

/** A session to be removed for good, with its sub-agents'. */
export interface SessionDeleteParams {
  /** the session. */
  session_id: string;
  /** the session's id again. */
  confirm: string;
}

/** What was removed. */
export interface SessionDeleteResult {
  /** the sessions. */
  ids: string[];
}

/** The format of an export. */
export interface SessionExportParams {
  /** the session. */
  session_id: string;
  /** JSON can be imported again; the others are to be read. */
  format: "json" | "markdown" | "html";
}

/** Where to fetch it. */
export interface SessionExportResult {
  /** the address, relative to the server's. */
  href: string;
}

/** Where a new session is to begin. */
export interface SessionForkParams {
  /** the session. */
  session_id: string;
  /** the id of the last message to include; None: all. */
  at?: string | null;
  /** the new session's model; None: the engine's. */
  model?: string | null;
  /** its agent; None: that of the other session. */
  agent?: string | null;
  /** makes repeating the request safe. */
  key: string;
}

/** A session as it is now. */
export interface SessionGetResult {
  /** as in a list. */
  row: SessionRow;
  /** what it does, and what it waits for. */
  head: SessionHead;
  /** "live", or "stored" if another engine has it open or none has: then it holds only what is durable. */
  mode: "live" | "stored";
}

/** What is true of a session now. */
export interface SessionHead {
  /** its last event. */
  seq: number;
  /** what it does; idle, too, if its turn was interrupted. */
  status: Idle | Busy | Retry | Waiting;
  /** the turn under way; None: there is none. */
  turn: HeadTurn | null;
  /** whether that turn waits for `resume`: no engine runs it. */
  parked: boolean;
  /** the open questions of the session and its sub-agents, the oldest first. */
  asked: (PermissionAsked | QuestionAsked | RecoveryAsked)[];
  /** set once the turn has a cause to end. */
  ending: HeadEnding | null;
  /** input that waits. */
  queue: QueuedInput[];
  /** the permission profile that was selected for it; empty: none was, and it has that of its folder. */
  profile: string;
  /** the client that selected it. */
  profile_by: string;
  /** who is connected. */
  clients: ClientRow[];
}

/** Which sessions to list, the newest first. */
export interface SessionListParams {
  /** only those with this working directory. */
  cwd?: string | null;
  /** only children of this session; None: only sessions without a parent. */
  parent?: string | null;
  /** only those with this status. */
  status?: "idle" | "busy" | "waiting" | "interrupted" | null;
  /** the maximum number. */
  limit?: number;
  /** the id of the last session of the previous page. */
  before?: string | null;
}

/** A page of sessions. */
export interface SessionListResult {
  /** the sessions. */
  rows: SessionRow[];
  /** what to send as `before` for the next page; None: this is the last one. */
  next: string | null;
}

/** The params of a method about one session. */
export interface SessionParams {
  /** the session. */
  session_id: string;
}

/** A new title. */
export interface SessionRenameParams {
  /** the session. */
  session_id: string;
  /** the title. */
  title: string;
}

/** A session in a list. */
export interface SessionRow {
  id: string;
  /** the session whose call created it. */
  parent_id: string | null;
  /** the first session of its tree, possibly itself. */
  root_id: string;
  /** its title, or else the beginning of the first prompt. */
  title: string;
  cwd: string;
  model: string;
  /** in seconds since the epoch, like all times. */
  created: Float;
  /** when its last event happened. */
  updated: Float;
  /** the number of that event. */
  seq: number;
  /** the number of messages: inputs, steps that were kept, and those of a history that it began with. */
  messages: number;
  turns: number;
  status: "idle" | "busy" | "waiting" | "interrupted";
  /** how its last turn ended; None: none has. */
  stop_reason: "completed" | "aborted" | "step_limit" | "token_budget" | "diminishing" | "cost_limit" | "deadline" | "hook_stopped" | "stop_hook_limit" | "blocking_limit" | "prompt_too_long" | "compaction_ineffective" | "output_limit" | "incomplete" | "refusal" | "content_filter" | "rate_limited" | "auth_failed" | "provider_error" | "doom_loop" | "permission_rejected" | "internal_error" | null;
  usage: Usage;
  cost: Float;
  holder: "nobody" | "here" | "elsewhere";
  /** "user" or "model"; empty: it has no title. */
  titled_by: "" | "user" | "model";
  /** the session whose history it began with. */
  forked_from: string | null;
  /** the agent that was selected for it; empty: the default. */
  agent: string;
  /** the beginning of its first prompt, if its title is another text. */
  first_words: string;
}

/** What to search for. */
export interface SessionSearchParams {
  /** a text must contain all of them; the last one may be incomplete. */
  words: string;
  /** only in sessions with this working directory. */
  cwd?: string | null;
  /** the maximum number of sessions. */
  limit?: number;
}

/** What the search returns. */
export interface SessionSearchResult {
  /** the sessions, the newest first, with the text around the words; each match is between U+E000 and U+E001. */
  hits: SearchHit[];
}

/** One session of a family, without its transcript. */
export interface SessionSnapshot {
  /** its state; the transcript in it is empty, and open parts hold their text so far. */
  state: SessionState;
  /** how many messages its transcript has. */
  messages: number;
  /** 0 for the root, 1 for its sub-agents, and so on. */
  depth: number;
  /** the call that runs it; None for the root. */
  call_id: string | null;
}

/** The state of a session after its last event. */
export interface SessionState {
  type: "session_state";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  seq: number;
  /** set by the user or by a model; empty: by neither. */
  title: string;
  /** by which of them. */
  titled_by: "" | "user" | "model";
  model: string;
  /** the name of its agent; empty: the default one. */
  agent: string;
  parent_id: string | null;
  /** the session that it was forked from. */
  forked_from: string | null;
  /** the permission profile that was selected for it; empty: the engine's. */
  profile: string;
  /** who selected it. See `SessionConfigured`. */
  profile_by: string;
  context: SharedContext;
  /** the beginning of requests; None: the system prompt of the settings. */
  prompt: PromptState | null;
  transcript: (UserMessage | AssistantMessage | ResultsMessage)[];
  /** messages before this index are sent without reasoning, which the host has rejected. */
  reasoning_from: number;
  inbox: PendingInput[];
  turn: OpenTurn | null;
  last_result: TurnResult | null;
  turns: number;
  /** the turns that can be redone, the next one last. */
  undone: UndoneTurn[];
  /** the background work that runs, or ran when its engine ended. */
  background: BackgroundWork[];
  usage: Usage;
  cost: Float;
  /** the newest request that a host has counted; None: there is none for this history. */
  counted: CountedRequest | null;
}

/** The session got a title. Without one, lists show the beginning of the first prompt. */
export interface SessionTitled {
  type: "session_titled";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the title; empty: the model returned none, but its tokens still count. */
  title: string;
  /** who wrote it. A model's title never replaces a user's. */
  by: "user" | "model";
  /** the model that was asked for it; empty: no model was. */
  model: string;
  /** tokens of that request. */
  usage: Usage;
  /** money for that request. */
  cost: Float;
}

/** What spending to sum up. */
export interface SessionUsageParams {
  /** the grouping. */
  by?: "total" | "day" | "model" | "folder" | "session";
  /** the earliest time. */
  since?: Float | null;
  /** the end, exclusive. */
  until?: Float | null;
}

/** What was spent. */
export interface SessionUsageResult {
  /** the groups. */
  rows: Spending[];
}

/** Sessions of a watched list that have changed, each with its newest row. */
export interface SessionsNote {
  /** the subscription. */
  sub: string;
  /** new and changed sessions. */
  rows: WatchedRow[];
  /** sessions that are no longer in the list. */
  removed: string[];
}

/** How a call ended; the model reads `text`. */
export interface Settlement {
  /** the terminal state. */
  status: "completed" | "error" | "denied" | "aborted";
  /** the result, the error, or why there is none. */
  text: string;
  /** why it was aborted. */
  reason: "cancelled" | "timeout" | "not_executed" | "interrupted_by_crash" | null;
  /** it did not stop in time, or lost its process: its side effects are unknown. */
  outcome_unknown: boolean;
  /** shown to the model with the text. */
  images: ImagePart[];
  /** the same, other than images. */
  files: FilePart[];
  /** it completed, but what it ran reports failure (a non-zero exit). */
  failed: boolean;
  /** JSON for clients, never sent to the model. */
  metadata: string;
  /** the names of tools that it shows to the model. */
  tools: string[];
}

/** The share of the window that one kind of content takes. */
export interface Share {
  /** what it is: `system`, `tools`, `results of read`. */
  kind: string;
  /** estimated. */
  tokens: number;
  /** the number of items. */
  count: number;
}

/** The state that tool calls share and may change, in call order (C4). */
export interface SharedContext {
  /** the working directory. */
  cwd: string;
  /** other state of tools, by name, as JSON text. */
  values: ([string, string])[];
}

/** Whether there was something to skip. */
export interface SkipWaitResult {
  /** a failed request is sent again now. */
  sent: boolean;
}

/** How much of the transcript to get. */
export interface SnapshotParams {
  /** the session. */
  session_id: string;
  /** the number of newest messages. */
  tail?: number;
}

/** The files of the project were recorded, so that the turn can be undone to this state. */
export interface SnapshotTaken {
  type: "snapshot_taken";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the step that just ended; 0: before the first change of the turn. */
  step: number;
  /** identifies this state of the files. */
  tree: string;
}

/** What was spent by one group. */
export interface Spending {
  /** the day (`2026-11-18`), the model, the folder, or the root session's id. Empty for the total, for the folder and the session of deleted sessions, and for an unknown model. */
  key: string;
  /** the title of that session. */
  name: string;
  /** the number of root sessions that still exist. */
  sessions: number;
  /** the number of requests that were steps. */
  steps: number;
  usage: Usage;
  cost: Float;
}

/** A message to the model in the middle of its turn. */
export interface SteerParams {
  /** the session. */
  session_id: string;
  /** the turn. */
  turn_id: string;
  /** the message. */
  text: string;
  /** images and files for the model. */
  attachments?: Attachment[];
  /** the id of this input. */
  key: string;
}

/** A step is over; if `kept`, its message and results are in the transcript. */
export interface StepEnded {
  type: "step_ended";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  step: number;
  message_id: string;
  results_id: string;
  finish: "stop" | "calls" | "length" | "pause" | "refusal" | "content_filter" | "overflow" | "malformed" | "unknown" | null;
  /** tokens of this request. `usage.cache_share` is the share of the prompt that came from a cache. */
  usage: Usage;
  cost: Float;
  kept: boolean;
  /** where this request first differed from the previous one, so that no cache could help from there on; empty: it began with all of the previous one. */
  prefix_broken_at: string;
}

/** The answer is complete, and the step waits for a user. Another engine could continue it from here. */
export interface StepReceived {
  type: "step_received";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  step: number;
  message_id: string;
  /** why the model stopped. */
  finish: "stop" | "calls" | "length" | "pause" | "refusal" | "content_filter" | "overflow" | "malformed" | "unknown" | null;
  /** the same in the words of the model's host. */
  detail: string;
  /** tokens of this request. */
  usage: Usage;
  /** money for this request. */
  cost: Float;
  /** as in `StepEnded`. */
  prefix_broken_at: string;
}

/** A request goes out. */
export interface StepStarted {
  type: "step_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  step: number;
  attempt: number;
  message_id: string;
  model: string;
  /** how many of its calls may run at once; None: from an engine that did not record it. */
  parallel: number | null;
}

/** Which events to get. */
export interface SubscribeParams {
  /** the session. */
  session_id: string;
  /** the position to continue from; None: as `at` says. */
  after?: string | null;
  /** begin with what happens from now on, or with the session's first event. */
  at?: "now" | "start";
  /** also the events of sub-agents. */
  tree?: boolean;
  /** also deltas and progress; without them only durable events. */
  live?: boolean;
  /** the least time between two messages that hold only live events, in milliseconds. */
  interval?: number;
  /** events larger than this are replaced by a reference; 0: never. */
  elide?: number;
}

/** A subscription. */
export interface SubscribeResult {
  /** names it in notifications. */
  sub: string;
  /** what is true now. */
  head: SessionHead;
  /** "stored" if another engine has the session open: then only durable events come. */
  mode: "live" | "stored";
}

/** Live: more visible text, which begins at `offset` of its part. */
export interface TextDelta {
  type: "text_delta";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  message_id: string;
  part_id: string;
  after: number;
  offset: number;
  text: string;
}

/** Visible text, and the sources it names. */
export interface TextPart {
  type: "text";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  text: string;
  citations: Citation[];
}

/** A sign of life on a silent connection, to be answered with `tock`. */
export interface TickNote {
  /** the server's clock. */
  time: Float;
  /** for each subscription, the last event of its session. A client that has another one takes a snapshot. */
  heads: { [name: string]: number };
}

/** The answer to a `tick`. */
export interface TockParams {
  /** the time of the tick. */
  time: Float;
}

/** The tools. */
export interface ToolListResult {
  /** the tools. */
  tools: ToolRow[];
}

/** A tool. */
export interface ToolRow {
  /** its name. */
  name: string;
  /** what models read about it. */
  description: string;
  /** it changes nothing. */
  read_only: boolean;
  /** the permission that each call needs; empty: that depends on the call. */
  permission: string;
}

/** The turn is over, settled and saved. Nothing of it comes after this. */
export interface TurnEnded {
  type: "turn_ended";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** how it ended. */
  result: TurnResult;
  /** what ended it early, and when, as `TurnEnding` announced it; None: it finished by itself, or by a crash. */
  ending: Ending | null;
}

/** Live: something ends the turn before it has finished by itself. Its calls are being settled from now on. */
export interface TurnEnding {
  type: "turn_ending";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** what ends it. The first cause counts, so there is one such event at most in a turn. */
  cause: "user" | "host" | "left" | "limit" | "rejected" | "doom" | "lost" | "crashed";
  /** the same in words. */
  detail: string;
  /** when the grace period of its running calls is over, in seconds since the epoch. */
  until: Float;
  /** the number of the last durable event before it. */
  after: number;
  /** who cancelled it, as its host names its clients; empty: the host itself, or none did. */
  by: string;
}

/** The params of a method about one turn. */
export interface TurnParams {
  /** the session. */
  session_id: string;
  /** the turn. */
  turn_id: string;
}

/** The turn that was undone last is restored, with its messages and its changes of files. */
export interface TurnRedone {
  type: "turn_redone";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the turn. */
  redone: string;
  /** the files that were changed again. */
  files: string[];
}

/** How a turn ended, and its answer. */
export interface TurnResult {
  /** why it ended. */
  stop_reason: "completed" | "aborted" | "step_limit" | "token_budget" | "diminishing" | "cost_limit" | "deadline" | "hook_stopped" | "stop_hook_limit" | "blocking_limit" | "prompt_too_long" | "compaction_ineffective" | "output_limit" | "incomplete" | "refusal" | "content_filter" | "rate_limited" | "auth_failed" | "provider_error" | "doom_loop" | "permission_rejected" | "internal_error";
  /** the same in words, for the user: the limit, the refusal or the fault. */
  detail: string;
  /** what an aborted turn was doing. */
  during: "streaming" | "tools" | "waiting" | null;
  /** when a rate limit is lifted, in seconds since the epoch. */
  reset_at: Float | null;
  /** the visible answer, or the part of it that was received. */
  text: string;
  /** a structured answer as JSON text; None: none was requested, or none was valid. */
  output: string | null;
  /** tokens, sub-agents included. */
  usage: Usage;
  /** money, sub-agents included. */
  cost: Float;
  /** how many steps it took. */
  steps: number;
  /** whether the store confirmed all of its events. */
  durable: boolean;
  /** what failed, as facts; None: nothing did, or there are none. */
  failure: ErrorInfo | null;
}

/** A turn whose engine has ended is continued by another one. */
export interface TurnResumed {
  type: "turn_resumed";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** it did not only wait: its engine had died, and what that had begun was settled before this event. */
  interrupted: boolean;
}

/** What a client may set for a turn, or for all turns of a session; what is left out stays. */
export interface TurnSettings {
  /** the maximum number of requests to the model. */
  steps?: number | null;
  /** the maximum number of tokens. */
  tokens?: number | null;
  /** the maximum cost. */
  cost?: Float | null;
  /** the maximum time. */
  seconds?: Float | null;
  /** seconds after which an open question counts as rejected. */
  question_timeout?: Float | null;
  /** what happens when the model can't be reached. */
  on_exhausted?: "stop" | "ask" | null;
  /** whether history is summarised when the window is full. */
  auto_compact?: boolean | null;
  /** how many levels of sub-agents there may be. */
  agent_depth?: number | null;
}

/** A turn begins. */
export interface TurnStarted {
  type: "turn_started";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** for a sub-agent's turn, the call in the parent session that runs it. */
  call_id: string | null;
  /** the span that stands for the turn, as W3C writes it; empty: the turn is not traced. */
  traceparent: string;
  /** the span that this one is below; empty: there is none. */
  caller: string;
  /** what becomes of it if its engine dies: another engine of a fleet continues it, or leaves it to the user. */
  resume: "manual" | "auto";
}

/** The newest turn that was not undone yet is undone: its messages, and its changes of files. */
export interface TurnUndone {
  type: "turn_undone";
  /** Where it is not a part of another document. */
  v?: number;
  session_id: string;
  turn_id: string | null;
  path: string[];
  time: Float;
  seq: number | null;
  /** the turn. */
  undone: string;
  /** how many messages at the beginning of the transcript stay. */
  keep: number;
  /** messages to append to those, if a compaction within the turn had replaced them. */
  messages: (UserMessage | AssistantMessage | ResultsMessage)[];
  /** the files that were restored or removed, relative to the working directory. */
  files: string[];
  /** the oldest turn that was undone together with this one; None: it was undone by itself. */
  rewind: string | null;
}

/** A turn to be undone or redone. */
export interface UndoParams {
  /** the session. */
  session_id: string;
  /** also overwrite what something else has changed since. */
  force?: boolean;
  /** makes repeating the request safe. */
  key: string;
}

/** What was undone or redone. */
export interface UndoResult {
  /** the turn; of several, the oldest. */
  turn_id: string;
  /** all turns of a rewind, the newest first; empty for an undo or a redo. */
  turns: string[];
  /** what the user had said in it, the prompt first; empty for a redo. */
  inputs: UserMessage[];
  /** the files that were changed, relative to the working directory. */
  files: string[];
  /** files that have changed, too, but are not in snapshots. */
  left: string[];
  /** remarks about the files. */
  remarks: string[];
  /** the number of the event. */
  seq: number;
}

/** A turn that was undone and can be redone. */
export interface UndoneTurn {
  /** the turn. */
  turn_id: string;
  /** so many of the first messages of the transcript were there before and after. */
  keep: number;
  /** those of the turn, which followed them. */
  messages: (UserMessage | AssistantMessage | ResultsMessage)[];
}

/** An event of a newer server. */
export interface Unknown {
  type: string;
  v: number;
}

/** A subscription to end. */
export interface UnsubscribeParams {
  /** the subscription. */
  sub: string;
}

/** Where it was. */
export interface UnsubscribeResult {
  /** to continue from later. */
  position: string;
}

/** A piece of a file that is sent before the prompt it goes with. The pieces of a file come in order. */
export interface UploadParams {
  /** how many bytes the whole file has; the same in each piece. */
  size: number;
  /** the piece, as base64. */
  data: string;
  /** what the first piece was answered with; None: this is the first. */
  upload?: string | null;
}

/** Where an upload is. */
export interface UploadResult {
  /** its reference. It can be attached once all of it has come, for an hour. */
  upload: string;
  /** how many bytes have come. Those of an unfinished upload are dropped when its connection ends. */
  received: number;
}

/** Tokens as counted by the host. */
export interface Usage {
  /** prompt tokens that came from no cache. */
  input: number;
  /** all generated tokens, reasoning among them. */
  output: number;
  /** prompt tokens read from a cache. */
  cache_read: number;
  /** prompt tokens written to a cache. */
  cache_write: number;
  /** the part of `output` that was reasoning. */
  reasoning: number;
}

/** Input of the user, or of the engine, according to `origin`. */
export interface UserMessage {
  type: "user";
  /** Where it is not a part of another document. */
  v?: number;
  id: string;
  /** what the model reads. */
  parts: (TextPart | ImagePart | FilePart)[];
  origin: "user" | "steer" | "queue" | "engine" | "summary" | "continue";
  /** what a client shows instead, if different. */
  display: string | null;
}

/** The versions of the protocol that one side speaks. */
export interface VersionRange {
  /** the lowest. */
  min: number;
  /** the highest. */
  max: number;
}

/** How long to wait for the end of a turn. */
export interface WaitParams {
  /** the session. */
  session_id: string;
  /** the turn. */
  turn_id: string;
  /** in seconds; 0: only look. */
  timeout?: Float;
}

/** How the turn ended. */
export interface WaitResult {
  /** "over", or "pending" if the time was over before. */
  state: "over" | "pending";
  /** how it ended. */
  result: TurnResult | null;
}

/** A question is waiting for an answer. */
export interface Waiting {
  type: "waiting";
  /** Where it is not a part of another document. */
  v?: number;
  request_ids: string[];
}

/** Which sessions to watch as a list. */
export interface WatchParams {
  /** only those with this working directory. */
  cwd?: string | null;
  /** only those with this status. */
  status?: "idle" | "busy" | "waiting" | "interrupted" | null;
}

/** A subscription to the list of sessions. */
export interface WatchResult {
  /** names it in notifications. */
  sub: string;
}

/** A session in a watched list. */
export interface WatchedRow {
  /** as in `session.list`. */
  row: SessionRow;
  /** the number of open questions of it and its sub-agents. */
  waiting: number;
  /** when the oldest of them was asked. */
  waiting_since: Float | null;
}

/** The server's limits. */
export interface WireLimits {
  /** the maximum size of a client's message. */
  message_bytes: number;
  /** the maximum number of messages in a batch. */
  batch: number;
  /** how many requests of a connection may run at once. */
  in_flight: number;
  /** how many subscriptions a connection may have. */
  subscriptions: number;
  /** the maximum size of an upload. */
  upload_bytes: number;
}

export interface Methods {
  "hello": { params: HelloParams; result: HelloResult };
  "ping": { params: PingParams; result: PingResult };
  "server.status": { params: NoParams; result: ServerStatusResult };
  "server.drain": { params: ServerDrainParams; result: ServerDrainResult };
  "rpc.cancel": { params: RpcCancelParams; result: RpcCancelResult };
  "clients": { params: NoParams; result: ClientsResult };
  "session.create": { params: SessionCreateParams; result: SessionCreateResult };
  "session.list": { params: SessionListParams; result: SessionListResult };
  "session.get": { params: SessionParams; result: SessionGetResult };
  "session.search": { params: SessionSearchParams; result: SessionSearchResult };
  "session.rename": { params: SessionRenameParams; result: SeqResult };
  "session.configure": { params: SessionConfigureParams; result: SeqResult };
  "session.fork": { params: SessionForkParams; result: SessionCreateResult };
  "session.delete": { params: SessionDeleteParams; result: SessionDeleteResult };
  "session.close": { params: SessionParams; result: SessionCloseResult };
  "session.export": { params: SessionExportParams; result: SessionExportResult };
  "session.usage": { params: SessionUsageParams; result: SessionUsageResult };
  "subscribe": { params: SubscribeParams; result: SubscribeResult };
  "unsubscribe": { params: UnsubscribeParams; result: UnsubscribeResult };
  "snapshot": { params: SnapshotParams; result: FamilySnapshot };
  "messages": { params: MessagesParams; result: MessagesResult };
  "events": { params: EventsParams; result: EventsResult };
  "watch": { params: WatchParams; result: WatchResult };
  "upload": { params: UploadParams; result: UploadResult };
  "prompt": { params: PromptParams; result: PromptResult };
  "queue": { params: QueueParams; result: QueueResult };
  "queue.remove": { params: QueueRemoveParams; result: QueueRemoveResult };
  "steer": { params: SteerParams; result: InputResult };
  "cancel": { params: CancelParams; result: CancelResult };
  "resume": { params: ResumeParams; result: ResumeResult };
  "wait": { params: WaitParams; result: WaitResult };
  "skip_wait": { params: TurnParams; result: SkipWaitResult };
  "asked": { params: QuestionListParams; result: QuestionListResult };
  "permission.reply": { params: PermissionReplyParams; result: PermissionReplyResult };
  "question.answer": { params: QuestionAnswerParams; result: SeqResult };
  "recovery.answer": { params: RecoveryAnswerParams; result: SeqResult };
  "attend": { params: AttendParams; result: AttendResult };
  "undo": { params: UndoParams; result: UndoResult };
  "redo": { params: UndoParams; result: UndoResult };
  "rewind": { params: RewindParams; result: UndoResult };
  "rewind.points": { params: SessionParams; result: RewindPointsResult };
  "rewind.preview": { params: RewindPreviewParams; result: RewindPreviewResult };
  "diff": { params: DiffParams; result: DiffResult };
  "restore": { params: RestoreParams; result: RestoreResult };
  "compact": { params: CompactParams; result: CompactResult };
  "compact.undo": { params: SessionParams; result: SeqResult };
  "context": { params: SessionParams; result: ContextResult };
  "model.list": { params: NoParams; result: ModelListResult };
  "model.set": { params: ModelSetParams; result: SeqResult };
  "agent.list": { params: OptionalSessionParams; result: AgentListResult };
  "tool.list": { params: OptionalSessionParams; result: ToolListResult };
  "call.settle": { params: CallSettleParams; result: SeqResult };
  "output.read": { params: OutputReadParams; result: OutputReadResult };
  "grant.list": { params: OptionalSessionParams; result: GrantListResult };
  "grant.revoke": { params: GrantRevokeParams; result: GrantRevokeResult };
}

export interface ServerNotifications {
  "events": EventsNote;
  "head": HeadNote;
  "resync": ResyncNote;
  "tick": TickNote;
  "sessions": SessionsNote;
  "clients": ClientsNote;
  "server.draining": DrainingNote;
  "server.ignored": IgnoredNote;
}

export interface ClientNotifications {
  "tock": TockParams;
  "rpc.cancel": RpcCancelParams;
}
