"""How an engine shares a database with others."""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

# More would not make a database faster, and each holds a connection and a thread.
MOST_READERS: Final = 8
# One writes, and one reads.
_FEWEST: Final = 2


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StoreConfig(Value):
    """The settings of a store in PostgreSQL; a store in a file has none.

    Attributes:
        max_readers: the most connections for reading; each is made when it is needed.
        max_connections: the most connections of this engine in all: one writes, the others read, and one is for
            notifications. With two there is none for notifications, so watchers only poll. None: two more than
            `max_readers`.
        drafts_per_second: how often the drafts of parts that are being received are written in a second, over all
            sessions of this engine; with more than twice as many streams at once, each is written every two seconds.
    """

    max_readers: int = 2
    max_connections: int | None = None
    drafts_per_second: float = 50.0

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.max_readers <= MOST_READERS:
            raise ConfigError(f"max_readers must be a number from 1 to {MOST_READERS}, not {self.max_readers!r}")
        if self.max_connections is not None and self.max_connections < _FEWEST:
            raise ConfigError(f"max_connections must be at least {_FEWEST}, not {self.max_connections!r}")
        if not self.drafts_per_second > 0:
            raise ConfigError(f"drafts_per_second must be a number above 0, not {self.drafts_per_second!r}")

    @property
    def connections(self) -> int:
        """How many connections it has at most."""
        return 1 + self.readers + self.has_listener

    @property
    def readers(self) -> int:
        """How many of them read."""
        most = self.max_readers if self.max_connections is None else self.max_connections - 1 - self.has_listener
        return min(self.max_readers, most)

    @property
    def has_listener(self) -> bool:
        """Whether one of them is for notifications."""
        return self.max_connections is None or self.max_connections > _FEWEST
