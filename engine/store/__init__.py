"""Stores keep the events of sessions."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.protocols import Store as Store
    from engine.store.memory import MemoryStore as MemoryStore
    from engine.store.postgres.open import open_postgres_store as open_postgres_store
    from engine.store.sqlite.store import SqliteStore as SqliteStore
    from engine.store.sqlite.store import open_sqlite_store as open_sqlite_store
    from engine.store.store_protocols import FullStore as FullStore
    from engine.store.store_protocols import SearchHit as SearchHit
    from engine.store.store_protocols import SessionQuery as SessionQuery
    from engine.store.store_protocols import SessionRow as SessionRow
    from engine.store.store_protocols import Spending as Spending
    from engine.store.store_protocols import SpendingQuery as SpendingQuery
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.protocols": "Store",
            "engine.store.memory": "MemoryStore",
            "engine.store.postgres.open": "open_postgres_store",
            "engine.store.sqlite.store": "SqliteStore open_sqlite_store",
            "engine.store.store_protocols": "FullStore SearchHit SessionQuery SessionRow Spending SpendingQuery",
        },
    )
