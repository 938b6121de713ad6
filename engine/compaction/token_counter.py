"""Count the tokens of the next request as exactly as possible.

The provider's count of the last request is exact; what came since is estimated, and
the estimate is corrected by its former error, per model. Each message is estimated
only once: the cost of a step does not grow with the history.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import attrs

from engine.compaction.token_estimate import CERTAIN, message_tokens, text_tokens, tool_tokens
from engine.core.llm_types import ModelInfo, ToolSchema, is_credible
from engine.core.messages import AssistantMessage, ProviderPart, Transcript
from engine.core.protocols import ContextView
from engine.core.value_base import Value

# A count whose ratio to the estimate is outside of these bounds is ignored: some gateways report wrong numbers.
LEAST: Final = 0.2
MOST: Final = 3.0
# The largest factor for estimates that a refused request is worth.
MOST_REFUSED: Final = 5.0
# A request that extends the one before it can't be much shorter; only reasoning may be left out by the provider.
SHRUNK: Final = 0.5
# The share of a request by which a running total grows at least.
WHOLE: Final = 0.9
# Nor can it be longer by much more than what was added: by this factor, for errors of the estimate, and by what a provider
# adds itself, at most a part of the window.
GROWTH: Final = 1.5
ADDED: Final = 4_000
ADDED_PART: Final = 32
# The largest error of an estimate if most of a refused request was counted.
DOUBT: Final = 2.0
# No window is smaller: a smaller request was refused for another reason.
SMALLEST: Final = 2_000


@attrs.define(eq=False, repr=False)
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Sample(Value):
    """A provider's count of a request, with the estimate for the same request.

    Attributes:
        length: the number of messages.
        estimate: tokens, as estimated.
        exact: tokens, as counted.
        hidden: tokens of the answer that are counted, but not to be seen: encrypted reasoning.
    """

    model: str
    length: int
    estimate: int
    exact: int
    hidden: int

    @property
    def ratio(self) -> float:
        """The factor between the count and the estimate."""
        return self.exact / max(1, self.estimate)

    def is_nearer(self, other: Sample) -> bool:
        """Return whether this count is nearer to its estimate than *other*."""
        return max(self.ratio, 1 / self.ratio) < max(other.ratio, 1 / other.ratio)

    def is_shrunk(self, before: Sample) -> bool:
        """Return whether it is too low after *before*: it covers only a part, for example what was not in the cache."""
        return self.length > before.length and self.exact < SHRUNK * before.exact

    def contradicts(self, before: Sample, slack: int) -> bool:
        """Return whether it can't be right if *before* is: too low, or grown by more than what was added since."""
        added = max(0, self.estimate - before.estimate)
        growth = self.exact - before.exact - before.hidden
        # A running total grows by the whole request, even if little was added to it.
        is_total = 2 * added < self.estimate and growth >= WHOLE * self.estimate
        return self.is_shrunk(before) or is_total or growth > GROWTH * max(1.0, before.ratio) * added + slack


