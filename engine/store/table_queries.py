"""`TableQueries`: a store's queries over all sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from engine.core.ids import SessionId
from engine.store.backend import TableReader
from engine.store.event_sink import EventSink
from engine.store.store_protocols import SearchHit, SessionQuery, SessionRow, Spending, SpendingQuery

T = TypeVar("T")


@attrs.define(kw_only=True, eq=False, repr=False)
class TableQueries(ABC):
    """Lists, search and spending. Each result includes all events put before the query."""

    _sink: EventSink = attrs.field(alias="sink")

    @abstractmethod
    async def _query(self, work: Callable[[TableReader], T]) -> T:
        """Run *work* in a thread, once all queued events are written. Always a checkpoint. Raises `StoreError`."""

    async def list_sessions(self, query: SessionQuery | None = None) -> Sequence[SessionRow]:
        """See `Catalogue`; without a query, the newest hundred without a parent. Always a checkpoint."""
        effective = SessionQuery() if query is None else query
        return await self._query(lambda tables: tables.list_sessions(self._sink.owner, effective))

    async def search(self, words: str, *, limit: int = 20, cwd: str | None = None) -> Sequence[SearchHit]:
        """See `Catalogue`. Always a checkpoint."""
        return await self._query(lambda tables: tables.search(self._sink.owner, words, limit, cwd))

    async def ids(self, prefix: str = "") -> Sequence[SessionId]:
        """See `Catalogue`. Always a checkpoint."""
        return await self._query(lambda tables: tables.ids(prefix))

    async def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """See `Accounting`. Always a checkpoint."""
        return await self._query(lambda tables: tables.spending(query))

    async def list_inactive(self, *, older_than: float, keep: int = 0) -> Sequence[SessionId]:
        """See `Retention`. Always a checkpoint."""
        return await self._query(lambda tables: tables.inactive_trees(older_than, keep))
