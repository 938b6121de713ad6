"""The context report: what fills the window, as a value, a text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from engine.compaction.prune import CLEARED
from engine.compaction.roles import is_users
from engine.compaction.token_estimate import (
    MESSAGE,
    Window,
    message_tokens,
    part_tokens,
    result_tokens,
    text_tokens,
    tool_tokens,
)
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    Message,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)
from engine.core.prompt_section import PromptSection
from engine.core.protocols import ContextView

_WIDTH: Final = 24
_BRIEF: Final = 4
_SKILLS: Final = frozenset({"skill"})


@attrs.frozen
class Share:
    """What one kind of thing takes of the window.

    Attributes:
        kind: what it is: `system`, `tools`, `results of read`.
        tokens: estimated.
        count: of how many things.
    """

    kind: str
    tokens: int
    count: int = 1


@attrs.frozen(kw_only=True)
class ContextReport:
    """What fills the window.

    Attributes:
        model: whose window it is.
        context: tokens of the window.
        usable: what the next request may take of it.
        tokens: what it takes.
        is_counted: that is a count of the host and an estimate of what came since; else, all is estimated.
        shares: by kind, the largest first; together they are `tokens`.
        pinned: what a summary leaves as it is, of that.
    """

    model: str
    context: int
    usable: int
    tokens: int
    is_counted: bool
    shares: tuple[Share, ...]
    pinned: int = 0

    @property
    def free(self) -> int:
        """How many tokens are left before room has to be made."""
        return max(0, self.usable - self.tokens)

    @property
    def brief(self) -> str:
        """The same in one line: for an error, and for the model."""
        largest = ", ".join(f"{share.kind} {share.tokens:,}" for share in self.shares[:_BRIEF])
        return f"about {self.tokens:,} tokens, of {self.usable:,} that a request may have: {largest or 'nothing'}"

    def as_text(self) -> str:
        """Return it as a table for a person."""
        how = "counted by the host, and estimated since" if self.is_counted else "estimated"
        head = [
            f"{self.model}: about {self.tokens:,} of {self.usable:,} usable tokens ({_percent(self.tokens, self.usable)}), {how}",
            f"window {self.context:,}, free {self.free:,}, kept word for word by a summary {self.pinned:,}",
            "",
        ]
        width = max([len(share.kind) for share in self.shares], default=0)
        rows = [
            f"{share.kind.ljust(width)}  {share.tokens:>9,}  {_percent(share.tokens, self.tokens):>5}  "
            f"{_bar(share.tokens, self.tokens)}  {share.count:,}"
            for share in self.shares
        ]
        return "\n".join([*head, *rows])

    def as_json(self) -> str:
        """Return it as a JSON document."""
        return json.dumps(attrs.asdict(self) | {"free": self.free}, ensure_ascii=False)


def report_of(
    view: ContextView,
    *,
    sections: Sequence[PromptSection] = (),
    tokens: int | None = None,
    is_counted: bool = False,
    pinned: int = 0,
    reserve: int | None = None,
) -> ContextReport:
    """Return what fills the window of the request that *view* shows.

    *sections* are those of the system prompt, if they are known; *tokens* what the whole
    takes, if that is known better than by adding up.
    """
    found: dict[str, tuple[int, int]] = {}
    for kind, size in (*_opening(view, sections), *_messages(view.transcript, view.model.name)):
        before, count = found.get(kind, (0, 0))
        found[kind] = (before + size, count + 1)
    raw = sum(size for size, _ in found.values())
    whole = raw if tokens is None else tokens
    shares = [Share(kind, round(size * whole / max(1, raw)), count) for kind, (size, count) in found.items() if size]
    window = Window.of(view.model, view.max_output, reserve)
    return ContextReport(
        model=view.model.name,
        context=window.context,
        usable=window.usable,
        tokens=whole,
        is_counted=is_counted,
        shares=tuple(sorted(shares, key=lambda share: (-share.tokens, share.kind))),
        pinned=pinned,
    )


def pinned_tokens(view: ContextView) -> int:
    """Return the estimate for what a summary leaves word for word: the first and the newest words of the user, and pins."""
    said = [message for message in view.transcript if is_users(message)]
    records = [m for m in view.transcript if isinstance(m, UserMessage) and m.origin == "summary"]
    carried = sum(
        text_tokens(part.text) for record in records for part in record.parts[1:] if isinstance(part, TextPart)
    )
    words = {message.id: message for message in (*said[:1], *said[-1:])}
    return carried + sum(message_tokens(message, view.model.name) for message in words.values())


def _opening(view: ContextView, sections: Sequence[PromptSection]) -> Iterable[tuple[str, int]]:
    if sections:
        yield from ((_section(section.name), text_tokens(section.text)) for section in sections)
    elif view.system:
        yield "system", text_tokens(view.system)
    yield from (("tools", tool_tokens(tool)) for tool in view.tools)


def _section(name: str) -> str:
    kind = name.partition(":")[0]
    return kind if kind in {"instructions", "skills"} else "system"


def _messages(messages: Iterable[Message], model: str) -> Iterable[tuple[str, int]]:
    for message in messages:
        match message:
            case UserMessage():
                yield from _said(message, model)
            case AssistantMessage():
                for part in message.parts:
                    yield _kind(part), part_tokens(part)
            case ResultsMessage():
                for result in message.results:
                    size = result_tokens(result.settlement, model)
                    if result.tool in _SKILLS:
                        yield "skills", size
                    elif result.settlement.text.startswith(CLEARED):
                        yield "cleared results", size
                    else:
                        yield f"results of {result.tool}", size


_ORIGINS: Final = {"engine": "reminders", "summary": "summary", "continue": "reminders"}


def _said(message: UserMessage, model: str) -> Iterable[tuple[str, int]]:
    media = tuple(part for part in message.parts if not isinstance(part, TextPart))
    whole = message_tokens(message, model)
    shown = message_tokens(attrs.evolve(message, parts=media), model) - MESSAGE if media else 0
    yield _ORIGINS.get(message.origin, "the user's words"), whole - shown
    if media:
        yield "images and files", shown


def _kind(part: object) -> str:
    match part:
        case TextPart():
            return "the model's words"
        case ReasoningPart():
            return "the model's thinking"
        case CallPart():
            return f"calls of {part.tool}"
        case _:
            return "the host's own tools"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def _bar(part: int, whole: int) -> str:
    return ("#" * round(_WIDTH * part / max(1, whole))).ljust(_WIDTH)
