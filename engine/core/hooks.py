"""Hooks: a host's own functions at fixed points, in one frozen record.

A hook is an async callable. It gets one small value, its subject, and returns a decision, or None for no decision. It
runs in the call's, or the turn's, own cancel
scope and has a deadline: its own attribute `timeout` if it has one, in seconds, else
`Settings.hook_timeout`. Its `name`, or the function's name, is recorded with its decision. A hook that raises or hangs
is reported in a `Notice`; `before_tool` and `permission_request` then deny the call, and the others have no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, cast

import attrs

from engine.core.errors import ConfigError
from engine.core.events import CompactionTrigger, TurnResult
from engine.core.ids import CallId, RequestId, SessionId
from engine.core.llm_types import ModelRequest
from engine.core.messages import Message, Settlement, Transcript, UserMessage
from engine.core.value_base import Value

# -- what hooks look at ----------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Subject(Value):
    """The fields of every subject.

    Attributes:
        session_id: the session.
        cwd: its working directory.
    """

    session_id: SessionId
    cwd: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolUse(Subject):
    """The subject of a tool hook; `settlement` is set only after the tool."""

    call_id: CallId
    tool: str
    arguments: str
    settlement: Settlement | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionRequested(Subject):
    """The subject of a permission hook: the user is about to be asked.

    Attributes:
        call_id: the call.
        tool: its name.
        arguments: as JSON text.
        permission: the kind of right.
        patterns: what it applies to.
        offers: what "always" would allow, narrowest first.
        detail: for the user.
        is_ruled: a rule or another hook requires the question, so no hook's "allow" can answer it.
    """

    call_id: CallId
    tool: str
    arguments: str
    permission: str
    patterns: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    detail: str = ""
    is_ruled: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Prompted(Subject):
    """The subject of a prompt hook: the user's words, before the model sees them.

    Attributes:
        text: what the user wrote.
        message: the message as the model would read it, with attachments; its `origin` says where it comes from.
    """

    text: str
    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionStarting(Subject):
    """The subject of a start hook: a session is new, or comes from the store."""

    source: Literal["new", "resumed"]
    model: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionEnding(Subject):
    """The subject of an end hook: the engine is being closed."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Stopping(Subject):
    """The subject of a stop hook: the model has finished.

    Attributes:
        text: its last text.
        already_blocked: how often a hook has made it continue in this turn.
        agent: the name of the agent, if it has one.
    """

    text: str
    already_blocked: int
    agent: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Compacting(Subject):
    """The subject of a hook before a compaction.

    Attributes:
        trigger: the window is full, a request was too large, or the user asked for it.
        messages: the number of messages in the history.
        instructions: what the user wants the summary to consider.
        transcript: the current history.
    """

    trigger: CompactionTrigger
    messages: int
    instructions: str = ""
    transcript: Transcript = attrs.field(factory=Transcript, eq=False, repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Compacted(Subject):
    """The subject of a hook after a compaction: the new history."""

    trigger: CompactionTrigger
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Idling(Subject):
    """The subject of an idle hook: no turn is running and no input waits; `result` is the last turn's."""

    result: TurnResult


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Notified(Subject):
    """The subject of a notification hook: a question is waiting for the user.

    Attributes:
        kind: a permission question, a tool's question, or a model that can't be reached.
        text: the question in short.
        request_id: the question's id.
    """

    kind: Literal["permission", "question", "recovery"]
    text: str
    request_id: RequestId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Requesting(Subject):
    """The subject of a request hook: the request that is about to be sent.

    Attributes:
        request: the complete request.
        step: the number of the step in the turn.
        attempt: the number of the attempt in the step; above 1, an earlier one failed.
    """

    request: ModelRequest
    step: int
    attempt: int


# -- what hooks decide -----------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Remark(Value):
    """The decision that any hook may return: `message` is shown to users as a `Notice`."""

    message: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Context(Remark):
    """An addition that many hooks may return: `context` becomes a message to the model, and stays in the transcript."""

    context: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolDecision(Context):
    """The decision of a tool hook.

    Attributes:
        verdict: before the tool: `"deny"` is final; `"ask"` makes it a question; `"allow"` answers a question that only
            the default mode would ask; it overrules no rule.
        reason: for the model if the call is denied; for the user if it becomes a question or the turn stops.
        arguments: before the tool: other arguments, as JSON text, validated like the first ones.
        text: after the tool: what the model reads instead of the result.
        stop: let the calls settle, then end the turn (C11).
        stop_reason: for the user only, instead of `reason`.
    """

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    arguments: str | None = None
    text: str | None = None
    stop: bool = False
    stop_reason: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionDecision(Remark):
    """The decision of a permission hook.

    Attributes:
        verdict: `"deny"` is final; `"allow"` answers the question unless a rule requires it.
        reason: for the model, if the call is denied.
        arguments: with "allow", other arguments, as JSON text, validated like the first ones.
        stop: let the calls settle, then end the turn (C11).
        stop_reason: for the user.
    """

    verdict: Literal["none", "allow", "deny"] = "none"
    reason: str = ""
    arguments: str | None = None
    stop: bool = False
    stop_reason: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptDecision(Context):
    """The decision of a prompt hook: `"block"` removes the prompt and ends the turn, with `reason` for the user."""

    verdict: Literal["pass", "block"] = "pass"
    reason: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestDecision(Context):
    """The decision of a request hook: `stop` ends the turn, unsent, with `reason` for the user."""

    stop: bool = False
    reason: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StopDecision(Remark):
    """The decision of a stop hook: end the turn, continue with `reason` for the model, or stop with `reason`."""

    verdict: Literal["pass", "block", "prevent"] = "pass"
    reason: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionDecision(Remark):
    """The decision of a hook before a compaction.

    Attributes:
        verdict: `"block"` leaves the history unchanged.
        reason: for the user, if blocked.
        instructions: added to the summary's prompt; those of several hooks are joined.
        prompt: replaces the summary's prompt; the conversation follows it.
        summary: the summary itself; no model is asked for one.
        continues: False: the turn ends after the compaction, even if its work is not finished.
    """

    verdict: Literal["pass", "block"] = "pass"
    reason: str = ""
    instructions: str = ""
    prompt: str = ""
    summary: str = ""
    continues: bool = True


ToolHook = Callable[[ToolUse], Awaitable[ToolDecision | None]]
PermissionHook = Callable[[PermissionRequested], Awaitable[PermissionDecision | None]]
PromptHook = Callable[[Prompted], Awaitable[PromptDecision | None]]
RequestHook = Callable[[Requesting], Awaitable[RequestDecision | None]]
StopHook = Callable[[Stopping], Awaitable[StopDecision | None]]
SessionStartHook = Callable[[SessionStarting], Awaitable[Context | None]]
SessionEndHook = Callable[[SessionEnding], Awaitable[Remark | None]]
CompactingHook = Callable[[Compacting], Awaitable[CompactionDecision | None]]
CompactedHook = Callable[[Compacted], Awaitable[Context | None]]
IdleHook = Callable[[Idling], Awaitable[Remark | None]]
NotificationHook = Callable[[Notified], Awaitable[Remark | None]]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Hooks(Value):
    """All hooks, each an ordered tuple.

    Attributes:
        session_start: a session is new, or comes from the store.
        user_prompt: the user has sent a prompt, which the model has not seen.
        request: a request is about to be sent.
        before_tool: a call's arguments are valid; no permission was asked for yet.
        permission_request: the user is about to be asked.
        after_tool: a tool's body has ended, successful or not.
        tool_failed: it failed; runs after `after_tool`.
        stop: the model has ended its answer.
        sub_agent_stop: the same for a sub-agent, for which `stop` is not run.
        task_completed: the turn is about to end as `completed`; all other hooks have agreed.
        before_compaction: the history is about to be summarised.
        after_compaction: the history was summarised.
        notification: a question is waiting for the user.
        idle: no turn is running, and no input waits.
        session_end: the engine is being closed.
    """

    session_start: tuple[SessionStartHook, ...] = ()
    user_prompt: tuple[PromptHook, ...] = ()
    request: tuple[RequestHook, ...] = ()
    before_tool: tuple[ToolHook, ...] = ()
    permission_request: tuple[PermissionHook, ...] = ()
    after_tool: tuple[ToolHook, ...] = ()
    tool_failed: tuple[ToolHook, ...] = ()
    stop: tuple[StopHook, ...] = ()
    sub_agent_stop: tuple[StopHook, ...] = ()
    task_completed: tuple[StopHook, ...] = ()
    before_compaction: tuple[CompactingHook, ...] = ()
    after_compaction: tuple[CompactedHook, ...] = ()
    notification: tuple[NotificationHook, ...] = ()
    idle: tuple[IdleHook, ...] = ()
    session_end: tuple[SessionEndHook, ...] = ()

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Hooks):
            value = cast("object", getattr(self, field.name))
            if not isinstance(value, tuple):
                raise ConfigError(f"hooks stand in a tuple: {field.name}=(hook,), not {value!r}")

    def then(self, other: Hooks) -> Hooks:
        """Return these hooks followed, at each point, by those of *other*."""
        mine, theirs = attrs.asdict(self, recurse=False), attrs.asdict(other, recurse=False)
        return Hooks(**{point: (*hooks, *theirs[point]) for point, hooks in mine.items()})
