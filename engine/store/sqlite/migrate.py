"""Brings a file to the current tables, in one transaction: creates them in an empty file, upgrades an older one, refuses others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from engine.core.errors import StoreMismatch
from engine.core.value_base import Value
from engine.store.sqlite.error_mapping import primary_code
from engine.store.sqlite.rebuild_projections import rebuild_projections, split_script
from engine.store.sqlite.schema import APPLICATION_ID, TABLES, VERSION

Step = Callable[[sqlite3.Connection], None]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SqliteMigration(Value):
    """How a file is migrated to a version.

    Attributes:
        version: the one to get to.
        tables: what makes it in an empty file.
        steps: by version, what leads from there to the next. A step must not begin or end a transaction.
        last: what is done after the last step, once.
    """

    version: int
    tables: str
    steps: Mapping[int, Step] = attrs.field(factory=dict[int, Step])
    last: Step | None = None


def _nothing_but_projections(connection: sqlite3.Connection) -> None:
    """Version 2 has other projections; the last step rebuilds them."""


PRESENT: Final = SqliteMigration(
    version=VERSION, tables=TABLES, steps={1: _nothing_but_projections}, last=rebuild_projections
)


def migrate(connection: sqlite3.Connection, plan: SqliteMigration = PRESENT) -> None:
    """Migrate the file to the version of *plan*. Raises `StoreMismatch`, and then nothing has changed."""
    # Checked without the lock first, which would wait for a writer at each opening.
    if _version_at_one_instant(connection, plan) == plan.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again under the lock, since another engine may have migrated the file.
        version = _version(connection, plan)
        if version is None:
            run_script(connection, plan.tables)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif version < plan.version:
            _upgrade(connection, version, plan)
        connection.execute(f"PRAGMA user_version = {plan.version}")
        connection.execute("COMMIT")
    except BaseException:  # re-raised: a file is migrated completely or not at all
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_compatible(connection: sqlite3.Connection) -> None:
    """Raise `StoreMismatch` if the file is not ours; nothing is written."""
    try:
        _version_at_one_instant(connection, PRESENT)
    except sqlite3.DatabaseError as error:
        # Any other error, a lock say, tells nothing about whose file it is.
        if primary_code(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreMismatch(
            "the file is no SQLite database, or its beginning is damaged; it was left as it is: give another path"
        ) from error


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of *script* inside the open transaction, which `executescript` would commit."""
    for statement in split_script(script):
        connection.execute(statement)


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version number in the file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _version_at_one_instant(connection: sqlite3.Connection, plan: SqliteMigration) -> int | None:
    """Return `_version`, read in one transaction: another engine may finish creating the file between two reads."""
    connection.execute("BEGIN")
    try:
        return _version(connection, plan)
    finally:
        if connection.in_transaction:  # an error may have ended it
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection, plan: SqliteMigration) -> int | None:
    """Return the version of the file; None: it is empty. Raises `StoreMismatch` if it is not ours."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version = read_version(connection)
    if application == APPLICATION_ID:
        if version > plan.version:
            raise StoreMismatch(
                f"the store's file has version {version}, made by a newer engine; this one knows {plan.version}: "
                "use the newer one, or give another path",
                is_newer=True,
            )
        return version
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application or version or tables:
        raise StoreMismatch("the file is another program's database and was left unchanged: give another path")
    return None


def _upgrade(connection: sqlite3.Connection, version: int, plan: SqliteMigration) -> None:
    while version < plan.version:
        step = plan.steps.get(version)
        if step is None:
            raise StoreMismatch(f"there is no migration of the store's file from version {version} to {plan.version}")
        step(connection)
        version += 1
    if plan.last is not None:
        plan.last(connection)
