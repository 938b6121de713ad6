"""A PgBouncer of the tests' own in front of their server, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.store.server import Server, _somebody

MISSING = "no PgBouncer is installed (apt-get install pgbouncer)"


@contextmanager
def a_pooler(server: Server, mode: str, *, size: int = 20, round_robin: bool = False) -> Generator[str]:
    """Start one; yield the address of the server's database behind it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip(MISSING)
    folder = server.folder / f"pooler-{mode}-{size}-{round_robin}"
    folder.mkdir()
    user = _somebody()
    (folder / "users.txt").write_text('"engine" ""\n')
    (folder / "pooler.ini").write_text(
        f"[databases]\npostgres = host={server.folder} user=engine\n"
        f"[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {folder}\nauth_type = trust\n"
        f"auth_file = {folder}/users.txt\npool_mode = {mode}\ndefault_pool_size = {size}\n"
        f"server_round_robin = {int(round_robin)}\nlogfile = {folder}/log\n"
    )
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    rights = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    process = subprocess.Popen(
        [program, "-q", str(folder / "pooler.ini")],
        stdin=subprocess.DEVNULL,
        **rights,  # type: ignore[call-overload]  # three arguments of different types
    )
    place = f"host={folder} port=6432 dbname=postgres user=engine"
    try:
        _wait_until_it_listens(place, process, folder)
        yield place
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


def _wait_until_it_listens(place: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(place).close()
        except psycopg.OperationalError:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.02)
        else:
            return
