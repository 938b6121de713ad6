"""Claude Code's hook protocol: a command's reply, and its events at our hook points.

A command reads one JSON object from standard input. With exit code 0 it may print one; with exit code 2 it blocks, and
standard error contains the reason. Other codes are errors that block nothing. `docs/reference/hooks.md` has the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar, cast

import attrs

from engine.core.hooks import Remark, Subject
from engine.tools.claude_hooks.tool_names import Json

# Texts of a reply are truncated to this length.
MAX_CHARS: Final = 10_000
BLOCKS: Final = 2

S = TypeVar("S", bound=Subject)
D = TypeVar("D", bound=Remark)


class BadReply(Exception):
    """A command's reply is malformed or missing: its hook has failed."""


@attrs.frozen(kw_only=True)
class HookOutput:
    """A command's exit code and output."""

    code: int
    output: str
    errors: str


@attrs.frozen(kw_only=True)
class HookReply:
    """A command's reply, for any event.

    Attributes:
        blocked: the reason, if the exit code is 2.
        decision: `"approve"`, `"block"` or empty.
        reason: the reason for the decision.
        is_stop: whether it demands the end of the turn.
        stop_reason: the reason for that, for the user.
        message: a message to the user.
        text: its output, if that is not JSON.
        specific: the fields of this event.
    """

    blocked: str | None = None
    decision: str = ""
    reason: str = ""
    is_stop: bool = False
    stop_reason: str = ""
    message: str = ""
    text: str = ""
    specific: Json = attrs.field(factory=dict[str, object])

    @property
    def objection(self) -> str | None:
        """The reason for blocking, in either form; None if it does not block."""
        if self.blocked is not None:
            return self.blocked
        return self.reason if self.decision == "block" else None

    @property
    def context(self) -> str:
        """Its text for the model."""
        return text_of(self.specific, "additionalContext")


@attrs.frozen(kw_only=True)
class HookPoint(Generic[S, D]):
    """An event of the protocol at one of our hook points.

    Attributes:
        event: its name.
        matched: the names that a matcher is compared with; empty: there are none; None: the event doesn't happen.
        input: the fields that a command reads in addition to the common ones.
        read_reply: turns a reply into a decision.
        views: the parts of a subject that a command is asked about one by one; empty: it is asked about the whole.
        combine: combines the decisions on the views.
    """

    event: str
    matched: Callable[[S], tuple[str, ...] | None]
    input: Callable[[S], Json]
    read_reply: Callable[[HookReply, S], D]
    views: Callable[[S], Sequence[S]] = lambda _: ()
    combine: Callable[[Sequence[S], Sequence[D]], D] | None = None

    def payload(self, subject: S, extra: Json | None = None) -> bytes:
        """Return a command's input, with *extra* fields."""
        common: Json = {
            "session_id": subject.session_id,
            "cwd": subject.cwd,
            "permission_mode": "default",
            "hook_event_name": self.event,
        }
        document = json.dumps(common | self.input(subject) | (extra or {}), ensure_ascii=False)
        # A lone surrogate, half a character from a model, can't be encoded: it is replaced.
        return document.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


# -- a reply, read ---------------------------------------------------------------------


def read(event: str, reply: HookOutput) -> HookReply:
    """Parse a command's reply. Raises `BadReply` if it printed a malformed object."""
    if reply.code == BLOCKS:
        # Standard output is ignored then, even if it is JSON.
        return HookReply(blocked=_cut(reply.errors.strip() or reply.output.strip() or "no reason given"))
    if reply.code != 0:
        first = next(iter(reply.errors.strip().splitlines()), "")
        return HookReply(message=_cut(f"failed with exit code {reply.code}{f': {first}' if first else ''}"))
    printed = reply.output.strip()
    if not printed.startswith("{"):
        return HookReply(text=_cut(printed))
    return _parse_fields(event, _parsed(printed))


def _parsed(printed: str) -> Json:
    try:
        value: object = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise BadReply(f"it printed what begins like a JSON object and is none ({error}): {printed[:200]}") from error
    return cast("Json", value)


def _parse_fields(event: str, document: Json) -> HookReply:
    specific = document.get("hookSpecificOutput", {})
    if not isinstance(specific, dict):
        raise BadReply(f"hookSpecificOutput must be an object, not {specific!r}")
    fields = cast("Json", specific)
    if fields.get("hookEventName", event) != event:
        raise BadReply(f"its hookEventName is {fields.get('hookEventName')!r}, but the event is {event}")
    goes_on = document.get("continue", True)
    if not isinstance(goes_on, bool):
        raise BadReply(f"continue must be true or false, not {goes_on!r}")
    return HookReply(
        decision=one_of(document, "decision", "approve", "block"),
        reason=text_of(document, "reason"),
        is_stop=not goes_on,
        stop_reason=text_of(document, "stopReason"),
        message=text_of(document, "systemMessage"),
        specific=fields,
    )


def one_of(document: Json, name: str, *choices: str) -> str:
    """Return a field with one of *choices*; empty if it is missing. Raises `BadReply` for another value."""
    value = text_of(document, name)
    if value and value not in choices:
        raise BadReply(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def text_of(document: Json, name: str) -> str:
    """Return a text field; empty if it is missing. Raises `BadReply` if it is not a text."""
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise BadReply(f"{name} must be a text, not {value!r}")
    return _cut(value or "")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}… ({len(text) - MAX_CHARS} more characters)"
