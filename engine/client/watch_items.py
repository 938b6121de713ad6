"""What a watched session yields besides events: what is true of the connection."""

from __future__ import annotations

import attrs

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Offline(Value):
    """The connection is lost; it is being made again. What the client shows may be out of date.

    Attributes:
        code: the close code (RFC 6455); 1006: the connection ended without one.
        reason: for a person.
    """

    code: int
    reason: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Online(Value):
    """The connection is there again; what was missed comes next.

    Attributes:
        is_new_server: the server was started since: a `Resync` follows.
    """

    is_new_server: bool
