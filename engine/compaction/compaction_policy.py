"""The context keeper: decides before each request whether the history must shrink, and how.

Clearing old results comes first, if it is enough; otherwise old messages are
summarised. The keeper changes nothing itself: the turn replaces the history with
what it returns, atomically.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

import attrs
import trio

from engine.compaction.token_counter import TokenCounter
from engine.compaction.token_estimate import WindowEstimate
from engine.core.compaction_types import Compaction, CompactionRequest, NotCompacted, Summariser
from engine.core.errors import ConfigError
from engine.core.messages import Message, Transcript
from engine.core.protocols import ContextKeeper, ContextView
from engine.core.value_base import Value

if TYPE_CHECKING:
    from engine.compaction.prune import PruneResult
    from engine.compaction.summary_prompt import Template
    from engine.core.context_report import ContextReport
    from engine.core.prompt_section import PromptSection

# Clearing is enough if it brings the request below this share of the usable window; otherwise a summary would follow soon.
PRUNED_SHARE = 0.9
# An estimate without a count may be off by this factor: only beyond it a request is refused without sending it.
UNCOUNTED_TOLERANCE = 1.5

# A window that is only guessed says nothing below this: local servers are started with any.
GUESSED_LEAST = 65_536
# In a smaller window the reserve is a large part of it: a request is sent as long as it fits at all.
SMALL_WINDOW = 16_384

# A host's own summariser: gets the messages and the previous summary, returns the new one.
Summarise = Callable[[Sequence[Message], str], Awaitable[str]]


@attrs.frozen(eq=False, repr=False)
class NoKeeper(Value):
    """Never changes the history; a request that is too large ends the turn with `prompt_too_long`."""

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    def wants_compaction(self, view: ContextView) -> bool:
        """Return False."""
        return False

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionRequest
    ) -> Compaction | NotCompacted | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    def is_blocked(self, view: ContextView) -> bool:
        """Return False."""
        return False


@attrs.define(kw_only=True, eq=False, repr=False)
class Keeper:
    """Keeps the history within the context window.

    Attributes:
        auto: compact automatically; otherwise only by hand.
        clears: clear old results first, before a summary.
        reserve: tokens of the window to keep free; None: the size of an answer, at least 20,000 in a large window.
        tail: tokens of the newest messages that stay unchanged; None: a quarter of the usable window, from 2,000 to
            15,000.
        template: the form of a summary; None: the default one.
        summarise: a function that writes summaries instead of a model.
    """

    auto: bool = True
    clears: bool = True
    reserve: int | None = None
    tail: int | None = None
    template: Template | None = None
    summarise: Summarise | None = None
    _counter: TokenCounter = attrs.field(factory=TokenCounter, init=False)

    def __attrs_post_init__(self) -> None:
        # A keeper is made by hosts, whose types nothing has checked.
        for name in ("reserve", "tail"):
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise ConfigError(f"{name} must be a whole number of tokens, or None, not {value!r}")

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Return the history with old results cleared, if that is enough. Not a checkpoint."""
        if not (self.auto and self.clears) or not self._is_full(view):
            return None
        pruned = self._prune(view, is_forced=False)
        # All or nothing: clearing costs the host's cache, and a summary right after it would cost that once more.
        if pruned is None or self._tokens(view) - pruned.spared > PRUNED_SHARE * self._window(view).usable:
            return None
        return pruned.messages

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Return the history with as many results cleared as possible, if that is enough. Not a checkpoint.

        That is the last resort: after a request was too large, or if the next one would be.
        """
        if not (forced and self.auto):
            return None
        if view.failure != "none":
            # The host has refused the request, so it is larger than estimated; correct all later estimates.
            self._counter.reject(view)
        pruned = self._prune(view, is_forced=True) if self.clears else None
        if pruned is None or self._tokens(view) - pruned.spared > self._window(view).usable:
            return None
        return pruned.messages

    def wants_compaction(self, view: ContextView) -> bool:
        """Return whether the next request exceeds the usable window, or the last one was refused."""
        return self.auto and (view.failure != "none" or self._is_full(view))

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionRequest
    ) -> Compaction | NotCompacted | None:
        """Return the history with a summary in place of old messages. A checkpoint if a model is asked."""
        if not self.auto and wish.trigger != "manual":
            return None
        # Imported here: most turns compact nothing.
        from engine.compaction.compactor import Compactor

        window = self._window(view)
        if view.failure == "overflow":
            self._counter.reject(view)
            # The host has refused this size, so the window is smaller, even if the catalogue has another number.
            window = attrs.evolve(window, usable=max(1, min(window.usable, self._tokens(view))))
        sizes = self._counter.sizes(view.transcript, view.model.name).each(len(view.transcript))
        compactor = Compactor(
            view=attrs.evolve(view, transcript=Transcript(view.transcript[wish.start :])) if wish.start else view,
            request=wish,
            summariser=summariser,
            window=window,
            tokens=self._tokens(view),
            sizes=sizes[wish.start :],
            ratio=self._counter.ratio(view.model.name),
            # A caller that chooses where a summary begins wants no more than it has to leave.
            tail=0 if wish.start else self.tail,
            template=self.template,
            summarise=self.summarise,
            report=self.report(view).brief,
        )
        made = await compactor.run()
        if isinstance(made, Compaction) and wish.start:
            made = attrs.evolve(made, messages=(*view.transcript[: wish.start], *made.messages))
        is_sure = self._counter.certain(view) >= self._least_ineffective(view)
        if isinstance(made, NotCompacted) and made.reason == "ineffective" and wish.trigger == "full" and not is_sure:
            # By the catalogue's window, or by the text, there is room, or the window is a guess: try the request.
            # Another refusal ends the turn.
            return attrs.evolve(made, reason="failed")
        return made

    def is_blocked(self, view: ContextView) -> bool:
        """Return whether the next request is certainly larger than the window."""
        if not self.auto or not view.model.is_known:
            return False
        most = view.model.context * (1.0 if self._counter.is_exact(view) else UNCOUNTED_TOLERANCE)
        return self._counter.certain(view) > most

    def report(self, view: ContextView, sections: Sequence[PromptSection] = ()) -> ContextReport:
        """Return what fills the window; *sections* are those of the system prompt, if available."""
        from engine.compaction.report import build_report, pinned_tokens

        # First: this may also correct the window's size.
        tokens = self._tokens(view)
        return build_report(
            attrs.evolve(view, model=self._counter.window(view.model)),
            sections=sections,
            tokens=tokens,
            is_counted=self._counter.is_exact(view),
            pinned=round(pinned_tokens(view) * self._counter.ratio(view.model.name)),
            reserve=self.reserve,
        )

    def _window(self, view: ContextView) -> WindowEstimate:
        return WindowEstimate.of(self._counter.window(view.model), view.max_output, self.reserve)

    def _tokens(self, view: ContextView) -> int:
        return self._counter.tokens(view)

    def _least_ineffective(self, view: ContextView) -> float:
        """Return the size from which a request is not even tried."""
        if not view.model.is_known:
            return inf
        window = WindowEstimate.of(view.model, view.max_output, self.reserve)
        return window.context if window.context <= SMALL_WINDOW else window.usable

    def _is_full(self, view: ContextView) -> bool:
        least = self._window(view).usable
        # A refusal has made a guess a measurement.
        is_guess = not view.model.is_known and not self._counter.has_refused(view.model)
        return self._tokens(view) >= (max(least, GUESSED_LEAST) if is_guess else least)

    def _prune(self, view: ContextView, *, is_forced: bool) -> PruneResult | None:
        from engine.compaction.prune import KEPT_TOKENS, MIN_CLEARED_TOKENS, PruneRules, prune

        usable = self._window(view).usable
        rules = PruneRules(protected=view.protected, read_only=view.read_only)
        if is_forced:
            rules = attrs.evolve(rules, newest=usable // 8, least=0, turns=0)
        else:
            # Smaller limits in a small window.
            rules = attrs.evolve(
                rules, newest=min(KEPT_TOKENS, usable // 4), least=min(MIN_CLEARED_TOKENS, usable // 8)
            )
        model = view.model.name
        return prune(view.transcript[:], rules, model, self._counter.ratio(model))


def report_of(keeper: ContextKeeper, view: ContextView, sections: Sequence[PromptSection] = ()) -> ContextReport:
    """Return what fills the window: by the keeper's own figures if it is the engine's."""
    if isinstance(keeper, Keeper):
        return keeper.report(view, sections)
    from engine.compaction.report import build_report

    return build_report(view, sections=sections)
