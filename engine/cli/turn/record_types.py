"""What `engine run --output json` prints, as classes: `engine schema` is made from them."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from engine.core.events import StopReason
from engine.core.value_base import Value

OutputMode = Literal["text", "json", "stream-json"]
# Fields are only added while this number stays.
SCHEMA: Final = 1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UsageRecord(Value):
    """Tokens by kind.

    Attributes:
        input: of prompts, besides those that a cache had.
        output: of answers.
        cache_read: of prompts, read from the provider's cache.
        cache_write: of prompts, written to it.
        reasoning: of answers, for thinking; a part of `output`.
        total: all of them.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    total: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CostRecord(Value):
    """What the turn cost, in dollars.

    Attributes:
        usd: all of it, sub-agents included; null: the price is unknown.
        known: whether the price is known.
        by_model: of each model.
        sub_agents: of the sub-agents.
        overshoot_usd: by how much it exceeds `--max-cost`; null: there was no limit.
    """

    usd: float | None
    known: bool
    by_model: dict[str, float]
    sub_agents: float
    overshoot_usd: float | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallCounts(Value):
    """How the tool calls ended, those of sub-agents included."""

    completed: int
    failed: int
    denied: int
    aborted: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChangedFile(Value):
    """A file that the turn changed.

    Attributes:
        path: relative to the project.
        change: what happened to it.
        added: lines.
        removed: lines.
        undoable: whether `engine sessions undo` can restore it.
    """

    path: str
    change: Literal["created", "changed", "deleted"]
    added: int
    removed: int
    undoable: bool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DeniedCall(Value):
    """A call that was denied.

    Attributes:
        call_id: its id, as in the events.
        tool: the tool.
        permission: what it needed; null: unknown.
        pattern: for what, such as a path; null: unknown.
        why: "unattended": there was no user to ask; else the reason in words.
        allow_with: flags that would have allowed it; null: none are advised, since what it does can't be analysed.
    """

    call_id: str
    tool: str
    permission: str | None
    pattern: str | None
    why: str
    allow_with: str | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StdinRecord(Value):
    """What standard input added to the task.

    Attributes:
        state: "timeout": a pipe sent nothing in time.
        bytes: how much was read.
    """

    state: Literal["none", "read", "timeout"]
    bytes: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttachmentRecord(Value):
    """A file of the task.

    Attributes:
        path: as the task names it.
        kind: text, folder or media.
        bytes: its size.
        sent_as: how the model got it.
    """

    path: str
    kind: str
    bytes: int
    sent_as: Literal["text", "media"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ErrorRecord(Value):
    """What went wrong.

    Attributes:
        code: what failed, or the stop reason.
        http_status: the status of the provider's response; null: there was none.
        message: for a person.
        next: what to do; null: unknown.
        request_id: the provider's id of the request; null: unknown.
    """

    code: str
    http_status: int | None
    message: str
    next: str | None
    request_id: str | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InitRecord(Value):
    """The first line of `--output stream-json`.

    Attributes:
        schema: fields are only added while this number stays.
        session_id: the session.
        cwd: its working directory.
        model: its model.
        agent: its agent; empty: none.
        version: of the engine.
    """

    type: Literal["init"] = "init"
    schema: int = SCHEMA
    session_id: str
    cwd: str
    model: str
    agent: str
    version: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RunResult(Value):
    """The final record of a run. Null: unknown, or nothing was sent.

    Attributes:
        schema: fields are only added while this number stays.
        session_id: for `engine run --resume` and `engine sessions show`.
        turn_id: the turn.
        stop_reason: why it ended.
        exit_code: of the process.
        detail: why it ended, in words.
        text: the last message.
        output: the value of an answer with `--schema`.
        seconds: how long it took.
        steps: requests to the model, those of sub-agents included.
        models: the models that were asked.
        retries: requests that were sent again.
        durable: whether the session is saved.
        usage: tokens.
        cost: dollars.
        calls: how the tool calls ended.
        changed_files: the files that the turn changed; null: unknown.
        denied: the calls that were denied.
        left_running: ids of processes that still run.
        stdin: what standard input added.
        attachments: the files of the task.
        reset_at: when a rate limit is lifted, in seconds since the epoch.
        error: what went wrong; null: nothing did.
    """

    type: Literal["result"] = "result"
    schema: int = SCHEMA
    session_id: str | None = None
    turn_id: str | None = None
    stop_reason: StopReason | None = None
    exit_code: int
    detail: str
    text: str = ""
    output: object = None
    seconds: float | None = None
    steps: int | None = None
    models: tuple[str, ...] | None = None
    retries: int | None = None
    durable: bool | None = None
    usage: UsageRecord | None = None
    cost: CostRecord | None = None
    calls: CallCounts | None = None
    changed_files: tuple[ChangedFile, ...] | None = None
    denied: tuple[DeniedCall, ...] | None = None
    left_running: tuple[int, ...] | None = None
    stdin: StdinRecord | None = None
    attachments: tuple[AttachmentRecord, ...] | None = None
    reset_at: float | None = None
    error: ErrorRecord | None = None
