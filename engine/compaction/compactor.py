"""One compaction: what is summarised is chosen, the summary is asked for, checked, and put in its place (T8, T12)."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, cast

import attrs
import trio

from engine.compaction.fallback_summary import extracted
from engine.compaction.preserved import Pins, pins_of, within
from engine.compaction.prune import without_media
from engine.compaction.rebuild import go_on_message, go_on_text, history, summary_in
from engine.compaction.split import Selection, select, tail_budget
from engine.compaction.summary_prompt import (
    MOST_OUTPUT,
    TEMPLATE,
    Template,
    pieces,
    problem_of,
    question,
    rendered,
    repair,
    tidied,
    with_rules,
)
from engine.compaction.token_estimate import Window, message_tokens, text_tokens
from engine.core.compaction_types import Compaction, CompactionWish, NotCompacted, Reply, Summariser
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.messages import Message, UserMessage
from engine.core.protocols import ContextView

# A compaction must leave so much of what is usable free: else the next one would follow at once.
HEADROOM: Final = 0.1
# Of what is usable, so much may be taken by rules and files that are carried along; beyond it, the oldest are left to
# the summary: a session must not come to a stop because of all that was ever said in it.
PINS_SHARE: Final = 0.3
# What a summary takes in all likelihood; whether there is room for one is decided before it is paid for.
_LIKELY: Final = 1_500
# Above this, the model is told what fills the window.
_TIGHT: Final = 0.6
# A history is cut into so many pieces at most; what is in the middle of more is left out.
_PIECES: Final = 24
_LEAST_PIECE: Final = 500
# By what a piece is smaller after one was too large.
_SMALLER: Final = (1, 2, 4)
# Estimates may be off.
_SURE: Final = 0.9
_RULES_LEFT_OUT: Final = "{:,} old sentences of the user about how to work are no longer carried along word for word"
_FILES_LEFT_OUT: Final = "{:,} files that were touched long ago are no longer named"
_UNREAD: Final = "so long a history takes too many requests: {:,} of {:,} parts, in its middle, were not summarised"
_TAKEN_OUT: Final = "no summary of a model could be used ({problem}): what stands there was taken out of the history"

Summarise = Callable[[Sequence[Message], str], Awaitable[str]]


@attrs.frozen
class _Written:
    """A summary, and what is to be said of how it came about."""

    text: str
    remark: str = ""


@attrs.frozen(kw_only=True)
class Compactor:
    """All that one compaction needs.

    Attributes:
        tokens: what the next request would take.
        sizes: estimates for the messages, one by one, before they are multiplied by *ratio*.
        report: what fills the window, in a line.
    """

    view: ContextView
    wish: CompactionWish
    summariser: Summariser
    window: Window
    tokens: int
    sizes: Sequence[int]
    ratio: float
    tail: int | None
    template: Template | None
    summarise: Summarise | None
    report: str

    async def run(self) -> Compaction | NotCompacted:
        """Compact. A checkpoint; if cancelled, nothing has happened."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.view.failure == "media" and (bare := without_media(self.view.transcript)) is not None:
            after = self._after(bare)
            return Compaction(messages=bare, before=self.tokens, after=after, remark="images and files were taken out")
        # Where the end is what is large, less of it stays.
        budget = tail_budget(self.window.usable, self.tail)
        selection, pins = self._chosen(budget)
        for less in (budget // 4, 0):
            if self._is_worth_it(selection, pins):
                break
            selection, pins = self._chosen(less)
        if not self._is_worth_it(selection, pins):
            return self._only_cut(selection, pins)
        written = await self._written(selection, pins)
        if isinstance(written, NotCompacted):
            return written
        return self._put_together(selection, pins, written)

    def _chosen(self, tail: int) -> tuple[Selection, Pins]:
        selection = self._selection(tail)
        return selection, self._pins(self.view.transcript[: selection.start])

    def _only_cut(self, selection: Selection, pins: Pins) -> Compaction | NotCompacted:
        """Return the history with nothing but what is long in its newest messages cut, if that is enough."""
        transcript = self.view.transcript
        bare = (*transcript[: selection.start], *selection.tail)
        messages = (*bare, *go_on_message(self.summariser.new_id, self._go_on(bare)))
        is_shorter = any(new is not old for new, old in zip(selection.tail, transcript[selection.start :], strict=True))
        after = self._after(messages)
        if self.wish.trigger == "manual" or not is_shorter or after > (1 - HEADROOM) * self.window.usable:
            return NotCompacted(reason="ineffective", detail=self._why_not(selection, pins))
        return Compaction(
            messages=messages,
            before=self.tokens,
            after=after,
            is_continued=_says_go_on(messages[-1]),
            remark="long texts of the newest messages were cut",
        )

    def _selection(self, tail: int) -> Selection:
        sizes = [round(size * self.ratio) for size in self.sizes]
        return select(self.view.transcript[:], sizes, tail, self.view.model.name)

    def _pins(self, head: Sequence[Message]) -> Pins:
        # Imported here, not above: tools are not what this is about.
        from engine.compaction.session_facts import digests_in, open_todos

        pins = pins_of(
            head,
            read_only=self.view.read_only,
            digests=digests_in(self.view.shared),
            todos=open_todos(self.view.shared),
        )
        return within(pins, round(PINS_SHARE * self.window.usable / max(1.0, self.ratio)))

    # -- whether it helps -----------------------------------------------------------------

    def _is_worth_it(self, selection: Selection, pins: Pins) -> bool:
        """Tell whether there is something to summarise, and whether a summary makes room enough."""
        if not any(rendered(message) for message in _unpinned(selection)):
            return False
        if self.wish.trigger == "manual":
            return True
        return self._likely(selection, pins) <= (1 - HEADROOM) * self.window.usable

    def _why_not(self, selection: Selection, pins: Pins) -> str:
        if not any(rendered(message) for message in _unpinned(selection)):
            return f"there is nothing to summarise. What fills the window: {self.report}"
        after = self._likely(selection, pins)
        pinned = sum(message_tokens(message, self.view.model.name) for message in selection.pinned)
        return (
            f"a summary would leave about {after:,} tokens of {self.window.usable:,} that a request may have: what is kept "
            f"word for word takes {round(pinned * self.ratio):,}, the newest messages "
            f"{sum(self._size(message) for message in selection.tail):,}. What fills the window: {self.report}"
        )

    def _size(self, message: Message) -> int:
        return round(message_tokens(message, self.view.model.name) * self.ratio)

    def _after(self, messages: Sequence[Message]) -> int:
        """Return what the next request takes with these messages: what is not the history takes what it took."""
        opening = self.tokens - round(sum(self.sizes) * self.ratio)
        return max(0, opening) + sum(self._size(message) for message in messages)

    # -- the summary ------------------------------------------------------------------------

    async def _written(self, selection: Selection, pins: Pins) -> _Written | NotCompacted:
        previous = with_rules(summary_in(selection.previous), pins.gone)
        if self.wish.summary.strip():
            return _Written(self.wish.summary.strip(), "the summary is a hook's")
        if self.summarise is not None:
            return await self._own(self.summarise, selection.head, previous)
        return await self._asked(selection.head, previous)

    async def _own(self, summarise: Summarise, head: Sequence[Message], previous: str) -> _Written | NotCompacted:
        """Let the host's function write it. A checkpoint if that is one; what it raises is told."""
        text: object = None
        with ErrorBoundary() as boundary:
            text = cast("object", await summarise(head, previous))
        if boundary.error is not None:
            return NotCompacted(reason="failed", detail=f"the host's summariser failed: {describe(boundary.error)}")
        if not isinstance(text, str) or not text.strip():
            return NotCompacted(reason="failed", detail=f"the host's summariser returned no text but {text!r:.100}")
        return _Written(text.strip())

    async def _asked(self, head: Sequence[Message], previous: str) -> _Written | NotCompacted:
        """Ask the summariser, in smaller pieces where they are too large for it all the same. A checkpoint."""
        for smaller in _SMALLER:
            # By now it may be another model, with another window.
            room = self._room(previous) // smaller
            written = await self._in_pieces(head, previous, max(_LEAST_PIECE, room))
            if written is not None:
                return written
        name = self.summariser.info.name
        return NotCompacted(
            reason="failed", detail=f"{name}: even a small part of the history is too large for its window"
        )

    async def _in_pieces(self, head: Sequence[Message], previous: str, room: int) -> _Written | NotCompacted | None:
        """Ask piece by piece, each time with the summary of what was before; None: a piece was too large. A checkpoint."""
        text = previous
        texts = list(pieces(head, room))
        unread = max(0, len(texts) - _PIECES)
        remark = _UNREAD.format(unread, len(texts)) if unread else ""
        if unread:
            texts[_PIECES // 2 : -_PIECES // 2] = []
        for conversation in texts:
            reply, problem = await self._answered(conversation, text)
            if reply.is_too_long:
                return None
            if reply.failure:
                return NotCompacted(reason="failed", detail=reply.failure)
            if problem:
                return _Written(extracted(head, previous, self._form.most_tokens), _TAKEN_OUT.format(problem=problem))
            text = tidied(reply.text, self._form)
        return _Written(text, remark)

    async def _answered(self, conversation: str, previous: str) -> tuple[Reply, str]:
        """Ask, and once more if the answer will not do; return what is wrong with the last one. A checkpoint."""
        wish, form = self.wish, self._form
        asked = question(conversation, previous, form, instructions=wish.instructions, prompt=wish.prompt)
        reply = await self._ask(asked)
        problem = problem_of(reply, form, is_free=bool(wish.prompt))
        if problem and not reply.failure:
            reply = await self._ask(repair(asked, reply.text, problem, form))
            problem = problem_of(reply, form, is_free=bool(wish.prompt))
        return reply, problem

    async def _ask(self, asked: str) -> Reply:
        return await self.summariser.ask(self._form.system, asked, max_output=self._most_output)

    @property
    def _form(self) -> Template:
        """The form of the summary; in a small window it must be short."""
        chosen = self.template or TEMPLATE
        return attrs.evolve(chosen, most_tokens=min(chosen.most_tokens, max(_LEAST_PIECE, self.window.usable // 6)))

    @property
    def _most_output(self) -> int:
        return min(self.summariser.info.output, MOST_OUTPUT, max(1_024, self._context // 8))

    @property
    def _context(self) -> int:
        """The summariser's window, which is known to be smaller than it says where that of the turn's own model is."""
        info = self.summariser.info
        return min(info.context, self.window.context) if info.name == self.view.model.name else info.context

    def _room(self, previous: str) -> int:
        """Return how many tokens of the conversation the summariser has room for beside all else."""
        told = self._form.system + self._form.told + self.wish.instructions + self.wish.prompt
        beside = self._most_output + max(text_tokens(previous), self._form.most_tokens) + text_tokens(told)
        return round((self._context - beside) * _SURE / max(1.0, self.ratio))

    # -- the new history --------------------------------------------------------------------

    def _put_together(self, selection: Selection, pins: Pins, written: _Written) -> Compaction | NotCompacted:
        messages = self._made(selection, pins, written.text)
        after = self._after(messages)
        if self.wish.trigger != "manual" and after > (1 - HEADROOM) * self.window.usable:
            detail = f"the summary leaves about {after:,} tokens of {self.window.usable:,}. What fills the window: {self.report}"
            return NotCompacted(reason="ineffective", detail=detail)
        source = hashlib.blake2b(digest_size=16)
        for message in selection.head:
            source.update(rendered(message).encode("utf-8", "surrogatepass"))
        return Compaction(
            messages=messages,
            source=len(selection.head),
            digest=source.hexdigest(),
            before=self.tokens,
            after=after,
            is_continued=_says_go_on(messages[-1]),
            remark="; ".join(filter(None, (written.remark, *_left_out(pins)))),
        )

    def _made(self, selection: Selection, pins: Pins, summary: str) -> tuple[Message, ...]:
        new_id = self.summariser.new_id
        bare = history(selection, summary, pins, _no_id)
        return history(selection, summary, pins, new_id, go_on=self._go_on(bare))

    def _likely(self, selection: Selection, pins: Pins) -> int:
        """Return what the next request will take, with a summary as long as they are."""
        messages = history(selection, "", pins, _no_id)
        return self._after(messages) + text_tokens(self._go_on(messages)) + _LIKELY

    def _go_on(self, messages: Sequence[Message]) -> str:
        if self.wish.trigger == "manual" or not self.wish.continues:
            return ""
        is_tight = self._after(messages) > _TIGHT * self.window.usable
        report = (
            f"The window stays nearly full, read little at a time; before the summary it held {self.report}."
            if is_tight
            else ""
        )
        return go_on_text(messages, was_too_large=self.view.failure == "overflow", report=report)


def _left_out(pins: Pins) -> Iterator[str]:
    """Yield what there was no room to carry along."""
    if pins.left_out:
        yield _RULES_LEFT_OUT.format(pins.left_out)
    if pins.files_left_out:
        yield _FILES_LEFT_OUT.format(pins.files_left_out)


def _unpinned(selection: Selection) -> tuple[Message, ...]:
    """Return what of the head does not stay anyway."""
    return tuple(message for message in selection.head if all(message is not pinned for pinned in selection.pinned))


def _says_go_on(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "continue"


def _no_id(kind: str) -> str:
    """Return what stands for an identifier where a history is only measured."""
    return kind
