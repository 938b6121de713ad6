"""One browser for all tests of the page in a process; each test has a page, with a storage, of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import EXECUTABLE, chromium


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running browser's protocol."""
    if EXECUTABLE is None:
        pytest.skip("there is no chromium: see .ci/run")
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, for the Unix socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
