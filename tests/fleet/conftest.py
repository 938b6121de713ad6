"""A database for each test of a fleet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.server import shared_server


@pytest.fixture
def place() -> Iterator[str]:
    """The URL of a database of one's own."""
    server = shared_server()
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.do(f"DROP DATABASE {name} WITH (FORCE)")
