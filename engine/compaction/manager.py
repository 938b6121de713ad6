"""The context keeper: decides what the history should be, and asks for the summary.

It decides by the gauge, before each request. Clearing old results comes first, where
it is enough; else what is old is summarised. It changes nothing by itself: what it
returns is put in place in one stretch, or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from engine.compaction.token_counter import Gauge
from engine.compaction.token_estimate import Window
from engine.core.compaction_types import Compaction, CompactionWish, NotCompacted, Summariser
from engine.core.errors import ConfigError
from engine.core.messages import Message
from engine.core.protocols import ContextView

if TYPE_CHECKING:
    from engine.compaction.prune import Pruned
    from engine.compaction.summary_prompt import Template
    from engine.core.context_report import ContextReport
    from engine.core.prompt_section import PromptSection

# After clearing, so much of what is usable must be free, or a summary would follow soon all the same.
PRUNED_SHARE = 0.9
# What the estimate of a request that nobody has counted may be off by: only beyond it, it is refused unsent.
UNSURE = 1.5

# Makes a summary of messages and of the summary before them, in a host's own way.
Summarise = Callable[[Sequence[Message], str], Awaitable[str]]


@attrs.frozen
class NoKeeper:
    """Prunes, collapses and compacts nothing; an overflow then ends the turn with `prompt_too_long`."""

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
        self, view: ContextView, summariser: Summariser, wish: CompactionWish
    ) -> Compaction | NotCompacted | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    def is_blocked(self, view: ContextView) -> bool:
        """Return False."""
        return False


@attrs.define(eq=False, kw_only=True)
class Keeper:
    """Keeps the transcript inside the window.

    Attributes:
        auto: make room by itself; else only when somebody asks for it.
        clears: clear old results before it thinks of a summary.
        reserve: tokens of the window to keep free; None: what the answer may take, 20,000 at least in a large window.
        tail: tokens of the end that stay word for word; None: a quarter of what is usable, from 2,000 to 15,000.
        template: what a summary looks like; None: the usual one.
        summarise: makes summaries instead of a model.
    """

    auto: bool = True
    clears: bool = True
    reserve: int | None = None
    tail: int | None = None
    template: Template | None = None
    summarise: Summarise | None = None
    _gauge: Gauge = attrs.field(factory=Gauge, init=False)

    def __attrs_post_init__(self) -> None:
        for name in ("reserve", "tail"):
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise ConfigError(f"{name} must be a whole number of tokens, or None, not {value!r}")

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Return the history with old results cleared, if that is enough to make room. Not a checkpoint."""
        if not (self.auto and self.clears) or not self._is_full(view):
            return None
        pruned = self._pruned(view, is_forced=False)
        if pruned is None or self._tokens(view) - pruned.spared > PRUNED_SHARE * self._window(view).usable:
            return None
        return pruned.messages

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Return the history with all results cleared that can be, after a request was too large. Not a checkpoint."""
        if not (forced and self.auto):
            return None
        # The host has refused it, so it is larger than it seems, for all that follows.
        self._gauge.reject(view)
        pruned = self._pruned(view, is_forced=True) if self.clears else None
        if pruned is None or self._tokens(view) - pruned.spared > self._window(view).usable:
            return None
        return pruned.messages

    def wants_compaction(self, view: ContextView) -> bool:
        """Tell whether the next request would take more of the window than it may, or the last one was refused."""
        return self.auto and (view.failure != "none" or self._is_full(view))

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionWish
    ) -> Compaction | NotCompacted | None:
        """Return the history with a summary in the place of what is old. A checkpoint if a model is asked."""
        if not self.auto and wish.trigger != "manual":
            return None
        # Imported here: most turns need none of it.
        from engine.compaction.compactor import Compactor

        window = self._window(view)
        if view.failure == "overflow":
            self._gauge.reject(view)
            # Whatever the window is said to be, less than this is in it.
            window = attrs.evolve(window, usable=max(1, min(window.usable, self._tokens(view))))
        compactor = Compactor(
            view=view,
            wish=wish,
            summariser=summariser,
            window=window,
            tokens=self._tokens(view),
            sizes=self._gauge.sizes(view.transcript, view.model.name).each(len(view.transcript)),
            ratio=self._gauge.ratio(view.model.name),
            tail=self.tail,
            template=self.template,
            summarise=self.summarise,
            report=self.report(view).brief,
        )
        made = await compactor.run()
        is_sure = self._tokens(view) >= Window.of(view.model, view.max_output, self.reserve).usable
        if isinstance(made, NotCompacted) and made.reason == "ineffective" and wish.trigger == "full" and not is_sure:
            # By what the host says of its window there is room: another refusal ends the turn, no guess.
            return attrs.evolve(made, reason="failed")
        return made

    def is_blocked(self, view: ContextView) -> bool:
        """Tell whether the next request is larger than the window, as far as anybody knows."""
        if not self.auto or not view.model.is_known:
            return False
        most = view.model.context * (1.0 if self._gauge.is_exact(view) else UNSURE)
        return self._tokens(view) > most

    def report(self, view: ContextView, sections: Sequence[PromptSection] = ()) -> ContextReport:
        """Return what fills the window; *sections* are those of the system prompt, if they are known."""
        from engine.compaction.report import pinned_tokens, report_of

        # First, since the count that it looks at may tell of the window as well.
        tokens = self._tokens(view)
        return report_of(
            attrs.evolve(view, model=self._gauge.window(view.model)),
            sections=sections,
            tokens=tokens,
            is_counted=self._gauge.is_exact(view),
            pinned=round(pinned_tokens(view) * self._gauge.ratio(view.model.name)),
            reserve=self.reserve,
        )

    def _window(self, view: ContextView) -> Window:
        return Window.of(self._gauge.window(view.model), view.max_output, self.reserve)

    def _tokens(self, view: ContextView) -> int:
        return self._gauge.tokens(view)

    def _is_full(self, view: ContextView) -> bool:
        return self._tokens(view) >= self._window(view).usable

    def _pruned(self, view: ContextView, *, is_forced: bool) -> Pruned | None:
        from engine.compaction.prune import LEAST, NEWEST, Rules, prune

        usable = self._window(view).usable
        rules = Rules(protected=view.protected, read_only=view.read_only)
        if is_forced:
            rules = attrs.evolve(rules, newest=usable // 8, least=0, turns=0)
        else:
            # In a small window, less is much.
            rules = attrs.evolve(rules, newest=min(NEWEST, usable // 4), least=min(LEAST, usable // 8))
        model = view.model.name
        return prune(view.transcript[:], rules, model, self._gauge.ratio(model))
