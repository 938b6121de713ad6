"""A PostgreSQL server of the tests' own, where one is installed: in a folder of its own, through a socket in it only."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import attrs
import psycopg
import pytest
from psycopg.rows import TupleRow

from engine.config.store_config import StoreConfig
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore

MISSING = (
    "no PostgreSQL is installed: neither initdb on PATH nor /usr/lib/postgresql/*/bin (apt-get install postgresql)"
)
# Short: the path of a socket has 107 characters.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
KEYED, PASSWORD = "keyed", "canary:p@ss/w%rd"
_HBA = f"local all {KEYED} scram-sha-256\nlocal all all trust\n"
_FAST = ("fsync=off", "full_page_writes=off")
# The server ends when its input does: with us, however we end.
_UNTIL_EOF = 'postgres=$1; shift; "$postgres" "$@" <&- & read -r _; kill -INT $!; wait $!'


def programs() -> Path | None:
    """The folder of the server's programs."""
    found = shutil.which("initdb")
    if found is not None and Path(found).resolve().with_name("postgres").exists():
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parent.parent.name)
    return folders[-1].parent if folders else None


def _somebody() -> str | None:
    """A user who is not root: the server refuses to be run by that one."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


@attrs.define(eq=False)
class Server:
    """One server, and the databases in it."""

    programs: Path
    folder: Path
    options: tuple[str, ...] = _FAST
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)
    _numbers: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def make(self) -> None:
        self.folder.chmod(0o700)
        user = _somebody()
        if user is not None:
            os.chown(self.folder, pwd.getpwnam(user).pw_uid, -1)
        data = str(self.folder / "data")
        with self._run("initdb", "-D", data, "-U", "engine", "-A", "trust", "-E", "UTF8", "--locale=C", "-N") as made:
            try:
                made.wait(60)
            finally:
                made.kill()
        assert made.returncode == 0, (self.folder / "log").read_text()
        (self.folder / "data" / "pg_hba.conf").write_text(_HBA)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        settings = ["listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=60", *self.options]
        flags = [flag for setting in settings for flag in ("-c", setting)]
        self._process = self._run(
            "sh", "-c", _UNTIL_EOF, "sh", str(self.programs / "postgres"), "-D", f"{self.folder}/data", *flags
        )
        until = time.monotonic() + 60
        while True:
            try:
                self.do("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """End all of it at once, as a machine does that loses its power but for what the kernel has."""
        main = int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "engine") -> str:
        return f"host={self.folder} dbname={database} user={user}"

    def url(self, database: str) -> str:
        return f"postgresql://engine@/{database}?host={quote(str(self.folder), safe='')}"

    def do(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[object, ...]]:
        """Do one thing as the administrator."""
        # (A test may have made all databases read-only, which is no law for an administrator.)
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(self.dsn(database), autocommit=True, options=options) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return [] if cursor.description is None else cursor.fetchall()

    @staticmethod
    def connected(place: str) -> psycopg.Connection[TupleRow]:
        """A connection of somebody else's."""
        return psycopg.connect(place, autocommit=True)

    def name(self) -> str:
        """A name that nothing has yet."""
        return f"engine_{next(self._numbers)}"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        user = _somebody()
        found = self.programs / program
        rights = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [str(found) if found.exists() else program, *arguments],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                **rights,  # type: ignore[call-overload]  # three arguments of different types
            )
        return process


def a_server(*options: str) -> Server:
    """Start a server; the test is skipped where there is none."""
    found = programs()
    if found is None:
        pytest.skip(MISSING)
    if os.geteuid() == 0 and _somebody() is None:
        pytest.skip("PostgreSQL refuses to be run by root, and there is nobody else here")
    server = Server(found, Path(tempfile.mkdtemp(prefix="engine-pg-", dir=MEMORY)), options or _FAST)
    # As soon as there is something to remove.
    atexit.register(server.remove)
    server.make()
    server.start()
    return server


@functools.cache
def shared_server() -> Server:
    """The server that all tests of this process share which do it no harm."""
    return a_server()


@attrs.frozen
class Database:
    """A schema of its own in a shared database."""

    server: Server
    namespace: str

    async def open(
        self,
        *,
        timeout: float = 5.0,
        lease_seconds: float = 60.0,
        tenant: str = "",
        config: StoreConfig | None = None,
    ) -> PostgresStore:
        return await open_postgres_store(
            self.server.dsn(),
            namespace=self.namespace,
            timeout=timeout,
            lease_seconds=lease_seconds,
            tenant=tenant,
            config=config,
        )

    def do(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Do one thing there, as the administrator: `{}` is the schema."""
        return self.server.do(statement.replace("{}", self.namespace), *values)

    def kill_connections(self) -> int:
        """Break all connections of stores."""
        (row,) = self.server.do(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'engine'"
        )
        assert isinstance(row[0], int)
        return row[0]


@contextmanager
def a_database(server: Server | None = None) -> Generator[Database]:
    """A place which is empty, and is gone after the block."""
    where = server or shared_server()
    database = Database(where, where.name())
    try:
        yield database
    finally:
        where.do(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {database.namespace} CASCADE")


@functools.cache
def _tables() -> Database:
    return Database(shared_server(), shared_server().name())


@contextmanager
def emptied_database() -> Generator[Database]:
    """A place whose tables are there already, which is empty after the block: for hundreds of short stays."""
    database = _tables()
    try:
        yield database
    finally:
        tables = database.do("SELECT relname FROM pg_class WHERE relnamespace = '{}'::regnamespace AND relkind = 'r'")
        names = ", ".join(f"{{}}.{name}" for (name,) in tables if name != "engine_store")
        database.do(f"TRUNCATE {names} RESTART IDENTITY")
