"""The tables in PostgreSQL, and the migrations to the current version. The same as `sqlite/schema.py` except for the types.

engine_store   the version, and the time of the last full check
writers        of each open store, the number of its last transaction, and the server process of its connection
watchers       who watches which session, and until when: only those sessions are announced
removals       sessions that were deleted, and whose events are still being removed
tasks          prompts that wait for workers, and what became of them

Each row belongs to a tenant: a store sees those of its own. Engines without tenants have the tenant "".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, LiteralString

import attrs

from engine.core.errors import StoreMismatch
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection
from engine.store.postgres.fleet_tables import FLEET
from engine.store.postgres.pace_tables import PACE_TABLES
from engine.store.postgres.tenant_columns import TENANTS

VERSION: Final = 2

# Ids are compared by their bytes, as in SQLite, not by the server's locale.
TABLES_1: Final = """
CREATE TABLE writers (
    owner text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE events (
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session_id, seq)
);
CREATE TABLE sessions (
    id text COLLATE "C" PRIMARY KEY,
    parent_id text COLLATE "C",
    root_id text COLLATE "C" NOT NULL,
    title text NOT NULL DEFAULT '',
    cwd text COLLATE "C" NOT NULL DEFAULT '',
    model text NOT NULL DEFAULT '',
    created double precision NOT NULL,
    updated double precision NOT NULL,
    seq bigint NOT NULL,
    messages bigint NOT NULL DEFAULT 0,
    turns bigint NOT NULL DEFAULT 0,
    is_busy boolean NOT NULL DEFAULT false,
    asked bigint NOT NULL DEFAULT 0,
    stop_reason text,
    input bigint NOT NULL DEFAULT 0,
    output bigint NOT NULL DEFAULT 0,
    cache_read bigint NOT NULL DEFAULT 0,
    cache_write bigint NOT NULL DEFAULT 0,
    reasoning bigint NOT NULL DEFAULT 0,
    cost double precision NOT NULL DEFAULT 0,
    given_title text NOT NULL DEFAULT '',
    titled_by text NOT NULL DEFAULT '',
    forked_from text COLLATE "C",
    agent text NOT NULL DEFAULT '',
    step_model text NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE INDEX sessions_listed ON sessions (parent_id, updated, id);
CREATE INDEX sessions_of_folder ON sessions (cwd, parent_id, updated, id);
CREATE INDEX sessions_of_tree ON sessions (root_id);
CREATE INDEX sessions_of_parent ON sessions (parent_id);
CREATE TABLE texts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    message_id text NOT NULL,
    part_id text NOT NULL,
    role text NOT NULL,
    time double precision NOT NULL,
    text text NOT NULL,
    words tsvector NOT NULL
);
CREATE INDEX texts_of_message ON texts (session_id, message_id);
CREATE INDEX texts_by_word ON texts USING gin (words);
CREATE TABLE spent (
    slot bigint NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    steps bigint NOT NULL,
    input bigint NOT NULL,
    output bigint NOT NULL,
    cache_read bigint NOT NULL,
    cache_write bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (slot, root_id, model)
);
CREATE INDEX spent_by_tree ON spent (root_id);
CREATE TABLE leases (
    session_id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    machine text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    started bigint NOT NULL,
    expires timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX leases_of_owner ON leases (owner);
CREATE TABLE states (
    session_id text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    made_by text NOT NULL,
    body text NOT NULL
);
CREATE TABLE drafts (
    session_id text COLLATE "C" NOT NULL,
    part_id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session_id, part_id, at)
);
"""
# What version 2 adds. Rows that are updated or deleted all the time are vacuumed by their number, whatever the size of
# the table.
ADDED_2: Final = """
ALTER TABLE writers ADD COLUMN backend integer NOT NULL DEFAULT 0;
CREATE TABLE watchers (
    session_id text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    expires timestamptz NOT NULL,
    PRIMARY KEY (session_id, owner)
) WITH (fillfactor = 50);
CREATE INDEX watchers_of_owner ON watchers (owner);
CREATE TABLE removals (
    session_id text COLLATE "C" PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE writers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE watchers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE drafts SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);
