"""The store that forgets keeps what the port promises, as long as it lives."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import attrs

from engine.store.memory import MemoryStore
from tests.store.suite import Place, StoreSuite


@attrs.frozen
class _Shared:
    store: MemoryStore

    async def open(self) -> MemoryStore:
        return self.store


class TestMemoryStore(StoreSuite):
    @contextlib.contextmanager
    def places(self) -> Generator[Place]:
        yield _Shared(MemoryStore())
