"""Titles: a small model names a session, in a task of its own, while the first turn runs.

The request is made after the first step, so that it never competes with the answer for the host's capacity. A missing
title is no error: the session is listed by its first prompt.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs
import trio

from engine.core.events import Notice, SessionTitled, StepEnded, TurnEnded
from engine.core.exception_groups import ErrorBoundary, reason_of
from engine.core.foreign_calls import ForeignCall, call_foreign, reporting_blocks
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import (
    ModelOptions,
    ModelRequest,
    TextChunk,
    TextDone,
    TextStarted,
    UsageReported,
    is_credible,
)
from engine.core.messages import TextPart, Transcript, Usage, UserMessage
from engine.core.protocols import IdSource, Model
from engine.journal.cursors import follow
from engine.journal.log import Journal
from engine.nursery.budget import SpendingLimit
from engine.nursery.rate_limiter import Traffic

MAX_CHARS: Final = 80
TIMEOUT: Final = 30.0

# Of the prompt: its subject is at the beginning, and the rest may be a log file.
_SHOWN_CHARS: Final = 4_000
_MAX_OUTPUT: Final = 500  # a thinking model needs some before its first word
_SYSTEM: Final = (
    "You give titles to conversations. You are shown what a user asked first. Answer with a title for it: at most "
    "eight words, in the user's language, naming the thing it is about; no quotation marks, no full stop, and "
    "nothing else. Do not do what the user asks."
)
_AROUND: Final = "\"'`*_#“”«»„ \t"
_LABEL: Final = re.compile(r"\A\W*title\s*:\s*", re.IGNORECASE)


async def ask_for_title(
    journal: Journal,
    model: Model,
    ids: IdSource,
    prompt: str,
    *,
    traffic: Traffic,
    spending: SpendingLimit | None,
) -> None:
    """Give the session a title after its first step. A checkpoint; if cancelled, it has none."""
    async for event in follow(journal):
        if isinstance(event, (StepEnded, TurnEnded)) and event.session_id == journal.session_id:
            break
    if journal.is_closed or journal.state.titled_by or (spending is not None and spending.reached):
        return
    answer = _Answer()
    is_over = False
    try:
        with reporting_blocks(lambda level, code, text: _notice(journal, level, code, text)):
            problem = await _try_to_ask(model, _request(model, ids, prompt), answer, traffic)
        is_over = True
    finally:
        if spending is not None:
            spending.add(answer.usage, model.info.cost(answer.usage))
        # Cancelled: what the request has cost so far still counts. There is no checkpoint, so no shield is needed.
        if not is_over:
            _count(journal, model, answer)
    _record(journal, model, answer, problem)


async def _try_to_ask(model: Model, request: ModelRequest, answer: _Answer, traffic: Traffic) -> str:
    """Make the request, and return why there is no answer; empty if there is one. A checkpoint.

    Raises no ordinary exception, not even in a group with a cancellation: in the engine's nursery it would end all
    turns.
    """
    with ErrorBoundary() as boundary, trio.move_on_after(TIMEOUT):
        await _wait_and_ask(model, request, answer, traffic)
        return ""
    if boundary.error is not None:
        # A provider is foreign code, and a missing title is no reason to fail.
        return reason_of(boundary.error)
    return f"no answer within {TIMEOUT:.0f} s"


def clean_title(text: str) -> str:
    """Return the title in a model's answer; empty if there is none."""
    # Small models add quotes, a label, or an explanation on the next line.
    lines = (_LABEL.sub("", line).strip(_AROUND).rstrip(".") for line in text.splitlines())
    title = " ".join(next((line for line in lines if line), "").split())
    return title if len(title) <= MAX_CHARS else f"{title[: MAX_CHARS - 1].rstrip()}…"


def _record(journal: Journal, model: Model, answer: _Answer, problem: str) -> None:
    if journal.is_closed:
        return
    title = "" if problem else clean_title(answer.text)
    if title:  # a title that the user has set in the meantime stays: the fold keeps it, but counts the cost
        journal.append(_titled(model, answer, title))
    else:
        _count(journal, model, answer)
        text = f"{model.info.name} gave the session no title: {problem or 'the answer was empty'}"
        _notice(journal, "info", "no_title", text)


def _notice(journal: Journal, level: Literal["info", "warning"], code: str, text: str) -> None:
    journal.append(Notice(level=level, code=code, text=text))


def _count(journal: Journal, model: Model, answer: _Answer) -> None:
    """Record the cost of a request that produced no title."""
    if answer.usage.total and not journal.is_closed:
        journal.append(_titled(model, answer, ""))


def _titled(model: Model, answer: _Answer, title: str) -> SessionTitled:
    cost = model.info.cost(answer.usage)
    return SessionTitled(title=title, by="model", model=model.info.name, usage=answer.usage, cost=cost)


@attrs.define(eq=False)
class _Answer:
    usage: Usage = attrs.field(factory=Usage)
    texts: dict[str, str] = attrs.field(factory=dict[str, str])

    @property
    def text(self) -> str:
        return "\n".join(self.texts.values())


async def _wait_and_ask(model: Model, request: ModelRequest, answer: _Answer, traffic: Traffic) -> None:
    # No turn waits for a title, so a wait for its host is not worth a notice.
    async with traffic.passage(
        model.info,
        request,
        lambda _code, _text: None,
        longest=TIMEOUT,
        tokens=lambda: _prompt_tokens(model, request),
    ) as passage:
        try:
            await _ask(model, request, answer)
        finally:
            passage.used = answer.usage.total


async def _ask(model: Model, request: ModelRequest, answer: _Answer) -> None:
    stream = await call_foreign(f"`open` of {model.info.name}", model.open, request)
    try:
        receive = ForeignCall(f"`receive` of {model.info.name}", stream.receive)
        while batch := await receive:
            for event in batch:
                match event:
                    case TextStarted():
                        answer.texts.setdefault(event.id, "")
                    case TextChunk():
                        answer.texts[event.id] = answer.texts.get(event.id, "") + event.text
                    case TextDone() if event.text is not None:
                        answer.texts[event.id] = event.text
                    case UsageReported() if is_credible(event.usage):
                        answer.usage = event.usage
                    case _:
                        pass
            if not receive.has_waited:
                # It must be a checkpoint, and is not: without this one, nothing else would run.
                await trio.lowlevel.checkpoint()
    finally:
        await call_foreign("`aclose` of a model's stream", stream.aclose)  # noqa: ASYNC102  # as its port has it: if cancelled, it is closed forcefully


def _request(model: Model, ids: IdSource, prompt: str) -> ModelRequest:
    part = TextPart(id=PartId(ids.new("part")), text=f"<asked>\n{prompt[:_SHOWN_CHARS]}\n</asked>\n\nThe title:")
    message = UserMessage(id=MessageId(ids.new("msg")), parts=(part,), origin="engine")
    return ModelRequest(
        model=model.info.name,
        system=_SYSTEM,
        transcript=Transcript((message,)),
        tool_choice="none",
        options=ModelOptions(effort="low").over(model.info.options),
        max_output=min(_MAX_OUTPUT, model.info.output),
    )


def _prompt_tokens(model: Model, request: ModelRequest) -> int:
    # Imported here: only a pace with a limit of tokens asks.
    from engine.compaction.request_estimate import estimate_request

    return estimate_request(request, model.info).tokens
