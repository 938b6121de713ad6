"""One compaction: select what to summarise, get the summary, check it, and build the new history (T8, T12)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, cast

import attrs
import trio

from engine.compaction.fallback_summary import extract_summary
from engine.compaction.prune import without_media
from engine.compaction.rebuild_history import continue_message, continue_text, parse_summary, rebuild_history
from engine.compaction.split import Selection, split_history, tail_budget
from engine.compaction.summary_prompt import (
    MOST_OUTPUT,
    TEMPLATE,
    Template,
    add_rules,
    find_problem,
    render_message,
    repair_request,
    split_conversation,
    strip_wrapping,
    summary_request,
)
from engine.compaction.token_estimate import WindowEstimate, message_tokens, text_tokens
from engine.compaction.verbatim_parts import Pins, collect_pins, fit_pins
from engine.core.compaction_types import Compaction, CompactionRequest, ModelReply, NotCompacted, Summariser
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.foreign_calls import call_foreign
from engine.core.messages import Message, UserMessage
from engine.core.protocols import ContextView

# The share of the usable window that a compaction must leave free: otherwise the next one would follow at once.
HEADROOM: Final = 0.1
# The share of the usable window for preserved rules and files. Beyond it, the oldest are left to the summary: a long
# session must not get stuck because its rules fill the window.
PINS_SHARE: Final = 0.3
# A summary's expected size, for deciding whether it helps before paying for it.
_EXPECTED_SUMMARY_TOKENS: Final = 1_500
# Above this share, the model is told what fills the window.
_TIGHT: Final = 0.6
# If a history has more pieces, those in the middle are skipped.
_MAX_PIECES: Final = 24
_MIN_PIECE_TOKENS: Final = 500
# The divisors of the piece size for further attempts after a piece was too large.
_DIVISORS: Final = (1, 2, 4)
# A margin for errors of the estimate.
_SAFETY: Final = 0.9
_RULES_DROPPED: Final = "{:,} old rules of the user are no longer preserved word for word"
_FILES_DROPPED: Final = "{:,} files that were touched long ago are no longer listed"
_SKIPPED: Final = (
    "the history is too long for the number of requests: {:,} of {:,} parts, in its middle, were not summarised"
)
_EXTRACTED: Final = "the model's summary was unusable ({problem}); an extract of the history replaces it"

Summarise = Callable[[Sequence[Message], str], Awaitable[str]]


@attrs.frozen
class _Summary:
    """A summary, and a remark for the user about how it was made."""

    text: str
    remark: str = ""


@attrs.frozen(kw_only=True)
class Compactor:
    """The inputs of one compaction, and its steps.

    Attributes:
        tokens: the size of the next request.
        sizes: the estimate for each message, before it is multiplied by *ratio*.
        report: what fills the window, in one line.
    """

    view: ContextView
    request: CompactionRequest
    summariser: Summariser
    window: WindowEstimate
    tokens: int
    sizes: Sequence[int]
    ratio: float
    tail: int | None
    template: Template | None
    summarise: Summarise | None
    report: str

    async def run(self) -> Compaction | NotCompacted:
        """Compact. A checkpoint; if cancelled, nothing has changed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        # A request that is refused for its images needs no summary, and an image is worth little after its turn.
        if self.view.failure == "media" and (bare := without_media(self.view.transcript)) is not None:
            after = self._tokens_after(bare)
            return Compaction(messages=bare, before=self.tokens, after=after, remark="images and files were removed")
        # If the newest messages are what is large, keep fewer of them.
        budget = tail_budget(self.window.usable, self.tail)
        selection, pins = self._select(budget)
        for less in (budget // 4, 0):
            if self._is_worth_it(selection, pins):
                break
            selection, pins = self._select(less)
        # Decided before the request: a summary that frees too little would cost as much as the one that is needed next.
        if not self._is_worth_it(selection, pins):
            return self._truncate_only(selection, pins)
        written = await self._write_summary(selection, pins)
        if isinstance(written, NotCompacted):
            return written
        return self._assemble(selection, pins, written)

    def _select(self, tail: int) -> tuple[Selection, Pins]:
        selection = self._selection(tail)
        return selection, self._pins(self.view.transcript[: selection.start])

    def _truncate_only(self, selection: Selection, pins: Pins) -> Compaction | NotCompacted:
        """Return the history with only the long texts of its newest messages truncated, if that is enough."""
        transcript = self.view.transcript
        bare = (*transcript[: selection.start], *selection.tail)
        messages = (*bare, *continue_message(self.summariser.new_id, self._continue_text(bare)))
        is_shorter = any(new is not old for new, old in zip(selection.tail, transcript[selection.start :], strict=True))
        after = self._tokens_after(messages)
        if self.request.trigger == "manual" or not is_shorter or after > (1 - HEADROOM) * self.window.usable:
            return NotCompacted(reason="ineffective", detail=self._ineffective_detail(selection, pins))
        return Compaction(
            messages=messages,
            before=self.tokens,
            after=after,
            is_continued=_is_continue_message(messages[-1]),
            remark="long texts of the newest messages were truncated",
        )

    def _selection(self, tail: int) -> Selection:
        sizes = [round(size * self.ratio) for size in self.sizes]
        return split_history(self.view.transcript[:], sizes, tail, self.view.model.name)

    def _pins(self, head: Sequence[Message]) -> Pins:
        # Imported here: this loads the modules of tools.
        from engine.compaction.session_facts import file_digests, open_todos

        pins = collect_pins(
            head,
            read_only=self.view.read_only,
            digests=file_digests(self.view.shared),
            todos=open_todos(self.view.shared),
        )
        return fit_pins(pins, round(PINS_SHARE * self.window.usable / max(1.0, self.ratio)))

    # -- is it worth it? -------------------------------------------------------------------

    def _is_worth_it(self, selection: Selection, pins: Pins) -> bool:
        """Return whether there is something to summarise, and whether a summary frees enough."""
        if not any(render_message(message) for message in _unpinned(selection)):
            return False
        if self.request.trigger == "manual":
            return True
        return self._expected_tokens(selection, pins) <= (1 - HEADROOM) * self.window.usable

    def _ineffective_detail(self, selection: Selection, pins: Pins) -> str:
        if not any(render_message(message) for message in _unpinned(selection)):
            return f"there is nothing to summarise. What fills the window: {self.report}"
        after = self._expected_tokens(selection, pins)
        pinned = sum(message_tokens(message, self.view.model.name) for message in selection.pinned)
        return (
            f"a summary would leave about {after:,} tokens of {self.window.usable:,} that a request may have: preserved "
            f"messages take {round(pinned * self.ratio):,}, the newest messages "
            f"{sum(self._size(message) for message in selection.tail):,}. What fills the window: {self.report}"
        )

    def _size(self, message: Message) -> int:
        return round(message_tokens(message, self.view.model.name) * self.ratio)

    def _tokens_after(self, messages: Sequence[Message]) -> int:
        """Return the size of the next request with these messages; the rest of the request stays the same."""
        opening = self.tokens - round(sum(self.sizes) * self.ratio)
        return max(0, opening) + sum(self._size(message) for message in messages)

    # -- the summary ------------------------------------------------------------------------

    async def _write_summary(self, selection: Selection, pins: Pins) -> _Summary | NotCompacted:
        previous = add_rules(parse_summary(selection.previous), pins.dropped_rules)
        # What was written for this very compaction comes first, a model last.
        if self.request.summary.strip():
            return _Summary(self.request.summary.strip(), "a hook wrote the summary")
        if self.summarise is not None:
            return await self._summarise_by_host(self.summarise, selection.head, previous)
        return await self._summarise_by_model(selection.head, previous)

    async def _summarise_by_host(
        self, summarise: Summarise, head: Sequence[Message], previous: str
    ) -> _Summary | NotCompacted:
        """Let the host's function write the summary. A checkpoint if that is one; its errors are reported."""
        text: object = None
        with ErrorBoundary() as boundary:
            text = cast("object", await call_foreign("the summariser", summarise, head, previous))
        if boundary.error is not None:
            return NotCompacted(reason="failed", detail=f"the host's summariser failed: {describe(boundary.error)}")
        if not isinstance(text, str) or not text.strip():
            return NotCompacted(reason="failed", detail=f"the host's summariser returned {text!r:.100}, not text")
        return _Summary(text.strip())

    async def _summarise_by_model(self, head: Sequence[Message], previous: str) -> _Summary | NotCompacted:
        """Ask the summariser, with smaller pieces if they turn out too large for it. A checkpoint."""
        for smaller in _DIVISORS:
            # The summariser may have switched to a fallback model with another window.
            room = self._room(previous) // smaller
            written = await self._in_pieces(head, previous, max(_MIN_PIECE_TOKENS, room))
            if written is not None:
                return written
        name = self.summariser.info.name
        return NotCompacted(
            reason="failed", detail=f"{name}: even a small part of the history is too large for its window"
        )

    async def _in_pieces(self, head: Sequence[Message], previous: str, room: int) -> _Summary | NotCompacted | None:
        """Ask piece by piece, each with the summary so far; None: a piece was too large. A checkpoint."""
        text = previous
        texts = list(split_conversation(head, room))
        unread = max(0, len(texts) - _MAX_PIECES)
        remark = _SKIPPED.format(unread, len(texts)) if unread else ""
        if unread:
            texts[_MAX_PIECES // 2 : -_MAX_PIECES // 2] = []
        # One after the other, each with the summary so far, not all at once: a later part may revoke an earlier decision,
        # and summaries of parts would have to be merged by another request.
        for conversation in texts:
            reply, problem = await self._ask_with_repair(conversation, text)
            if reply.is_too_long:
                return None
            if reply.failure:
                return NotCompacted(reason="failed", detail=reply.failure)
            if problem:
                # The window is full, so the turn can't go on without some summary.
                return _Summary(
                    extract_summary(head, previous, self._effective_template.most_tokens),
                    _EXTRACTED.format(problem=problem),
                )
            text = strip_wrapping(reply.text, self._effective_template)
        return _Summary(text, remark)

    async def _ask_with_repair(self, conversation: str, previous: str) -> tuple[ModelReply, str]:
        """Ask, and once more if the answer is unusable; return the problem of the last answer. A checkpoint."""
        request, template = self.request, self._effective_template
        prompt_text = summary_request(
            conversation, previous, template, instructions=request.instructions, prompt=request.prompt
        )
        reply = await self._ask(prompt_text)
        problem = find_problem(reply, template, is_free=bool(request.prompt))
        if problem and not reply.failure:
            reply = await self._ask(repair_request(prompt_text, reply.text, problem, template))
            problem = find_problem(reply, template, is_free=bool(request.prompt))
        return reply, problem

    async def _ask(self, prompt_text: str) -> ModelReply:
        return await self.summariser.ask(self._effective_template.system, prompt_text, max_output=self._max_output)

    @property
    def _effective_template(self) -> Template:
        """The template, with a shorter limit in a small window."""
        template = self.template or TEMPLATE
        return attrs.evolve(
            template, most_tokens=min(template.most_tokens, max(_MIN_PIECE_TOKENS, self.window.usable // 6))
        )

    @property
    def _max_output(self) -> int:
        return min(self.summariser.info.output, MOST_OUTPUT, max(1_024, self._context // 8))

    @property
    def _context(self) -> int:
        """The summariser's window. If it is the turn's own model, refused requests may have shown a smaller one."""
        info = self.summariser.info
        return min(info.context, self.window.context) if info.name == self.view.model.name else info.context

    def _room(self, previous: str) -> int:
        """Return how many tokens of the conversation fit into the summariser's window."""
        fixed_text = (
            self._effective_template.system
            + self._effective_template.form
            + self.request.instructions
            + self.request.prompt
        )
        reserved = (
            self._max_output
            + max(text_tokens(previous), self._effective_template.most_tokens)
            + text_tokens(fixed_text)
        )
        return round((self._context - reserved) * _SAFETY / max(1.0, self.ratio))

    # -- the new history --------------------------------------------------------------------

    def _assemble(self, selection: Selection, pins: Pins, written: _Summary) -> Compaction | NotCompacted:
        messages = self._new_history(selection, pins, written.text)
        after = self._tokens_after(messages)
        if self.request.trigger != "manual" and after > (1 - HEADROOM) * self.window.usable:
            detail = f"the summary leaves about {after:,} tokens of {self.window.usable:,}. What fills the window: {self.report}"
            return NotCompacted(reason="ineffective", detail=detail)
        source = hashlib.blake2b(digest_size=16)
        for message in selection.head:
            source.update(render_message(message).encode("utf-8", "surrogatepass"))
        return Compaction(
            messages=messages,
            source=len(selection.head),
            digest=source.hexdigest(),
            before=self.tokens,
            after=after,
            is_continued=_is_continue_message(messages[-1]),
            remark="; ".join(filter(None, (written.remark, *_dropped_remarks(pins)))),
        )

    def _new_history(self, selection: Selection, pins: Pins, summary: str) -> tuple[Message, ...]:
        new_id = self.summariser.new_id
        # Built twice: the last message says how full the window stays, which only the other messages decide.
        bare = rebuild_history(selection, summary, pins, _placeholder_id)
        return rebuild_history(selection, summary, pins, new_id, go_on=self._continue_text(bare))

    def _expected_tokens(self, selection: Selection, pins: Pins) -> int:
        """Return the expected size of the next request, with a summary of ordinary length."""
        messages = rebuild_history(selection, "", pins, _placeholder_id)
        return self._tokens_after(messages) + text_tokens(self._continue_text(messages)) + _EXPECTED_SUMMARY_TOKENS

    def _continue_text(self, messages: Sequence[Message]) -> str:
        if self.request.trigger == "manual" or not self.request.continues:
            return ""
        is_tight = self._tokens_after(messages) > _TIGHT * self.window.usable
        report = (
            f"The window stays nearly full, so read little at a time; before the summary it held {self.report}."
            if is_tight
            else ""
        )
        return continue_text(messages, was_too_large=self.view.failure == "overflow", report=report)


def _dropped_remarks(pins: Pins) -> Iterator[str]:
    """Yield remarks about what could not be preserved."""
    if pins.dropped_rule_count:
        yield _RULES_DROPPED.format(pins.dropped_rule_count)
    if pins.dropped_file_count:
        yield _FILES_DROPPED.format(pins.dropped_file_count)


def _unpinned(selection: Selection) -> tuple[Message, ...]:
    """Return the messages of the head that are not kept."""
    return tuple(message for message in selection.head if all(message is not pinned for pinned in selection.pinned))


def _is_continue_message(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "continue"


def _placeholder_id(kind: str) -> str:
    """Return a placeholder id, for a history that is only measured."""
    return kind
