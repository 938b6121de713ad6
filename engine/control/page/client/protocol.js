// @ts-check
// Written by `make surface` from the classes of engine/control/protocol: change those.

/** @import * as P from "./engine-control.d.ts" */

/** The versions of the protocol that this client speaks. */
export const PROTOCOL = {"min":1,"max":1};

/**
 * Of each method, who may use it (null: everybody), and whether its requests need a key.
 * @type {{ [M in keyof P.Methods]: { role: P.Role | null, key: boolean } }}
 */
export const METHODS = {
  "hello": {"role":null,"key":false},
  "ping": {"role":null,"key":false},
  "server.status": {"role":"read","key":false},
  "server.drain": {"role":"full","key":false},
  "rpc.cancel": {"role":"read","key":false},
  "clients": {"role":"read","key":false},
  "session.create": {"role":"full","key":true},
  "session.list": {"role":"read","key":false},
  "session.get": {"role":"read","key":false},
  "session.search": {"role":"read","key":false},
  "session.rename": {"role":"full","key":false},
  "session.configure": {"role":"full","key":false},
  "session.fork": {"role":"full","key":true},
  "session.delete": {"role":"full","key":false},
  "session.close": {"role":"full","key":false},
  "session.export": {"role":"read","key":false},
  "session.usage": {"role":"read","key":false},
  "subscribe": {"role":"read","key":false},
  "unsubscribe": {"role":"read","key":false},
  "snapshot": {"role":"read","key":false},
  "messages": {"role":"read","key":false},
  "events": {"role":"read","key":false},
  "watch": {"role":"read","key":false},
  "upload": {"role":"full","key":false},
  "prompt": {"role":"full","key":true},
  "queue": {"role":"full","key":true},
  "queue.remove": {"role":"full","key":false},
  "steer": {"role":"full","key":true},
  "cancel": {"role":"answer","key":false},
  "resume": {"role":"full","key":true},
  "wait": {"role":"read","key":false},
  "skip_wait": {"role":"full","key":false},
  "asked": {"role":"read","key":false},
  "permission.reply": {"role":"answer","key":false},
  "question.answer": {"role":"answer","key":false},
  "recovery.answer": {"role":"answer","key":false},
  "attend": {"role":"answer","key":false},
  "undo": {"role":"full","key":true},
  "redo": {"role":"full","key":true},
  "rewind": {"role":"full","key":true},
  "rewind.points": {"role":"read","key":false},
  "rewind.preview": {"role":"read","key":false},
  "diff": {"role":"read","key":false},
  "restore": {"role":"full","key":false},
  "compact": {"role":"full","key":false},
  "compact.undo": {"role":"full","key":false},
  "context": {"role":"read","key":false},
  "model.list": {"role":"read","key":false},
  "model.set": {"role":"full","key":false},
  "agent.list": {"role":"read","key":false},
  "tool.list": {"role":"read","key":false},
  "call.settle": {"role":"full","key":false},
  "output.read": {"role":"read","key":false},
  "grant.list": {"role":"read","key":false},
  "grant.revoke": {"role":"full","key":false},
};

/** Types of events that are in the record. @type {ReadonlySet<string>} */
export const DURABLE_EVENTS = new Set(["session_created","session_titled","input_admitted","input_promoted","input_edited","input_removed","prompt_blocked","nudge_added","prompt_set","prompt_updated","turn_started","turn_resumed","step_started","step_received","step_ended","loop_continued","retry_scheduled","recovery_asked","recovery_answered","model_switched","session_configured","turn_ended","part_started","part_ended","part_replaced","part_discarded","call_announced","call_queued","call_judged","call_changed","call_started","call_settled","call_delivered","context_changed","permission_asked","permission_answered","question_asked","question_answered","compaction_started","compaction_ended","history_replaced","snapshot_taken","turn_undone","turn_redone","background_started","background_ended","doom_detected","notice"]);

/** Types of events that are for watchers only. @type {ReadonlySet<string>} */
export const LIVE_EVENTS = new Set(["text_delta","reasoning_delta","arguments_delta","call_progress","call_heartbeat","turn_ending"]);

/** After these a client comes back; after all others it stops, and says why. @type {readonly number[]} */
export const RETRIED_CLOSE_CODES = [1001,1005,1006,1011,1012,1013,1014,4408,4429];

/** What a session is before its first event. @type {P.SessionState} */
export const EMPTY_STATE = {"type":"session_state","v":1,"session_id":"","seq":0,"title":"","titled_by":"","model":"","agent":"","parent_id":null,"forked_from":null,"profile":"","profile_by":"","context":{"cwd":"","values":[]},"prompt":null,"transcript":[],"reasoning_from":0,"inbox":[],"turn":null,"last_result":null,"turns":0,"undone":[],"background":[],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"reasoning":0},"cost":0.0,"counted":null};
