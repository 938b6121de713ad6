"""The gauge: how full the window is, as exactly as anybody can know.

What the host has counted of the last request is exact; what came since is estimated,
and the estimate is corrected by how wrong it was before, for each model. A message is
looked at once: what a step costs does not grow with the history.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import attrs

from engine.compaction.overflow import message_tokens, text_tokens, tool_tokens
from engine.messages import AssistantMessage, ProviderPart, Transcript
from engine.model import ToolSchema
from engine.ports import ContextView

# A count outside of this is no count of the request: gateways report what they like.
LEAST: Final = 0.2
MOST: Final = 5.0


@attrs.define(eq=False)
class Sizes:
    """Estimates for the messages of one lineage: `sums[n]` is of the first n."""

    model: str
    sums: list[int] = attrs.field(factory=lambda: [0])

    def extend(self, transcript: Transcript) -> None:
        """Look at what is new."""
        total = self.sums[-1]
        for position in range(len(self.sums) - 1, len(transcript)):
            total += message_tokens(transcript[position], self.model)
            self.sums.append(total)

    def each(self, length: int) -> list[int]:
        """Return the estimates of the first messages, one by one."""
        sums = self.sums
        return [sums[n + 1] - sums[n] for n in range(length)]


@attrs.define(eq=False)
class Gauge:
    """Measures requests, and learns from what hosts count."""

    _sizes: WeakKeyDictionary[object, Sizes] = attrs.field(factory=WeakKeyDictionary[object, Sizes], init=False)
    _ratios: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _seen: WeakKeyDictionary[object, int] = attrs.field(factory=WeakKeyDictionary[object, int], init=False)
    _opening: tuple[str, tuple[ToolSchema, ...], int] = attrs.field(default=("", (), 0), init=False)

    def ratio(self, model: str) -> float:
        """Return by what estimates for *model* are multiplied."""
        return self._ratios.get(model, 1.0)

    def sizes(self, transcript: Transcript, model: str) -> Sizes:
        """Return the estimates for the messages of *transcript*."""
        sizes = self._sizes.get(transcript.lineage)
        if sizes is None or sizes.model != model:
            sizes = Sizes(model)
            self._sizes[transcript.lineage] = sizes
        sizes.extend(transcript)
        return sizes

    def opening(self, system: str, tools: tuple[ToolSchema, ...]) -> int:
        """Return the estimate for what requests begin with."""
        known_system, known_tools, size = self._opening
        if known_tools is not tools or known_system != system:
            size = text_tokens(system) + sum(tool_tokens(tool) for tool in tools)
            self._opening = (system, tools, size)
        return size

    def tokens(self, view: ContextView) -> int:
        """Return what the next request takes of the window."""
        self._learn(view)
        model, transcript = view.model.name, view.transcript
        sums = self.sizes(transcript, model).sums
        ratio, whole = self.ratio(model), sums[len(transcript)]
        counted = self._counted(view)
        if counted is None:
            return round((self.opening(view.system, view.tools) + whole) * ratio)
        # The first message after it is the answer, which the host has counted as well.
        exact, length = view.last_usage.prompt, len(counted)
        answer = sums[min(length + 1, len(transcript))] - sums[length]
        rest = whole - sums[length] - answer
        return exact + max(view.last_usage.output if answer else 0, round(answer * ratio)) + round(rest * ratio)

    def is_exact(self, view: ContextView) -> bool:
        """Tell whether a host's count is behind what `tokens` says."""
        return self._counted(view) is not None

    def reject(self, view: ContextView) -> None:
        """Learn that the request was too large for its window: it has more tokens than it seems to."""
        raw = self.opening(view.system, view.tools) + self.sizes(view.transcript, view.model.name).sums[-1]
        least = view.model.context / max(1, raw)
        if least <= MOST:
            self._ratios[view.model.name] = max(self.ratio(view.model.name), least)

    def _counted(self, view: ContextView) -> Transcript | None:
        """Return the transcript whose size the host has told, if it is a beginning of this one."""
        counted = view.counted
        if counted is None or counted.lineage is not view.transcript.lineage or len(counted) > len(view.transcript):
            return None
        return counted if self._plausible(view, counted) is not None else None

    def _plausible(self, view: ContextView, counted: Transcript) -> float | None:
        """Return how wrong the estimate was for a request that its host has counted; None: that is no count of it."""
        exact = view.last_usage.prompt
        raw = self.opening(view.system, view.tools) + self.sizes(counted, view.model.name).sums[len(counted)]
        if exact <= 0 or not LEAST <= exact / max(1, raw) <= MOST:
            return None
        answer = view.transcript[len(counted)] if len(view.transcript) > len(counted) else None
        if isinstance(answer, AssistantMessage) and any(isinstance(part, ProviderPart) for part in answer.parts):
            # What hosted tools read is counted each time it is read.
            return None
        return exact / max(1, raw)

    def _learn(self, view: ContextView) -> None:
        counted = self._counted(view)
        if counted is None or self._seen.get(counted.lineage) == len(counted):
            return
        self._seen[counted.lineage] = len(counted)
        found = self._plausible(view, counted)
        if found is not None:
            name = view.model.name
            self._ratios[name] = found if name not in self._ratios else (self._ratios[name] + found) / 2
