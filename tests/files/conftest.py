"""The tools' context: files are tested through the tools that read and write them."""

from tests.tools.conftest import (
    ctx,  # noqa: F401  # pyright: ignore[reportUnusedImport]  # a fixture
    listener,  # noqa: F401  # pyright: ignore[reportUnusedImport]  # a fixture
)
