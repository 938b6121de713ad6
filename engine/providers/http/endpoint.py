"""Where a model's host is, and what opens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote

import attrs
import httpx

from engine.core.errors import ProviderError
from engine.providers.auth.auth import Auth


@attrs.frozen(kw_only=True)
class Endpoint:
    """Where a model's host is, and what opens it.

    Attributes:
        base_url: without a slash at the end.
        auth: shows who asks.
        path: below it, if it is not the wire format's own; `{model}` stands for the model's own name.
        headers: to be sent besides.
    """

    base_url: str = attrs.field(repr=False)  # may hold a password
    auth: Auth
    path: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)

    @property
    def host(self) -> str:
        """The host, fit to be shown."""
        return httpx.URL(self.base_url).host

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_plain(self) -> bool:
        """Whether it is reached without TLS."""
        return httpx.URL(self.base_url).scheme == "http"

    def redact(self, text: str) -> str:
        """Return *text* with every secret cut out: a host may quote what it was sent, as it is or as in a URL.

        What a host has masked itself ("sk-ab***yz") is left: it opens nothing, and tells which key it was.
        """
        forms = {form for secret in self.auth.secrets if secret for form in (secret, quote(secret, safe=""))}
        if not forms:
            return text
        # The longest first: one secret may be a part of another.
        return re.sub("|".join(map(re.escape, sorted(forms, key=len, reverse=True))), "[key]", text)

    def redact_error(self, error: ProviderError) -> ProviderError:
        """Return *error* with every secret cut out of its text."""
        error.args = tuple(self.redact(str(argument)) for argument in error.args)
        return error
