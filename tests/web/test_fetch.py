"""Who is at the other end of a connection. (Where it goes, and all the rest, is tested with `web_fetch`.)"""

from __future__ import annotations

import attrs
import pytest

from engine.core.errors import ToolError
from engine.web.address_guard import Guard
from engine.web.fetch import check_peer


@attrs.frozen
class Connected:
    """A connected socket, as far as its ends go: a public address of our own can't be made for a test."""

    there: str
    here: str

    def getpeername(self) -> tuple[str, int]:
        return self.there, 443

    def getsockname(self) -> tuple[str, int]:
        return self.here, 50_000


def test_the_world() -> None:
    check_peer(Guard(), "a.example", Connected("8.8.8.8", "10.0.0.5"))


def test_unjudged_address_is_refused() -> None:
    with pytest.raises(ToolError, match=r"Refused: a\.example \(10\.0\.0\.1\) is a private address"):
        check_peer(Guard(), "a.example", Connected("10.0.0.1", "10.0.0.5"))


def test_own_public_address_is_refused() -> None:
    with pytest.raises(ToolError, match=r"Refused: a\.example \(8\.8\.4\.4\) is this machine"):
        check_peer(Guard(), "a.example", Connected("8.8.4.4", "8.8.4.4"))
    check_peer(Guard.of(["8.8.4.4"]), "a.example", Connected("8.8.4.4", "8.8.4.4"))
