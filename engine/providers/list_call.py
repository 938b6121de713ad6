"""A free request to a host, for its list of models: whether it can be reached, and whether it accepts the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from engine.config.config import Config
from engine.config.host_values import WireName
from engine.core.errors import ConnectionBroken, ErrorInfo, ProviderError
from engine.providers.auth.auth import Auth, NoAuth, UnsignedRequest, split_password
from engine.providers.auth.key_variables import auth_of, public_headers, with_region
from engine.providers.hosts.base_url import base_url_of
from engine.providers.hosts.host import Host
from engine.providers.wire.wire_format import Body

# Below the base URL. The other formats have no such list, or one that needs more rights than a request.
_PATHS: Final[Mapping[WireName, str]] = {
    "anthropic": "/v1/models?limit=1",
    "openai_chat": "/models",
    "openai_responses": "/models",
    "gemini": "/v1beta/models?pageSize=1",
    "cohere": "/v1/models?page_size=1",
}
_HEADERS: Final[Mapping[WireName, Mapping[str, str]]] = {"anthropic": {"anthropic-version": "2023-06-01"}}


@attrs.frozen(kw_only=True)
class ListCall:
    """The beginning of a response.

    Attributes:
        status: its HTTP status.
        date: the host's clock, as HTTP writes it; empty: not known.
        seconds: how long it took.
        content_type: what kind of document it is.
    """

    status: int
    date: str
    seconds: float
    content_type: str

    @property
    def is_accepted(self) -> bool:
        """Whether it is the answer of an API."""
        return 200 <= self.status < 300 and "html" not in self.content_type

    @property
    def is_rejected(self) -> bool:
        """Whether the host does not accept the key."""
        return self.status in {401, 403}


def has_list(host: Host) -> bool:
    """Return whether there is a free request to *host*."""
    return host.wire in _PATHS


def address_of(host: Host, env: Mapping[str, str], config: Config) -> str:
    """Return the host's base URL, without a password. Raises `ConfigError`."""
    configured = config.hosts.get(host.name)
    base = base_url_of(host, with_region(host, env), None if configured is None else configured.base_url)
    return split_password(base, NoAuth())[0]


async def call_list(
    host: Host, env: Mapping[str, str], config: Config, *, seconds: float, with_key: bool = True
) -> ListCall:
    """Send the request, with or without the key. A checkpoint; if cancelled, the connection is closed.

    Raises `ConfigError` for invalid settings or a missing key, `ProviderError` if the host can't be reached in time.
    """
    # Imported here: these load the HTTP library.
    from engine.providers.http.client import new_client, translate_errors
    from engine.providers.http.endpoint import Endpoint

    env = with_region(host, env)
    configured = config.hosts.get(host.name)
    key: Auth = auth_of(host, env, config.auth_file) if with_key else NoAuth()
    base, auth = split_password(base_url_of(host, env, None if configured is None else configured.base_url), key)
    endpoint = Endpoint(base_url=base, auth=auth, headers=public_headers(host))
    url = f"{base}{_PATHS[host.wire]}"
    headers = {"accept": "application/json", **_HEADERS.get(host.wire, {}), **endpoint.headers}
    began = trio.current_time()
    try:
        with trio.move_on_after(seconds):
            headers |= await auth.headers(UnsignedRequest(method="GET", url=url, headers=headers, body=Body(pieces=())))
            with translate_errors(endpoint):
                # Only the head of the response is read.
                async with (
                    new_client(endpoint, seconds) as client,
                    client.stream("GET", url, headers=headers) as response,
                ):
                    return ListCall(
                        status=response.status_code,
                        date=response.headers.get("date", ""),
                        seconds=trio.current_time() - began,
                        content_type=response.headers.get("content-type", ""),
                    )
    except ProviderError as error:
        error.info = attrs.evolve(error.info, host=host.name)
        raise
    info = ErrorInfo(code=ConnectionBroken.code, host=host.name)
    raise ConnectionBroken(f"no response from {endpoint.host} in {seconds:g} s", retryable=True, info=info)
