"""`PostgresTableWriter`: the writer's transaction in PostgreSQL.

Events and texts use COPY; the rest is a few statements.

Unlike in SQLite, other engines write at the same time. So the writer locks its lease row, and takes a lease only from
the owner that it read before: no other engine can take it between that read and the commit. Leases expire by the
database's clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, LiteralString, TypeAlias

import attrs
from psycopg.rows import TupleRow

from engine.core.ids import PartId, SessionId
from engine.store.backend import EventRow
from engine.store.leases import Lease, Owner
from engine.store.postgres.connections import Connection
from engine.store.postgres.removals import begin_removal, finish_removal, remove_batch
from engine.store.postgres.task_table import TaskTable
from engine.store.postgres.text_table import PostgresTextTable, copy_escaped, postgres_text
from engine.store.projection import SessionChange, make_title
from engine.store.projection_rows import session_values, spending_values, write_texts
from engine.store.store_figures import StoreFigures

_Value: TypeAlias = "str | float | bool | None"

_LEASE: Final = (
    "session_id, owner, machine, host, pid, started, extract(epoch FROM expires - clock_timestamp())::double precision"
)
# One session must not block the others.
_MOST: Final = 1 << 61
# Many rows in one statement, as JSON. The second part does not see the rows inserted by the first, and updates only
# those that existed before. No other engine writes these rows, since none has claimed the sessions.
_SESSIONS: Final = """
WITH new AS (SELECT * FROM json_to_recordset(%(rows)s::json) AS (id text, parent text, root text, title text, cwd text,
    model text, created float8, updated float8, seq bigint, messages bigint, turns bigint, is_busy boolean, asked bigint,
    asked_anew boolean, stop_reason text, input bigint, output bigint, cache_read bigint, cache_write bigint,
    reasoning bigint, cost float8, given_title text, titled_by text, forked_from text, agent text, step_model text)),
made AS (INSERT INTO sessions (tenant, id, parent_id, root_id, title, cwd, model, created, updated, seq, messages, turns,
        is_busy, asked, stop_reason, input, output, cache_read, cache_write, reasoning, cost, given_title, titled_by,
        forked_from, agent, step_model)
    SELECT %(tenant)s::text, id, parent, root, title, cwd, model, created, updated, seq, messages, turns,
        coalesce(is_busy, false), asked, stop_reason, input, output, cache_read, cache_write, reasoning, cost, given_title,
        titled_by, forked_from, agent, coalesce(step_model, '')
    FROM new ON CONFLICT (tenant, id) DO NOTHING)
UPDATE sessions AS old SET
    title = CASE old.title WHEN '' THEN new.title ELSE old.title END,
    cwd = CASE new.cwd WHEN '' THEN old.cwd ELSE new.cwd END,
    model = CASE new.model WHEN '' THEN old.model ELSE new.model END,
    updated = greatest(old.updated, new.updated),
    seq = greatest(old.seq, new.seq),
    messages = old.messages + new.messages,
    turns = old.turns + new.turns,
    is_busy = coalesce(new.is_busy, old.is_busy),
    asked = CASE WHEN new.asked_anew THEN 0 ELSE old.asked END + new.asked,
    stop_reason = coalesce(new.stop_reason, old.stop_reason),
    input = least(old.input + new.input, %(most)s),
    output = least(old.output + new.output, %(most)s),
    cache_read = least(old.cache_read + new.cache_read, %(most)s),
    cache_write = least(old.cache_write + new.cache_write, %(most)s),
    reasoning = least(old.reasoning + new.reasoning, %(most)s),
    cost = old.cost + new.cost,
    given_title = CASE WHEN new.titled_by = '' OR (new.titled_by = 'model' AND old.titled_by = 'user')
        THEN old.given_title ELSE new.given_title END,
    titled_by = CASE WHEN new.titled_by = '' OR (new.titled_by = 'model' AND old.titled_by = 'user')
        THEN old.titled_by ELSE new.titled_by END,
    forked_from = coalesce(new.forked_from, old.forked_from),
    agent = CASE new.agent WHEN '' THEN old.agent ELSE new.agent END,
    step_model = coalesce(new.step_model, old.step_model)
FROM new WHERE old.tenant = %(tenant)s AND old.id = new.id
"""
# As in SQLite. Sums stop at `most`: PostgreSQL raises on an overflow, which would refuse a whole batch.
_ADDED: Final = """
ON CONFLICT (tenant, slot, root_id, model) DO UPDATE SET
    steps = old.steps + excluded.steps,
    input = least(old.input + excluded.input, %(most)s),
    output = least(old.output + excluded.output, %(most)s),
    cache_read = least(old.cache_read + excluded.cache_read, %(most)s),
    cache_write = least(old.cache_write + excluded.cache_write, %(most)s),
    reasoning = least(old.reasoning + excluded.reasoning, %(most)s),
    cost = old.cost + excluded.cost
