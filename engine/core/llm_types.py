"""What goes to a model and what streams back, in a provider-neutral form.

A provider turns a `ModelRequest` into its wire format and its wire format into
`StreamEvent`s. Stream ids are the provider's: they need to be unique only
within one answer.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.messages import Citation, FinishReason, Transcript, Usage
from engine.core.value_base import Value

# The tools through which a model finds and calls those that its requests don't list.
TOOL_SEARCH: Final = "tool_search"
TOOL_USE: Final = "tool_use"

ToolChoice = Literal["auto", "none", "required"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
CacheLifetime = Literal["off", "5m", "1h"]
_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_CACHE_LIFETIMES: tuple[CacheLifetime, ...] = get_args(CacheLifetime)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelOptions(Value):
    """Model options; None: the host's default.

    Options that a host or a model does not support are left out of the request.

    Attributes:
        effort: the reasoning effort.
        temperature: the sampling temperature.
        cache: the lifetime of the prompt cache, where it can be chosen.
        output_cap: the maximum tokens of one answer.
    """

    effort: Effort | None = None
    temperature: float | None = None
    cache: CacheLifetime | None = None
    output_cap: int | None = None

    def __attrs_post_init__(self) -> None:
        for name, value, allowed in (("effort", self.effort, _EFFORTS), ("cache", self.cache, _CACHE_LIFETIMES)):
            if value is not None and value not in allowed:
                raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if self.temperature is not None and not _is_number(self.temperature, 0.0, 2.0):
            raise ConfigError(f"temperature must be a number from 0 to 2, not {self.temperature!r}")
        if self.output_cap is not None and (
            not _is_number(self.output_cap, 1) or self.output_cap != int(self.output_cap)
        ):
            raise ConfigError(f"output_cap must be a whole number above 0, not {self.output_cap!r}")

    def over(self, base: ModelOptions) -> ModelOptions:
        """Return these options, with *base*'s values for those that are None."""
        own = attrs.asdict(self, filter=lambda _, value: value is not None)
        return attrs.evolve(base, **own) if own else base


def _is_number(value: object, least: float, most: float = float("inf")) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LongPrices(Value):
    """The prices per million tokens of a request whose prompt has more than `above` tokens."""

    above: int
    price_input: float = 0.0
    price_output: float = 0.0
    price_cache_read: float = 0.0
    price_cache_write: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelInfo(Value):
    """A model's limits and prices; prices are per million tokens.

    Attributes:
        name: as a user writes it, `host/model`.
        context: the window's size in tokens.
        output: the maximum tokens of an answer.
        is_known: whether the limits are from a table or the host, not assumed.
        family: `claude`, `gpt` or `gemini`, which have prompts of their own; empty: another one.
        host: the name under which concurrent requests are counted; empty: for this model alone.
        account: a hash of the address and the key: requests of one account share the limits of its host.
        parallel: the maximum number of this engine's concurrent requests to the host; None: no limit.
        silence: for how many seconds the host may send nothing; None: as `Settings.timeouts` says.
        defers_tools: the host takes deferred tools (`ToolSchema.deferred`).
        sends_deferred: requests to it hold all deferred tools, marked; False: only those that a search has found.
        options: defaults for this model, which a turn may override.
        unasked_effort: its effort if none is requested; None: it does not think then.
        long_prices: the prices for long prompts, by increasing length.
    """

    name: str
    context: int = 200_000
    output: int = 64_000
    is_known: bool = True
    family: str = ""
    host: str = ""
    account: str = ""
    parallel: int | None = None
    silence: float | None = None
    defers_tools: bool = False
    sends_deferred: bool = True
    options: ModelOptions = ModelOptions()
    unasked_effort: Effort | None = None
    price_input: float = 0.0
    price_output: float = 0.0
    price_cache_read: float = 0.0
    price_cache_write: float = 0.0
    long_prices: tuple[LongPrices, ...] = ()

    def cost(self, usage: Usage) -> float:
        """Return the cost of one request with that *usage*."""
        prompt = usage.input + usage.cache_read + usage.cache_write
        prices = next((prices for prices in reversed(self.long_prices) if prompt > prices.above), self)
        return (
            usage.input * prices.price_input
            + usage.output * prices.price_output
            + usage.cache_read * prices.price_cache_read
            + usage.cache_write * prices.price_cache_write
        ) / 1_000_000


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolSchema(Value):
    """A tool as the model sees it.

    Attributes:
        schema: of its arguments, as JSON text.
        deferred: the host shows it to the model only once the result of a search names it.
        server: who offers it, if it is a foreign tool: hosts may group the tools of a server.
    """

    name: str
    description: str
    schema: str
    deferred: bool = False
    server: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelRequest(Value):
    """A complete request.

    Attributes:
        session_id: the session; hosts route requests of one conversation to the same cache.
        output_schema: a JSON schema that the answer's text must fit.
        reasoning_from: messages before this index are sent without reasoning, which the host no longer accepts.
    """

    model: str
    system: str
    transcript: Transcript
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output: int = 8_192
    output_schema: str | None = None
    reasoning_from: int = 0
    session_id: str = ""
    options: ModelOptions = ModelOptions()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestEstimate(Value):
    """What a request will take.

    Attributes:
        tokens: of its prompt.
        cost: of its prompt.
        answer_tokens: of the longest answer that it allows.
        answer_cost: of that answer.
    """

    tokens: int
    cost: float
    answer_tokens: int = 0
    answer_cost: float = 0.0