@attrs.define(eq=False, repr=False)
class TokenCounter:
    """Estimates the size of requests, and learns from the providers' counts."""

    # Weak keys: one keeper serves all sessions of an engine, and must not keep their transcripts alive.
    _sizes: WeakKeyDictionary[object, Sizes] = attrs.field(factory=WeakKeyDictionary[object, Sizes], init=False)
    _ratios: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    # Of each lineage: the newest count that is believed, and the newest one of all.
    _believed: WeakKeyDictionary[object, Sample] = attrs.field(factory=WeakKeyDictionary[object, Sample], init=False)
    _newest: WeakKeyDictionary[object, Sample] = attrs.field(factory=WeakKeyDictionary[object, Sample], init=False)
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

    def estimate(self, view: ContextView) -> int:
        """Return the size of the next request by its text alone, whatever a provider has counted."""
        sums = self.sizes(view.transcript, view.model.name).sums
        return self.opening(view.system, view.tools) + sums[len(view.transcript)]

    def certain(self, view: ContextView) -> int:
        """Return the size of the next request as far as the provider's count and its text agree on it.

        A wrong count must not end a turn: only the next request brings another one.
        """
        return min(self.tokens(view), round(CERTAIN * self.estimate(view)))

    def tokens(self, view: ContextView) -> int:
        """Return the size of the next request."""
        counted = self._counted(view)
        model, transcript = view.model.name, view.transcript
        ratio = self.ratio(model)
        if counted is None:
            return round(self.estimate(view) * ratio)
        sums = self.sizes(transcript, model).sums
        # The first message after the counted ones is the answer, which the provider has counted as well.
        exact, length = view.last_usage.prompt, len(counted)
        answer = sums[min(length + 1, len(transcript))] - sums[length]
        rest = sums[len(transcript)] - sums[length] - answer
        return exact + max(view.last_usage.output if answer else 0, round(answer * ratio)) + round(rest * ratio)

    def is_exact(self, view: ContextView) -> bool:
        """Return whether `tokens` is based on a provider's count."""
        return self._counted(view) is not None

    def window(self, info: ModelInfo) -> ModelInfo:
        """Return a model's limits, with a window no larger than the requests that were refused."""
        most = self._refused.get(info.name, info.context)
        return info if most >= info.context else attrs.evolve(info, context=most)

    def has_refused(self, info: ModelInfo) -> bool:
        """Return whether a request was refused that had less than the model's window."""
        return info.name in self._refused

    def reject(self, view: ContextView) -> None:
        """Learn that the request was too large: either the estimate is too low, or the window is smaller."""
        tokens, name, context = self.tokens(view), view.model.name, view.model.context
        exact = 0 if self._counted(view) is None else view.last_usage.prompt
        ratio = self.ratio(name)
        # The factor by which the estimate must be wrong if the window has its official size.
        needed = (context - exact) / max(1.0, (tokens - exact) / ratio)
        if view.model.is_known and needed <= (DOUBT * ratio if exact else MOST_REFUSED):
            self._ratios[name] = max(ratio, needed)
        elif tokens >= SMALLEST and not _has_media(view):
            # With images, their size in bytes may have been the reason.
            self._refused[name] = min(tokens, self._refused.get(name, context))

    def _counted(self, view: ContextView) -> Transcript | None:
        """Return the transcript that the provider has counted, if it is a prefix of this one and the count is believed."""
        counted, exact = view.counted, view.last_usage.prompt
        if counted is None or counted.lineage is not view.transcript.lineage or len(counted) > len(view.transcript):
            return None
        if exact <= 0 or not is_credible(view.last_usage) or _has_hosted_results(view, counted):
            return None
        newest = self._newest.get(counted.lineage)
        if newest is None or (newest.model, newest.length, newest.exact) != (view.model.name, len(counted), exact):
            newest = self._sample(view, counted)
            self._judge(counted.lineage, newest, min(ADDED, view.model.context // ADDED_PART))
            self._newest[counted.lineage] = newest
        return counted if self._believed.get(counted.lineage) is newest else None

    def _sample(self, view: ContextView, counted: Transcript) -> Sample:
        model, length, usage = view.model.name, len(counted), view.last_usage
        sums = self.sizes(view.transcript, model).sums
        answer = sums[min(length + 1, len(view.transcript))] - sums[length]
        return Sample(
            model=model,
            length=length,
            estimate=self.opening(view.system, view.tools) + sums[length],
            exact=usage.prompt,
            hidden=max(0, usage.output - answer) if answer else 0,
        )

    def _judge(self, lineage: object, sample: Sample, slack: int) -> None:
        """Learn from a new count, unless it contradicts what was sent."""
        if not LEAST <= sample.ratio <= MOST:
            return
        before = self._believed.get(lineage)
        if before is not None and before.model == sample.model and sample.contradicts(before, slack):
            if not sample.is_nearer(before) and not self._is_confirmed(lineage, sample, before, slack):
                return
            # The mean with a count that was wrong would be wrong as well.
            self._ratios.pop(sample.model, None)
        self._believed[lineage] = sample
        ratio = self._ratios.get(sample.model)
        # The mean with the older ones: a single odd count moves it only half way.
        self._ratios[sample.model] = sample.ratio if ratio is None else (ratio + sample.ratio) / 2
        if sample.exact > self._refused.get(sample.model, sample.exact):
            # A larger request was accepted since.
            del self._refused[sample.model]

    def _is_confirmed(self, lineage: object, sample: Sample, before: Sample, slack: int) -> bool:
        """Return whether a jump of the counts has stayed: a provider may add to requests from some point on."""
        doubted = self._newest[lineage]
        return doubted is not before and not sample.is_shrunk(before) and not sample.contradicts(doubted, slack)


def _has_hosted_results(view: ContextView, counted: Transcript) -> bool:
    """Return whether the answer has results of hosted tools: the provider counts what those read several times."""
    answer = view.transcript[len(counted)] if len(view.transcript) > len(counted) else None
    return isinstance(answer, AssistantMessage) and any(isinstance(part, ProviderPart) for part in answer.parts)


def _has_media(view: ContextView) -> bool:
    # Imported here: hardly any request is refused.
    from engine.compaction.prune import without_media

    return without_media(view.transcript) is not None
