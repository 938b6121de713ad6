"""What a host is: where models are, what they speak there, and what is particular about it.

A host is data. One that speaks one of the wire formats is added as a row of
`engine.providers.hosts.table`, or by a user in configuration, without code. Importing
the table imports no wire format and no HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from engine.config.host_values import AuthKind, WireName
from engine.providers.wire.quirks import Quirks

LimitsApi = Literal["", "ollama", "llamacpp", "lmstudio", "models", "litellm"]


@attrs.frozen(kw_only=True)
class Host:
    """Where models are.

    Attributes:
        name: of the host, before the slash in its models' names.
        like: the host of the table that it is like, if it is one of the user's own; empty: itself.
        title: for people.
        wire: what it speaks: the module of that name.
        base_url: where it is, as its own clients are told: for the OpenAI formats with the version
            at the end (`…/v1`), for the others without. `{A|B}` stands for what the environment variable A,
            or else B, holds. Empty: the user has to say.
        places: the address instead of `base_url` for some of the values of the first variable in it.
        base_path: what is put after an address of the user's that has no path of its own.
        base_variables: environment variables that hold the address to use instead.
        key_variables: those that may hold the key, the first one first.
        token_variables: those that may hold a token instead, which is shown as a bearer whatever `auth` says.
        auth: how the key is shown.
        key_optional: it may be used without a key.
        quirks: what is particular.
        example: a model's name that works there.
        path: the request's path below the base URL, if it is not the wire format's own; `{model}` stands for the model,
            `{A|B}` for what a variable holds.
        headers: to be sent besides.
        is_local: it runs on the user's own machine, and may not be running.
        asking: in whose words it is asked for a model's window; empty: it is not.
        parallel: requests at once, at most; None: no limit.
        prices: what the catalogue of prices calls it; empty: the same name; "-": it is not in there.
        note: for people, what has to be known to use it.
    """

    name: str
    like: str = ""
    title: str
    wire: WireName
    base_url: str = ""
    regional_urls: Mapping[str, str] = attrs.field(factory=dict[str, str])
    base_path: str = ""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    token_variables: tuple[str, ...] = ()
    auth: AuthKind = "bearer"
    key_optional: bool = False
    quirks: Quirks = Quirks()
    example: str = ""
    path: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_local: bool = False
    limits_api: LimitsApi = ""
    parallel: int | None = None
    prices: str = ""
    note: str = ""

    @property
    def kind(self) -> str:
        """The name of the host in the table that it is, or is like."""
        return self.like or self.name