"""
# The rows are sorted: another engine may add to the same ones, and two different orders could deadlock.
_SPEND: Final = f"""
INSERT INTO spent AS old (tenant, slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
SELECT %(tenant)s::text, slot, root, coalesce(new.model, sessions.step_model, '') AS named, sum(steps), sum(new.input),
    sum(new.output), sum(new.cache_read), sum(new.cache_write), sum(new.reasoning), sum(new.cost)
FROM json_to_recordset(%(rows)s::json) AS new (slot bigint, root text, model text, steps bigint, input bigint,
    output bigint, cache_read bigint, cache_write bigint, reasoning bigint, cost float8, session text)
    LEFT JOIN sessions ON sessions.tenant = %(tenant)s AND sessions.id = new.session
GROUP BY slot, root, named ORDER BY slot, root, named
{_ADDED}"""  # noqa: S608  # texts of ours
_SPENT_BY_NOBODY: Final = f"""
INSERT INTO spent AS old (tenant, slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
SELECT tenant, slot, '', model, steps, input, output, cache_read, cache_write, reasoning, cost FROM spent
WHERE tenant = %(tenant)s AND root_id = %(root)s AND root_id <> '' ORDER BY slot, model
{_ADDED}"""  # noqa: S608  # texts of ours
# Compare and swap: the lease is taken only if it is free, ours, or still belongs to the owner that was read.
_TAKE: Final = """
INSERT INTO leases AS old (tenant, session_id, owner, machine, host, pid, started, expires)
VALUES (%(tenant)s, %(session)s, %(owner)s, %(machine)s, %(host)s, %(pid)s, %(started)s,
    clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (tenant, session_id) DO UPDATE SET owner = excluded.owner, machine = excluded.machine, host = excluded.host,
    pid = excluded.pid, started = excluded.started, expires = excluded.expires
WHERE old.owner IN (%(owner)s, %(over)s)
"""
# UNION, not UNION ALL: damaged rows may name each other as parents.
_TREE: Final = """
WITH RECURSIVE tree (id) AS (
    SELECT id FROM sessions WHERE tenant = %(tenant)s AND (id = %(id)s OR root_id = %(id)s)
    UNION
    SELECT sessions.id FROM sessions JOIN tree ON sessions.tenant = %(tenant)s AND sessions.parent_id = tree.id
)
SELECT id, updated FROM sessions WHERE tenant = %(tenant)s AND id IN (SELECT id FROM tree) ORDER BY id
"""
# In the order of `spending_values`.
_SPENT: Final = (
    "slot",
    "root",
    "model",
    "steps",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "reasoning",
    "cost",
    "session",
)
_OF_A_SESSION: Final[tuple[LiteralString, ...]] = ("states", "drafts", "leases")


@attrs.frozen
class PostgresTableWriter:
    """See `TableWriter`. It sees and writes the rows of one tenant.

    Attributes:
        has_row_security: the database adds conditions of its own, under which it refuses COPY.
    """

    _connection: Connection
    _tenant: str
    _figures: StoreFigures
    has_row_security: bool = False

    @property
    def tasks(self) -> TaskTable:
        """The queue of tasks."""
        return TaskTable(self._connection, self._tenant)

    def write(self, rows: Sequence[EventRow], changes: Sequence[SessionChange]) -> None:
        """See `TableWriter`."""
        self._write_events(rows)
        # Before the session rows are updated: they still hold the model of a step that began in an earlier batch.
        spent = [_spent_values(row) for change in changes for row in spending_values(change)]
        if spent:
            self._connection.execute(_SPEND, {"tenant": self._tenant, "rows": json.dumps(spent), "most": _MOST})
        sessions = [_cleaned(session_values(change)) for change in changes]
        self._connection.execute(_SESSIONS, {"tenant": self._tenant, "rows": json.dumps(sessions), "most": _MOST})
        copy = None if self.has_row_security else self._copy
        write_texts(PostgresTextTable(self._connection, self._tenant, copy), changes)
        for change in changes:
            if change.texts.is_first_prompt_lost:
                self._rebuild_title(change.session_id)

    def _write_events(self, rows: Sequence[EventRow]) -> None:
        if self.has_row_security:
            with self._connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO events (tenant, session_id, seq, type, version, body) VALUES (%s, %s, %s, %s, %s, %s)",
                    [(self._tenant, row.event.session_id, row.seq, row.type, row.version, row.body) for row in rows],
                )
            return
        lines = (
            f"{self._tenant}\t{copy_escaped(row.event.session_id)}\t{row.seq}\t{row.type}\t{row.version}"
            f"\t{copy_escaped(row.body)}\n"
            for row in rows
        )
        self._copy("COPY events (tenant, session_id, seq, type, version, body) FROM STDIN", lines)

    def last_seq(self, session_id: SessionId) -> int:
        """See `TableWriter`."""
        row = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM events WHERE tenant = %s AND session_id = %s", (self._tenant, session_id)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def save_state(self, session_id: SessionId, seq: int, made_by: str, body: str) -> None:
        """See `TableWriter`."""
        # Only if its events are there: a state that is ahead of the events would hide that some were lost.
        self._connection.execute(
            "INSERT INTO states (tenant, session_id, seq, made_by, body)"
            " SELECT %(tenant)s, %(id)s, %(seq)s::bigint, %(made_by)s, %(body)s"
            " WHERE (SELECT max(seq) FROM events WHERE tenant = %(tenant)s AND session_id = %(id)s) >= %(seq)s::bigint"
            " ON CONFLICT (tenant, session_id) DO UPDATE SET seq = excluded.seq, made_by = excluded.made_by,"
            " body = excluded.body",
            {"tenant": self._tenant, "id": session_id, "seq": seq, "made_by": made_by, "body": body},
        )

    def save_draft(self, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
        """See `TableWriter`."""
        self._connection.execute(
            "INSERT INTO drafts (tenant, session_id, part_id, at, body) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (tenant, session_id, part_id, at) DO UPDATE SET body = excluded.body",
            (self._tenant, session_id, postgres_text(part_id), offset, body),
        )
        self._figures.drafts += 1

    def delete_drafts(self, session_id: SessionId, part_id: PartId | None) -> None:
        """See `TableWriter`."""
        part = None if part_id is None else postgres_text(part_id)
        self._connection.execute(
            "DELETE FROM drafts WHERE tenant = %s AND session_id = %s AND (%s::text IS NULL OR part_id = %s)",
            (self._tenant, session_id, part, part),
        )

    # -- leases ---------------------------------------------------------------------------

    def leases_of(self, session_ids: Collection[SessionId], owner: Owner) -> Mapping[SessionId, Lease]:
        """See `TableWriter`: ours are locked, without waiting for those of other engines."""
        # FOR UPDATE on our own: no engine can take one over until this transaction has written its events. In one order,
        # sorted against deadlocks. Those of others are only read, since locking would wait for their owners'
        # transactions.
        names = list(session_ids)
        ours = self._connection.execute(
            f"SELECT {_LEASE} FROM leases WHERE tenant = %s AND session_id = ANY(%s) AND owner = %s"  # noqa: S608  # columns of ours
            " ORDER BY session_id FOR UPDATE",
            (self._tenant, names, owner.id),
        ).fetchall()
        leases = leases_in(ours)
        if len(leases) < len(names):
            others = self._connection.execute(
                f"SELECT {_LEASE} FROM leases WHERE tenant = %s AND session_id = ANY(%s) AND owner <> %s",  # noqa: S608  # as above
                (self._tenant, names, owner.id),
            ).fetchall()
            leases.update(leases_in(others))
        return leases

    def leases(self) -> Mapping[SessionId, Lease]:
        """See `TableWriter`."""
        return all_leases(self._connection, self._tenant)

    def take_lease(self, owner: Owner, session_id: SessionId, over: Lease | None) -> bool:
        """See `TableWriter`."""
        values = {
            "tenant": self._tenant,
            "session": session_id,
            "owner": owner.id,
            "machine": owner.machine,
            "host": owner.host,
            "pid": owner.process.pid,
            "started": owner.process.start_time,
            "seconds": owner.seconds,
            "over": owner.id if over is None else over.owner,
        }
        is_taken = self._connection.execute(_TAKE, values).rowcount == 1
        if is_taken and over is not None and over.owner != owner.id:
            self._figures.takeovers += 1
        if is_taken:
            finish_removal(self._connection, self._tenant, session_id)
        return is_taken

    def renew_leases(self, owner: Owner) -> None:
        """See `TableWriter`."""
        self._connection.execute(
            "UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %s) WHERE tenant = %s AND owner = %s",
            (owner.seconds, self._tenant, owner.id),
        )
        self._connection.execute(
            "UPDATE writers SET figures = %s WHERE tenant = %s AND owner = %s",
            (json.dumps(self._figures.report()), self._tenant, owner.id),
        )

    def release_lease(self, owner: Owner, session_id: SessionId) -> None:
        """See `TableWriter`."""
        self._connection.execute(
            "DELETE FROM leases WHERE tenant = %s AND session_id = %s AND owner = %s",
            (self._tenant, session_id, owner.id),
        )

    def release_leases(self, owner: Owner) -> None:
        """See `TableWriter`."""
        self._connection.execute("DELETE FROM leases WHERE tenant = %s AND owner = %s", (self._tenant, owner.id))
        self._connection.execute("DELETE FROM watchers WHERE tenant = %s AND owner = %s", (self._tenant, owner.id))
        # It writes nothing more, so the number of its last transaction is no longer needed.
        self._connection.execute("DELETE FROM writers WHERE tenant = %s AND owner = %s", (self._tenant, owner.id))

    # -- watchers -------------------------------------------------------------------------

    def watch(self, owner: Owner, session_ids: Sequence[SessionId], seconds: float) -> None:
        """Register that *owner* watches those sessions, for so long; forget what it watched before."""
        self._connection.execute(
            "DELETE FROM watchers WHERE tenant = %s AND owner = %s AND expires < clock_timestamp()",
            (self._tenant, owner.id),
        )
        self._connection.execute(
            "INSERT INTO watchers (tenant, session_id, owner, expires)"
            " SELECT %s, unnest(%s::text[]), %s, clock_timestamp() + make_interval(secs => %s)"
            " ON CONFLICT (tenant, session_id, owner) DO UPDATE SET expires = excluded.expires",
            (self._tenant, [postgres_text(each) for each in session_ids], owner.id, seconds),
        )

    # -- retention ------------------------------------------------------------------------

    def session_tree(self, session_id: SessionId) -> Sequence[tuple[SessionId, float]]:
        """See `TableWriter`."""
        rows = self._connection.execute(_TREE, {"tenant": self._tenant, "id": session_id}).fetchall()
        return [(SessionId(name), updated) for name, updated in rows]

    def delete_session(self, session_id: SessionId) -> bool:
        """See `TableWriter`."""
        own = (self._tenant, session_id)
        begin_removal(self._connection, self._tenant, session_id)
        # What the session has spent stays in the sums, without its name.
        for table in _OF_A_SESSION:
            self._connection.execute(f"DELETE FROM {table} WHERE tenant = %s AND session_id = %s", own)  # noqa: S608  # names of ours
        self._connection.execute(_SPENT_BY_NOBODY, {"tenant": self._tenant, "root": session_id, "most": _MOST})
        self._connection.execute("DELETE FROM spent WHERE tenant = %s AND root_id = %s AND root_id <> ''", own)
        return self._connection.execute("DELETE FROM sessions WHERE tenant = %s AND id = %s", own).rowcount == 1

    def reclaim_space(self) -> bool:
        """See `TableWriter`: it removes the events of deleted sessions; the server reuses their space by itself."""
        return remove_batch(self._connection, self._tenant)

    # -- texts ----------------------------------------------------------------------------

    def _copy(self, statement: LiteralString, lines: Iterable[str]) -> None:
        # COPY, since the server plans each INSERT. One `write` for all lines, so that the interpreter's lock is released once.
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write("".join(lines).encode())

    def _rebuild_title(self, session_id: SessionId) -> None:
        """Rebuild the title from the user's first remaining text."""
        texts = self._connection.execute(
            "SELECT text FROM texts WHERE tenant = %s AND session_id = %s AND role = 'user' ORDER BY seq, id",
            (self._tenant, session_id),
        ).fetchall()
        titles = (make_title(text) for (text,) in texts)
        title = next((title for title in titles if title), "")
        self._connection.execute(
            "UPDATE sessions SET title = %s WHERE tenant = %s AND id = %s", (title, self._tenant, session_id)
        )


def all_leases(connection: Connection, tenant: str) -> Mapping[SessionId, Lease]:
    """Return all leases of a tenant."""
    rows = connection.execute(f"SELECT {_LEASE} FROM leases WHERE tenant = %s", (tenant,))  # noqa: S608  # columns of ours
    return leases_in(rows.fetchall())


def leases_in(rows: Iterable[TupleRow]) -> dict[SessionId, Lease]:
    """Build leases from *rows*, with their expiry converted to this machine's clock."""
    now = time.time()
    return {
        SessionId(session_id): Lease(owner, machine, host, pid, started, now + seconds)
        for session_id, owner, machine, host, pid, started, seconds in rows
    }


def _cleaned(row: Mapping[str, _Value]) -> dict[str, _Value]:
    return {name: postgres_text(value) if isinstance(value, str) else value for name, value in row.items()}


def _spent_values(row: Sequence[_Value]) -> dict[str, _Value]:
    return _cleaned(dict(zip(_SPENT, row, strict=True)))
