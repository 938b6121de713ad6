"""The asynchronous generators that a function starts, and those of them that it leaves open."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from types import AsyncGeneratorType

import attrs


@attrs.define(eq=False)
class GeneratorWatch:
    """Weak references to the generators that were started while the function's tasks ran."""

    _started: weakref.WeakSet[AsyncGenerator[object, object]] = attrs.field(
        factory=weakref.WeakSet[AsyncGenerator[object, object]], init=False
    )

    def watch(self, is_ours: Callable[[], bool]) -> None:
        """Remember the generators that are started while *is_ours* holds; until the end of the run."""
        hooks = sys.get_asyncgen_hooks()

        def first_iteration(generator: AsyncGenerator[object, object]) -> None:
            if is_ours():
                self._started.add(generator)
            if hooks.firstiter is not None:
                hooks.firstiter(generator)

        sys.set_asyncgen_hooks(firstiter=first_iteration)

    def left_open(self) -> Generator[str]:
        """Yield a sentence for each generator that is neither exhausted nor closed."""
        if self._started:
            # What only a cycle of references keeps is not left.
            gc.collect()
        for generator in list(self._started):
            if (
                isinstance(generator, AsyncGeneratorType)
                and generator.ag_frame is not None
                and not generator.ag_running
            ):
                line = generator.ag_frame.f_lineno
                yield f"the async generator {generator.__name__} is left open at line {line}"