# -- what streams back ---------------------------------------------------------


@attrs.frozen(eq=False, repr=False)
class Ping(Value):
    """The host is alive, but sends no content. Renews the idle watchdog."""


@attrs.frozen(eq=False, repr=False)
class TextStarted(Value):
    """A block of visible text opens."""

    id: str


@attrs.frozen(eq=False, repr=False)
class TextChunk(Value):
    """More visible text."""

    id: str
    text: str


@attrs.frozen(eq=False, repr=False)
class TextDone(Value):
    """The block is whole; `text`, if given, replaces what was streamed."""

    id: str
    text: str | None = None


@attrs.frozen(eq=False, repr=False)
class Cited(Value):
    """A source of the text block."""

    id: str
    citation: Citation


@attrs.frozen(eq=False, repr=False)
class ReasoningStarted(Value):
    """A block of thinking opens."""

    id: str


@attrs.frozen(eq=False, repr=False)
class ReasoningChunk(Value):
    """More thinking."""

    id: str
    text: str


@attrs.frozen(eq=False, repr=False)
class ReasoningDone(Value):
    """The thinking is complete. The host expects its signature back in later requests."""

    id: str
    signature: str | None = None
    redacted: str | None = None


@attrs.frozen(eq=False, repr=False)
class ToolCallStarted(Value):
    """The model starts to write a tool call."""

    id: str
    tool: str


@attrs.frozen(eq=False, repr=False)
class ToolCallChunk(Value):
    """More of the call's arguments, as JSON text."""

    id: str
    text: str


@attrs.frozen(eq=False, repr=False)
class ToolCallDone(Value):
    """The call is whole; `arguments`, if given, replaces what was streamed."""

    id: str
    arguments: str | None = None
    tool: str | None = None


@attrs.frozen(eq=False, repr=False)
class ProviderItem(Value):
    """A provider-specific block, to be sent back unchanged."""

    id: str
    kind: str
    data: str


@attrs.frozen(eq=False, repr=False)
class PrefixBroken(Value):
    """The request does not begin with the bytes of the one before it, so no cache could help.

    Attributes:
        at: the first part that differs: `"system"`, `"tool read"`, `"message 3"`.
    """

    at: str


@attrs.frozen(eq=False, repr=False)
class Unread(Value):
    """Host events that the decoder does not know: their kind and number."""

    kind: str
    count: int = 1


@attrs.frozen(eq=False, repr=False)
class UsageReported(Value):
    """Cumulative usage of this answer; the last one counts."""

    usage: Usage


# Of one request. The largest windows have ten million tokens, and tools of a host read one several times.
MOST_TOKENS: Final = 100_000_000


def is_credible(usage: Usage) -> bool:
    """Return whether one request can have used that many tokens; what is not credible counts as not reported."""
    return usage.total <= MOST_TOKENS and min(usage.input, usage.output, usage.cache_read, usage.cache_write) >= 0


@attrs.frozen(eq=False, repr=False)
class Finished(Value):
    """The model has stopped, for the given reason.

    Attributes:
        reason: why.
        raw: the same as the host calls it.
        detail: the same in the host's words.
        response_id: what the host calls the answer; empty: it does not say. For traces: answers that differ only in this
            are equal.
        response_model: the model that has answered, as the host calls it; empty: it does not say.
    """

    reason: FinishReason
    raw: str | None = None
    detail: str = ""
    response_id: str = attrs.field(default="", eq=False)
    response_model: str = attrs.field(default="", eq=False)


StreamEvent = (
    Ping
    | TextStarted
    | TextChunk
    | TextDone
    | Cited
    | ReasoningStarted
    | ReasoningChunk
    | ReasoningDone
    | ToolCallStarted
    | ToolCallChunk
    | ToolCallDone
    | ProviderItem
    | PrefixBroken
    | Unread
    | UsageReported
    | Finished
)
STREAM_EVENT_TYPES: tuple[type[StreamEvent], ...] = get_args(StreamEvent)
