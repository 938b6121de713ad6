"""The table of hosts: where models are, what they speak there, and what is particular about it.

A row is data. A host that speaks one of the wire formats is added here, or by a user in
configuration, without code. Importing this imports no wire format and no HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from engine.providers.quirks import MediaKind, Quirks

WireName = Literal["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "cohere"]
AuthKind = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "aws", "google", "none"]


@attrs.frozen(kw_only=True)
class Host:
    """Where models are.

    Attributes:
        name: of the host, before the slash in its models' names.
        title: for people.
        wire: what it speaks: the module of that name.
        base_url: where it is; empty: the user has to say.
        base_variables: environment variables that say so instead.
        key_variables: those that may hold the key, the first one first.
        auth: how the key is shown.
        quirks: what is particular.
        example: a model's name that works there.
        path: the request's path below the base URL, if it is not the wire format's own; `{model}` stands for the model.
        headers: to be sent besides.
        is_local: it runs on the user's own machine, needs no key, and may not be running.
        parallel: requests at once, at most; None: no limit.
    """

    name: str
    title: str
    wire: WireName
    base_url: str = ""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    auth: AuthKind = "bearer"
    quirks: Quirks = Quirks()
    example: str = ""
    path: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_local: bool = False
    parallel: int | None = None


_CLAUDE_MEDIA: frozenset[MediaKind] = frozenset({"image", "pdf"})

HOSTS: tuple[Host, ...] = (
    Host(
        name="anthropic",
        title="Anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        base_variables=("ANTHROPIC_BASE_URL",),
        key_variables=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        example="claude-sonnet-4-5",
        quirks=Quirks(
            user_media=_CLAUDE_MEDIA,
            result_media=_CLAUDE_MEDIA,
            marks="anthropic",
            long_cache=True,
            space_between_reasoning=True,
        ),
    ),
)
BY_NAME: Mapping[str, Host] = {host.name: host for host in HOSTS}
