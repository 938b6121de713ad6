"""A host's endpoint: its URL, authentication and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote

import attrs
import httpx

from engine.core.errors import ProviderError
from engine.core.value_base import Value
from engine.providers.auth.auth import Auth

# A shorter key is no real one ("k", "none"), and may be a part of any word.
_SHORTEST_KEY = 8


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Endpoint(Value):
    """A host's URL, authentication and headers.

    Attributes:
        base_url: without a trailing slash.
        auth: the authentication.
        path: the request path, if not the wire format's own; `{model}` stands for the model's name.
        headers: additional headers.
    """

    base_url: str = attrs.field(repr=False)  # may hold a password
    auth: Auth
    path: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)

    @property
    def host(self) -> str:
        """The host's name, safe to show."""
        return httpx.URL(self.base_url).host

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_plain(self) -> bool:
        """Whether the connection has no TLS."""
        return httpx.URL(self.base_url).scheme == "http"

    def redact(self, text: str) -> str:
        """Redact every secret in *text*: a host may quote one literally, or as in a URL.

        A key that the host has masked itself ("sk-ab***yz") is kept: it is no secret, and identifies the key.
        """
        forms = {form for secret in self.auth.secrets if secret for form in (secret, quote(secret, safe=""))}
        if not forms:
            return text
        # Longest first: one secret may be part of another.
        return re.sub("|".join(map(_pattern, sorted(forms, key=len, reverse=True))), "[key]", text)

    def redact_error(self, error: ProviderError) -> ProviderError:
        """Redact every secret in the message of *error* and in its facts; return it."""
        error.args = tuple(self.redact(str(argument)) for argument in error.args)
        info = error.info
        error.info = attrs.evolve(
            info,
            subject=self.redact(info.subject),
            request_id=self.redact(info.request_id),
            model=self.redact(info.model),
        )
        return error


def _pattern(secret: str) -> str:
    pattern = re.escape(secret)
    return pattern if len(secret) >= _SHORTEST_KEY else rf"(?<!\w){pattern}(?!\w)"
