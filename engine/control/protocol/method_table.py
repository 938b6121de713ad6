"""All methods of the protocol, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol import watch_methods as wa
from engine.control.protocol.handshake import HelloParams, HelloResult, PingParams, PingResult, Role
from engine.control.protocol.wire_converter import Params


@attrs.frozen
class Method:
    """A row of the table.

    Attributes:
        name: its name.
        params: the class of its params.
        result: the class of its result.
        summary: what it does.
        role: the role that it needs; None: it works for everybody, even before `hello`.
        errors: the kinds of its own errors; those that any method may answer are not repeated.
    """

    name: str
    params: type[Params]
    result: type[object]
    summary: str
    role: Role | None
    errors: tuple[str, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether it has an idempotency key."""
        return any(field.name == "key" for field in attrs.fields(self.params))

    @property
    def needs_key(self) -> bool:
        """Whether it does nothing without an idempotency key."""
        return any(field.name == "key" and field.default is attrs.NOTHING for field in attrs.fields(self.params))


# What any method may answer.
COMMON_ERRORS: Final = (
    "params",
    "internal",
    "overloaded",
    "not_ready",
    "forbidden",
    "too_large",
    "rate_limited",
    "cancelled",
    "store",
)
# Busy, too, where a session is only changed: it may just have been closed.
_CHANGE_ERRORS: Final = ("not_found", "busy", "elsewhere", "draining")
_INPUT_ERRORS: Final = (*_CHANGE_ERRORS, "conflict", "config")
_ANSWER_ERRORS: Final = (*_CHANGE_ERRORS, "already_settled", "parked", "config")
_HISTORY_ERRORS: Final = (*_CHANGE_ERRORS, "nothing_to_do", "parked")
_UNDO_ERRORS: Final = (*_HISTORY_ERRORS, "config", "snapshot")
_FORCE_ERRORS: Final = (*_UNDO_ERRORS, "conflict", "undo_conflict", "undo_incomplete")
# Of a session that is not open here, its files and tools are not known.
_FILE_ERRORS: Final = ("not_found", "busy", "nothing_to_do", "parked", "config", "snapshot", "unsupported")

