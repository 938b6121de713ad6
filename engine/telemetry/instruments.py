"""`Meters`: the metrics. No label names a session, a turn or a person: each would be a series of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from opentelemetry.metrics import NoOpMeterProvider

from engine.core.messages import Usage
from engine.core.version import __version__
from engine.telemetry import conventions as n

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider, UpDownCounter


@attrs.frozen(kw_only=True)
class Meters:
    """The instruments."""

    chat: Histogram
    first_chunk: Histogram
    tokens: Histogram
    tool: Histogram
    wait: Histogram
    cancel: Histogram
    flush: Histogram
    cache: Histogram
    retries: Counter
    recoveries: Counter
    sessions: UpDownCounter

    @classmethod
    def of(cls, provider: MeterProvider | None, names: n.Convention) -> Meters:
        """Return the instruments of a provider; None: they count nothing."""
        meter = (NoOpMeterProvider() if provider is None else provider).get_meter(
            "engine", __version__, schema_url=names.schema_url
        )

        def seconds(name: str, text: str) -> Histogram:
            return meter.create_histogram(name, "s", text)

        return cls(
            chat=seconds(names.chat_seconds, "Duration of requests to models, retries included"),
            first_chunk=seconds(names.first_chunk_seconds, "Time until a model's answer began"),
            tokens=meter.create_histogram(names.token_usage, "{token}", "Tokens of a request"),
            tool=seconds(n.TOOL_SECONDS, "Duration of tools, without waiting for people"),
            wait=seconds(n.WAIT_SECONDS, "Time that calls waited for a person"),
            cancel=seconds(n.CANCEL_SECONDS, "Time from a cancel to the recorded end of the turn"),
            flush=seconds(n.FLUSH_SECONDS, "Time that turns waited for the store"),
            cache=meter.create_histogram(n.CACHE_SHARE, "1", "Share of a prompt that came from a cache"),
            retries=meter.create_counter(n.RETRIES, "{retry}", "Requests that were sent again"),
            recoveries=meter.create_counter(
                n.RECOVERIES, "{turn}", "Turns that were taken over from an engine that ended"
            ),
            sessions=meter.create_up_down_counter(n.OPEN_SESSIONS, "{session}", "Open sessions"),
        )

    def count_tokens(self, usage: Usage, labels: dict[str, str]) -> None:
        """Count what one request used."""
        if not usage.total:
            return
        self.tokens.record(usage.prompt, {**labels, n.TOKEN_TYPE: "input"})
        self.tokens.record(usage.output, {**labels, n.TOKEN_TYPE: "output"})
        self.cache.record(usage.cache_share, labels)
