"""The values that a context keeper and a turn exchange about a compaction: request, result, and the model for summaries."""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

from engine.core.events import CompactionTrigger
from engine.core.llm_types import ModelInfo
from engine.core.messages import FinishReason, Message
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionRequest(Value):
    """How to summarise the history.

    Attributes:
        trigger: the window is full, a request was too large, or the user asks for it.
        instructions: added to the summary's prompt.
        prompt: replaces the keeper's prompt for the summary; the conversation follows it.
        summary: the summary itself; no model is asked for one.
        continues: whether a model that was in the middle of its work is asked to continue.
        start: so many messages at the beginning stay as they are; only what follows is summarised.
    """

    trigger: CompactionTrigger
    instructions: str = ""
    prompt: str = ""
    summary: str = ""
    continues: bool = True
    start: int = 0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Compaction(Value):
    """A shortened history.

    Attributes:
        messages: the new history.
        source: how many messages were summarised; 0: room was made in another way.
        digest: a hash of those messages.
        before: the estimated tokens of the next request without the compaction.
        after: its estimated tokens now.
        is_continued: whether the last message, from the engine, asks the model to continue.
        remark: for the user, for instance that no model wrote the summary.
    """

    messages: tuple[Message, ...]
    source: int = 0
    digest: str = ""
    before: int = 0
    after: int = 0
    is_continued: bool = False
    remark: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NotCompacted(Value):
    """The history was not changed.

    Attributes:
        reason: "failed": there is no summary; another time there may be one. "ineffective": there is nothing that a
            summary could make shorter, or not by enough.
        detail: why, for the user: the error, or what fills the window.
    """

    reason: Literal["failed", "ineffective"]
    detail: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelReply(Value):
    """A model's answer to a request outside the steps of a turn.

    Attributes:
        calls: the tools it called. None was run.
        failure: why there is no answer, or only part of one; empty: it succeeded.
        is_too_long: whether it failed because the request is larger than the window.
    """

    text: str = ""
    finish: FinishReason | None = None
    calls: tuple[str, ...] = ()
    failure: str = ""
    is_too_long: bool = False


class Summariser(Protocol):
    """A model for requests outside the steps of a turn."""

    @property
    def info(self) -> ModelInfo:
        """Its limits."""
        ...

    def new_id(self, kind: str) -> str:
        """Return a fresh identifier."""
        ...

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        """Make a request without tools. A checkpoint; raises no ordinary exception.

        Its tokens count for the turn, even if it is cancelled.
        """
        ...
