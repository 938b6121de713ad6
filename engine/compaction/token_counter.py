"""Count the tokens of the next request as exactly as possible.

The provider's count of the last request is exact; what came since is estimated, and
the estimate is corrected by its former error, per model. Each message is estimated
only once: the cost of a step does not grow with the history.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import attrs

from engine.compaction.token_estimate import message_tokens, text_tokens, tool_tokens
from engine.core.llm_types import ModelInfo, ToolSchema
from engine.core.messages import AssistantMessage, ProviderPart, Transcript
from engine.core.protocols import ContextView

# A count whose ratio to the estimate is outside of these bounds is ignored: some gateways report wrong numbers.
LEAST: Final = 0.2
MOST: Final = 5.0
# A request that extends the one before it can't be much shorter; only reasoning may be left out by the provider.
SHRUNK: Final = 0.5
# The largest error of an estimate if most of a refused request was counted.
DOUBT: Final = 2.0
# No window is smaller: a smaller request was refused for another reason.
SMALLEST: Final = 2_000


@attrs.define(eq=False)
class Sizes:
    """Estimates for the messages of one lineage: `sums[n]` is the sum of the first n."""

    model: str
    sums: list[int] = attrs.field(factory=lambda: [0])

    def extend(self, transcript: Transcript) -> None:
        """Add the estimates of new messages."""
        total = self.sums[-1]
        for position in range(len(self.sums) - 1, len(transcript)):
            total += message_tokens(transcript[position], self.model)
            self.sums.append(total)

    def each(self, length: int) -> list[int]:
        """Return the estimate of each of the first *length* messages."""
        sums = self.sums
        return [sums[n + 1] - sums[n] for n in range(length)]


@attrs.define(eq=False)
class TokenCounter:
    """Estimates the size of requests, and learns from the providers' counts."""

    # Weak keys: one keeper serves all sessions of an engine, and must not keep their transcripts alive.
    _sizes: WeakKeyDictionary[object, Sizes] = attrs.field(factory=WeakKeyDictionary[object, Sizes], init=False)
    _ratios: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _seen: WeakKeyDictionary[object, tuple[int, int]] = attrs.field(
        factory=WeakKeyDictionary[object, tuple[int, int]], init=False
    )
    _refused: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _opening: tuple[str, tuple[ToolSchema, ...], int] = attrs.field(default=("", (), 0), init=False)

    def ratio(self, model: str) -> float:
        """Return the factor for estimates for *model*."""
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
        """Return the estimate for the system prompt and the tools."""
        cached_system, cached_tools, size = self._opening
        # By identity: comparing the schemas of all tools in each step would cost more than the estimate.
        if cached_tools is not tools or cached_system != system:
            size = text_tokens(system) + sum(tool_tokens(tool) for tool in tools)
            self._opening = (system, tools, size)
        return size

    def tokens(self, view: ContextView) -> int:
        """Return the size of the next request."""
        self._learn(view)
        model, transcript = view.model.name, view.transcript
        sums = self.sizes(transcript, model).sums
        ratio, whole = self.ratio(model), sums[len(transcript)]
        counted = self._counted(view)
        if counted is None:
            return round((self.opening(view.system, view.tools) + whole) * ratio)
        # The first message after the counted ones is the answer, which the provider has counted as well.
        exact, length = view.last_usage.prompt, len(counted)
        answer = sums[min(length + 1, len(transcript))] - sums[length]
        rest = whole - sums[length] - answer
        return exact + max(view.last_usage.output if answer else 0, round(answer * ratio)) + round(rest * ratio)

    def is_exact(self, view: ContextView) -> bool:
        """Return whether `tokens` is based on a provider's count."""
        return self._counted(view) is not None

    def window(self, info: ModelInfo) -> ModelInfo:
        """Return a model's limits, with a window no larger than the requests that were refused."""
        most = self._refused.get(info.name, info.context)
        return info if most >= info.context else attrs.evolve(info, context=most)

    def reject(self, view: ContextView) -> None:
        """Learn that the request was too large: either the estimate is too low, or the window is smaller."""
        tokens, name, context = self.tokens(view), view.model.name, view.model.context
        exact = 0 if self._counted(view) is None else view.last_usage.prompt
        ratio = self.ratio(name)
        # The factor by which the estimate must be wrong if the window has its official size.
        needed = (context - exact) / max(1.0, (tokens - exact) / ratio)
        if needed <= (DOUBT * ratio if exact else MOST):
            self._ratios[name] = max(ratio, needed)
        elif tokens >= SMALLEST and not _has_media(view):
            # With images, their size in bytes may have been the reason.
            self._refused[name] = min(tokens, self._refused.get(name, context))

    def _counted(self, view: ContextView) -> Transcript | None:
        """Return the transcript that the provider has counted, if it is a prefix of this one."""
        counted = view.counted
        if counted is None or counted.lineage is not view.transcript.lineage or len(counted) > len(view.transcript):
            return None
        return counted if self._plausible(view, counted) is not None else None

    def _plausible(self, view: ContextView, counted: Transcript) -> float | None:
        """Return the ratio of the provider's count to the estimate; None if the count is implausible."""
        exact = view.last_usage.prompt
        raw = self.opening(view.system, view.tools) + self.sizes(counted, view.model.name).sums[len(counted)]
        if exact <= 0 or not LEAST <= exact / max(1, raw) <= MOST:
            return None
        length, before = self._seen.get(counted.lineage, (0, 0))
        if length < len(counted) and exact < SHRUNK * before:
            # The count covers only a part, for example what was not in the cache.
            return None
        answer = view.transcript[len(counted)] if len(view.transcript) > len(counted) else None
        if isinstance(answer, AssistantMessage) and any(isinstance(part, ProviderPart) for part in answer.parts):
            # The provider counts what hosted tools read several times.
            return None
        return exact / max(1, raw)

    def _learn(self, view: ContextView) -> None:
        counted = self._counted(view)
        if counted is None or self._seen.get(counted.lineage, (0, 0))[0] == len(counted):
            return
        ratio = self._plausible(view, counted)
        exact, name = view.last_usage.prompt, view.model.name
        self._seen[counted.lineage] = len(counted), exact
        if ratio is not None:
            # The mean with the older ones: a single odd count moves it only half way.
            self._ratios[name] = ratio if name not in self._ratios else (self._ratios[name] + ratio) / 2
        if exact > self._refused.get(name, exact):
            # A larger request was accepted since.
            del self._refused[name]


def _has_media(view: ContextView) -> bool:
    # Imported here: hardly any request is refused.
    from engine.compaction.prune import without_media

    return without_media(view.transcript) is not None