METHODS: Final[Mapping[str, Method]] = {
    method.name: method
    for method in (
        Method("hello", HelloParams, HelloResult, "Begin: agree on a version.", None, ("unsupported",)),
        Method("ping", PingParams, PingResult, "Show that the server is alive, whatever turns do.", None),
        # -- the server
        Method("server.status", se.NoParams, sv.ServerStatusResult, "Return what the server does.", "read"),
        Method("server.drain", sv.ServerDrainParams, sv.ServerDrainResult, "End the server after a while.", "full"),
        Method(
            "rpc.cancel", sv.RpcCancelParams, sv.RpcCancelResult, "Cancel a running request.", "read", ("unsupported",)
        ),
        Method("clients", se.NoParams, sv.ClientsResult, "Return who is connected.", "read"),
        # -- sessions
        Method(
            "session.create",
            se.SessionCreateParams,
            se.SessionCreateResult,
            "Make a session.",
            "full",
            ("config", "conflict", "draining"),
        ),
        Method(
            "session.list",
            se.SessionListParams,
            se.SessionListResult,
            "List sessions, the newest first.",
            "read",
            ("not_found", "unsupported"),
        ),
        Method("session.get", se.SessionParams, se.SessionGetResult, "Return a session.", "read", ("not_found",)),
        Method(
            "session.search",
            se.SessionSearchParams,
            se.SessionSearchResult,
            "Search the messages of sessions.",
            "read",
            ("unsupported",),
        ),
        Method(
            "session.rename",
            se.SessionRenameParams,
            se.SeqResult,
            "Set the title.",
            "full",
            (*_CHANGE_ERRORS, "config"),
        ),
        Method(
            "session.configure",
            se.SessionConfigureParams,
            se.SeqResult,
            "Change settings that all clients of a session share.",
            "full",
            (*_CHANGE_ERRORS, "config"),
        ),
        Method(
            "session.fork",
            se.SessionForkParams,
            se.SessionCreateResult,
            "Make a session that begins with the history of another.",
            "full",
            (*_CHANGE_ERRORS, "config", "conflict"),
        ),
        Method(
            "session.delete",
            se.SessionDeleteParams,
            se.SessionDeleteResult,
            "Remove a session and its sub-agents' for good.",
            "full",
            ("not_found", "busy", "elsewhere", "unsupported"),
        ),
        Method(
            "session.close",
            se.SessionParams,
            se.SessionCloseResult,
            "Close a session, so that another engine may open it.",
            "full",
            ("not_found", "busy"),
        ),
        Method(
            "session.export",
            se.SessionExportParams,
            se.SessionExportResult,
            "Export a session.",
            "read",
            ("not_found",),
        ),
        Method(
            "session.usage",
            se.SessionUsageParams,
            se.SessionUsageResult,
            "Sum up what was spent.",
            "read",
            ("unsupported",),
        ),
        # -- watching
        Method(
            "subscribe",
            wa.SubscribeParams,
            wa.SubscribeResult,
            "Get a session's events.",
            "read",
            ("not_found", "config", "unsupported"),
        ),
        Method(
            "unsubscribe",
            wa.UnsubscribeParams,
            wa.UnsubscribeResult,
            "End a subscription.",
            "read",
            ("not_found", "unsupported"),
        ),
        Method("snapshot", wa.SnapshotParams, wa.FamilySnapshot, "Return what is true now.", "read", ("not_found",)),
        Method("messages", wa.MessagesParams, wa.MessagesResult, "Return a page of messages.", "read", ("not_found",)),
        Method("events", wa.EventsParams, wa.EventsResult, "Return a page of events.", "read", ("not_found",)),
        Method("watch", wa.WatchParams, wa.WatchResult, "Watch the list of sessions.", "read", ("unsupported",)),
        # -- turns
        Method(
            "upload",
            tu.UploadParams,
            tu.UploadResult,
            "Send a piece of a file that is too large for a message.",
            "full",
            ("not_found", "conflict", "unsupported"),
        ),
        Method("prompt", tu.PromptParams, tu.PromptResult, "Start a turn.", "full", (*_INPUT_ERRORS, "parked")),
        Method(
            "queue",
            tu.QueueParams,
            tu.QueueResult,
            "Queue input for the next turn.",
            "full",
            _INPUT_ERRORS,
        ),
        Method(
            "queue.remove", tu.QueueRemoveParams, tu.QueueRemoveResult, "Remove queued input.", "full", _CHANGE_ERRORS
        ),
        Method(
            "steer",
            tu.SteerParams,
            tu.InputResult,
            "Send a message to the model in a running turn.",
            "full",
            (*_INPUT_ERRORS, "parked"),
        ),
        Method("cancel", tu.CancelParams, tu.CancelResult, "Cancel a turn.", "answer", (*_CHANGE_ERRORS, "conflict")),
        Method(
            "resume",
            tu.ResumeParams,
            tu.ResumeResult,
            "Continue: with a parked turn, with a new turn after one that a crash has ended, or with what is queued.",
            "full",
            (*_INPUT_ERRORS, "nothing_to_do"),
        ),
        Method("wait", tu.WaitParams, tu.WaitResult, "Wait for the end of a turn.", "read", ("not_found", "conflict")),
        Method(
            "skip_wait",
            tu.TurnParams,
            tu.SkipWaitResult,
            "Send a failed request again now.",
            "full",
            (*_CHANGE_ERRORS, "conflict"),
        ),
        # -- questions
        Method(
            "asked", an.QuestionListParams, an.QuestionListResult, "Return the open questions.", "read", ("not_found",)
        ),
        Method(
            "permission.reply",
            an.PermissionReplyParams,
            an.PermissionReplyResult,
            "Answer a question for permission.",
            "answer",
            _ANSWER_ERRORS,
        ),
        Method(
            "question.answer",
            an.QuestionAnswerParams,
            se.SeqResult,
            "Answer a tool's question.",
            "answer",
            _ANSWER_ERRORS,
        ),
        Method(
            "recovery.answer",
            an.RecoveryAnswerParams,
            se.SeqResult,
            "Say how to continue after the model's host has failed.",
            "answer",
            _ANSWER_ERRORS,
        ),
        Method(
            "attend",
            an.AttendParams,
            an.AttendResult,
            "Show other clients that a user of this one looks at a question.",
            "answer",
            ("not_found", "already_settled", "unsupported"),
        ),
        # -- files and history
        Method("undo", an.UndoParams, an.UndoResult, "Undo the newest turn.", "full", _FORCE_ERRORS),
        Method("redo", an.UndoParams, an.UndoResult, "Redo what was undone or rewound last.", "full", _FORCE_ERRORS),
        Method("rewind", an.RewindParams, an.UndoResult, "Undo a turn and all later ones.", "full", _FORCE_ERRORS),
        Method(
            "rewind.points",
            se.SessionParams,
            an.RewindPointsResult,
            "Return the prompts to which a session can be rewound.",
            "read",
            _FILE_ERRORS,
        ),
        Method(
            "rewind.preview",
            an.RewindPreviewParams,
            an.RewindPreviewResult,
            "Return what rewinding would do to files.",
            "read",
            _FILE_ERRORS,
        ),
        Method("diff", an.DiffParams, an.DiffResult, "Return a turn's changes of files.", "read", _FILE_ERRORS),
        Method("restore", an.RestoreParams, an.RestoreResult, "Restore files.", "full", _FORCE_ERRORS),
        Method(
            "compact",
            tu.CompactParams,
            tu.CompactResult,
            "Summarise the older part of the history.",
            "full",
            _HISTORY_ERRORS,
        ),
        Method(
            "compact.undo",
            se.SessionParams,
            se.SeqResult,
            "Restore the history from before the last summary.",
            "full",
            _HISTORY_ERRORS,
        ),
        Method(
            "context",
            se.SessionParams,
            tu.ContextResult,
            "Return what fills the model's window.",
            "read",
            ("not_found", "unsupported"),
        ),
        # -- models, agents, tools
        Method("model.list", se.NoParams, sv.ModelListResult, "List models, and why some can't be used.", "read"),
        Method(
            "model.set",
            sv.ModelSetParams,
            se.SeqResult,
            "Use another model from the next turn on.",
            "full",
            (*_CHANGE_ERRORS, "config"),
        ),
        Method("agent.list", sv.OptionalSessionParams, sv.AgentListResult, "List the agents.", "read", ("not_found",)),
        Method("tool.list", sv.OptionalSessionParams, sv.ToolListResult, "List the tools.", "read", ("not_found",)),
        Method(
            "call.settle",
            sv.CallSettleParams,
            se.SeqResult,
            "Deliver the result of a call that waits for it.",
            "full",
            (*_CHANGE_ERRORS, "parked"),
        ),
        Method(
            "output.read",
            sv.OutputReadParams,
            sv.OutputReadResult,
            "Read a result that was too long for the transcript.",
            "read",
            ("not_found",),
        ),
        Method(
            "grant.list", sv.OptionalSessionParams, sv.GrantListResult, "List what was allowed.", "read", ("not_found",)
        ),
        Method("grant.revoke", sv.GrantRevokeParams, sv.GrantRevokeResult, "Take back what was allowed.", "full"),
    )
}

SERVER_NOTES: Final[Mapping[str, type[object]]] = {
    "events": wa.EventsNote,
    "head": wa.HeadNote,
    "resync": wa.ResyncNote,
    "tick": wa.TickNote,
    "sessions": wa.SessionsNote,
    "clients": wa.ClientsNote,
    "server.draining": wa.DrainingNote,
    "server.ignored": wa.IgnoredNote,
}
# The only notifications of a client that do something. A method with an effect is not run as one: nobody would learn
# that it failed; and one without has none.
CLIENT_NOTES: Final[Mapping[str, type[Params]]] = {"tock": wa.TockParams, "rpc.cancel": sv.RpcCancelParams}
