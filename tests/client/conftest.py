"""What the tests of clients share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, for Unix sockets."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
