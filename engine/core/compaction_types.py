"""What a context keeper and the turn say to each other about a compaction: the wish, the question, what came of it."""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

from engine.core.events import CompactionTrigger
from engine.core.llm_types import ModelInfo
from engine.core.messages import FinishReason, Message


@attrs.frozen(kw_only=True)
class CompactionRequest:
    """How the history is to be summarised.

    Attributes:
        trigger: the window is full, a request was too large, or somebody asks for it.
        instructions: what the summary has to heed besides.
        prompt: said to the summariser instead of the keeper's own words; the conversation stands behind it.
        summary: the summary itself: nobody is asked for one.
        continues: where the model was in the middle of its work, it is told to go on.
    """

    trigger: CompactionTrigger
    instructions: str = ""
    prompt: str = ""
    summary: str = ""
    continues: bool = True


@attrs.frozen(kw_only=True)
class Compaction:
    """A history that was made shorter.

    Attributes:
        messages: the history from now on.
        source: so many messages are summarised; 0: none, room was made in another way.
        digest: of what they said.
        before: what the next request would have taken of the window, estimated.
        after: what it takes now.
        is_continued: its last message tells the model to go on: no user has said so.
        remark: what else is to be known of it: that the summary is no model's, say.
    """

    messages: tuple[Message, ...]
    source: int = 0
    digest: str = ""
    before: int = 0
    after: int = 0
    is_continued: bool = False
    remark: str = ""


@attrs.frozen(kw_only=True)
class NotCompacted:
    """The history stays as it was.

    Attributes:
        reason: "failed": there is no summary; another time there may be one. "ineffective": there is nothing that a
            summary could make shorter, or not by enough.
        detail: why, for a person: who failed, or what fills the window.
    """

    reason: Literal["failed", "ineffective"]
    detail: str


@attrs.frozen(kw_only=True)
class ModelReply:
    """What a model said to a question beside the steps of a turn.

    Attributes:
        calls: the tools it asked for. None was run.
        failure: why there is no answer, or only a part of it; empty: there is.
        is_too_long: that was because the question is larger than the window.
    """

    text: str = ""
    finish: FinishReason | None = None
    calls: tuple[str, ...] = ()
    failure: str = ""
    is_too_long: bool = False


class Summariser(Protocol):
    """A model that can be asked beside the steps of a turn."""

    @property
    def info(self) -> ModelInfo:
        """Its limits."""
        ...

    def new_id(self, kind: str) -> str:
        """Return a fresh identifier."""
        ...

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        """Ask it, with no tools. A checkpoint; raises nothing ordinary.

        What it takes counts for the turn. If cancelled, what it took so far does.
        """
        ...
