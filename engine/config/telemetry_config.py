"""Where traces and metrics go, and what they contain."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TelemetryConfig(Value):
    """The settings of telemetry. OpenTelemetry's own variables (`OTEL_…`) count for what is not set here.

    Attributes:
        enabled: whether traces and metrics are exported.
        endpoint: the collector, by OTLP over HTTP, such as `http://127.0.0.1:4318`; empty: what
            `OTEL_EXPORTER_OTLP_ENDPOINT` names, or that address.
        content: whether prompts, answers, arguments and results are exported.
        children: whether commands of the model can join the trace, by `TRACEPARENT` in their environment.
        user: the value of `user.id`; empty: there is none.
    """

    enabled: bool = False
    endpoint: str = ""
    content: bool = False
    children: bool = False
    user: str = ""

    def __attrs_post_init__(self) -> None:
        if not self.endpoint:
            return
        try:
            url = urlsplit(self.endpoint)
            is_valid = url.scheme in {"http", "https"} and bool(url.hostname) and (url.port or 1) > 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise ConfigError(f"endpoint must be a URL such as http://127.0.0.1:4318, not {self.endpoint!r}")
