"""Detects a pooler that gives each transaction another connection, behind which no session setting and no `LISTEN` stays."""

from __future__ import annotations

import select
import time
from contextlib import closing

import psycopg
from psycopg.pq import ExecStatus

from engine.core.errors import StoreError
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection

_BACKEND = b"SELECT pg_backend_pid()"


def check_pooler(connection: Connection, address: Address, connections: int) -> None:
    """Check that *connection*, and a second one, keep a server process each. It blocks, up to the timeout.

    Args:
        connection: an idle one, in autocommit mode.
        address: of the database.
        connections: how many the engine may need, for the message.

    Raises:
        StoreError: there is a pooler in transaction or statement mode, or with too few connections.
        psycopg.Error: the connection broke.
    """
    # A pooler reports a process number of its own at the login: without one, this is all.
    first = _backend(connection, address, connections)
    if first == connection.info.backend_pid:
        return
    with closing(psycopg.connect(address.conninfo, autocommit=True)) as other:
        # The connection that was used last is usually the next one, or the next but one. In this order, each of two
        # connections is seen to change its process, or both have the same.
        sequence = (other, other, connection, connection, other)
        seen = [(each, _backend(each, address, connections)) for each in sequence]
    ours = {first, *(pid for each, pid in seen if each is connection)}
    others = {pid for each, pid in seen if each is other}
    if len(ours) > 1 or len(others) > 1 or ours & others:
        raise StoreError(
            f"the pooler in front of {address.name} gives each transaction another connection; the store needs"
            " session mode (PgBouncer: pool_mode = session), or the server's own address"
        )


def _backend(connection: Connection, address: Address, connections: int) -> int:
    """Return the number of the server process that runs a query. Raises `StoreError` if none does within the timeout."""
    # Not `execute`, which has no time limit: a pooler lets a connection wait until another client leaves.
    pgconn, until = connection.pgconn, time.monotonic() + address.timeout
    pgconn.send_query(_BACKEND)
    pgconn.flush()
    pids: list[int] = []
    while True:
        while pgconn.is_busy():
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN)
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise StoreError(
                    f"the pooler in front of {address.name} has no connection left: an engine needs up to {connections}"
                    " at the same time (PgBouncer: default_pool_size, max_user_connections)"
                )
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return pids[0]
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.OperationalError(result.get_error_message())
        pids.append(int(result.get_value(0, 0) or b"0"))