"""
TABLES: Final = TABLES_1 + ADDED_2 + TENANTS + PACE_TABLES + FLEET

Step = Callable[[Connection], None]


@attrs.frozen(kw_only=True)
class PostgresMigration:
    """How a database is migrated to a version.

    Attributes:
        version: the target version.
        tables: the script that creates it in an empty schema.
        steps: by version, the migration to the next one. A step must not begin or end a transaction.
    """

    version: int
    tables: LiteralString
    steps: Mapping[int, Step] = attrs.field(factory=dict[int, Step])


def _add_2(connection: Connection) -> None:
    connection.execute(ADDED_2 + TENANTS + PACE_TABLES + FLEET)


PRESENT: Final = PostgresMigration(version=VERSION, tables=TABLES, steps={1: _add_2})


def migrate(connection: Connection, address: Address, plan: PostgresMigration = PRESENT) -> None:
    """Migrate the database to the version of *plan*. It blocks.

    Raises `StoreMismatch`, and then nothing has changed.
    """
    # Checked without the lock first, which would wait for writers at each opening. Tables and version become visible in
    # one commit.
    if _version(connection, address, plan) == plan.version:
        return
    with connection.transaction():
        # This waits for all engines that are writing, and for one that is creating the tables.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (advisory_lock_key(address),))
        version = _version(connection, address, plan)
        if version == plan.version:
            return
        if version is None:
            _make(connection, address, plan)
        else:
            _upgrade(connection, version, plan)
        connection.execute(
            "INSERT INTO engine_store (name, value) VALUES ('version', %s)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (plan.version,),
        )


def advisory_lock_key(address: Address, purpose: str = "") -> int:
    """Return the key of an advisory lock: by default of the one that writers share, and a migration holds exclusively.

    A lock for a *purpose* is that of one tenant.
    """
    name = f"engine store {address.namespace}" + (f" {purpose} {address.tenant}" if purpose else "")
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def version_mismatch(actual: int, supported: int) -> StoreMismatch:
    """Build the error for tables that a newer engine has migrated."""
    return StoreMismatch(
        f"the store's tables have version {actual}, made by a newer engine; this one knows {supported}: "
        "use the newer one, or another database or schema",
        is_newer=True,
    )


def _version(connection: Connection, address: Address, plan: PostgresMigration) -> int | None:
    """Return the version of the tables; None: there are none. Raises `StoreMismatch` if they are not ours."""
    row = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE relname = 'engine_store') FROM pg_catalog.pg_class"
        " WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %s)",
        (address.namespace,),
    ).fetchone()
    everything, ours = row if row is not None else (0, 0)
    if not everything:
        return None
    found = connection.execute("SELECT value FROM engine_store WHERE name = 'version'").fetchone() if ours else None
    if found is None:
        raise StoreMismatch(
            f"the schema {address.namespace} of {address.name} holds another program's tables; they were left unchanged: use another schema"
        )
    version = int(found[0])
    if version > plan.version:
        raise version_mismatch(version, plan.version)
    return version


def _make(connection: Connection, address: Address, plan: PostgresMigration) -> None:
    known = connection.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (address.namespace,))
    if known.fetchone() is None:
        # No injection is possible: `Address` has checked that the name needs no quoting.
        connection.execute(f'CREATE SCHEMA "{address.namespace}"'.encode())
    # By its full name: without the schema, missing privileges look like a missing table.
    connection.execute(
        f'CREATE TABLE "{address.namespace}".engine_store'.encode()
        + b' (name text COLLATE "C" PRIMARY KEY, value double precision NOT NULL)'
    )
    connection.execute(plan.tables)


def _upgrade(connection: Connection, version: int, plan: PostgresMigration) -> None:
    while version < plan.version:
        step = plan.steps.get(version)
        if step is None:
            raise StoreMismatch(f"there is no migration of the store's tables from version {version} to {plan.version}")
        step(connection)
        version += 1
