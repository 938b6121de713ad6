"""The command that ends the renewing of leases while nothing runs."""

from __future__ import annotations

import attrs

from engine.store.sqlite.table_writer import SqliteTableWriter
from engine.store.write_commands import WriteCommand, WriteTransaction


@attrs.define(eq=False, repr=False)
class IdleLeases(WriteCommand):
    """Makes all leases of this engine last as long as its process."""

    def run(self, at: WriteTransaction) -> None:
        """Make them so."""
        assert isinstance(at.tables, SqliteTableWriter)
        at.tables.make_leases_idle(at.owner)
