"""A host of models: its address, wire format and quirks.

A host is data. One that speaks an existing wire format is added as a row of `engine.providers.hosts.host_table`, or in
a user's configuration, without code. Importing the table imports no wire format and no HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from engine.config.host_values import AuthKind, WireName
from engine.core.value_base import Value
from engine.providers.wire.quirks import Quirks

LimitsApi = Literal["", "ollama", "llamacpp", "lmstudio", "models", "litellm"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Host(Value):
    """A host of models.

    Attributes:
        name: its name, before the slash in its models' names.
        like: for a user's own host, the table row that it is based on; empty: none.
        title: its display name.
        wire: its wire format: the module of that name.
        base_url: its base URL, as in its own documentation: for the OpenAI formats with the version
            at the end (`…/v1`), for the others without. `{A|B}` stands for the value of the environment variable A,
            or else B. Empty: the user must set it.
        places: base URLs for certain values of the first variable in `base_url`.
        base_path: appended to a user's URL that has no path.
        base_variables: environment variables that override the base URL.
        key_variables: environment variables for the key, in order.
        token_variables: environment variables for a token instead of a key, always sent as a bearer token, regardless
            of `auth`.
        key_command: a program that prints the key, and its arguments; empty: none.
        auth: the authentication scheme.
        key_optional: whether it works without a key.
        quirks: its quirks.
        example: the name of one of its models.
        path: the request path below the base URL, if not the wire format's own; `{model}` stands for the model,
            `{A|B}` for the value of a variable.
        headers: additional headers.
        is_local: whether it runs on the user's machine, where it may not be running.
        asking: the API that reports the limits of a model; empty: none.
        parallel: the maximum number of concurrent requests; None: no limit.
        silence: for how many seconds it may send nothing; None: as the settings say.
        prices: its name in the price catalogue; empty: the same; "-": it is not listed.
        note: a hint for users.
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
    key_command: tuple[str, ...] = ()
    auth: AuthKind = "bearer"
    key_optional: bool = False
    quirks: Quirks = Quirks()
    example: str = ""
    path: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_local: bool = False
    limits_api: LimitsApi = ""
    parallel: int | None = None
    silence: float | None = None
    prices: str = ""
    note: str = ""

    @property
    def kind(self) -> str:
        """The name of its table row, or of the row it is based on."""
        return self.like or self.name
