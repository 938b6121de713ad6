"""Where a server is: its record and its lock, and what a killed one leaves. `tests/cli/test_serve_life.py` has the processes."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.control.protocol.handshake import VersionRange
from engine.control.service.private_files import private_folder
from engine.control.service.server_discovery import (
    ServerLock,
    ServerRecord,
    ServerRunning,
    claim_folder,
    find_server,
    read_record,
    remove_record,
    server_folder,
    store_label,
    write_record,
)
from engine.core.errors import ConfigError

pytestmark = pytest.mark.os


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as parent:
        yield private_folder(Path(parent) / "store")


def record_in(folder: Path, instance: str = "i1", pid: int = 0) -> ServerRecord:
    return ServerRecord(
        pid=pid or os.getpid(),
        started=1.5,
        instance=instance,
        version="1",
        protocol=VersionRange(min=1, max=1),
        url="http://127.0.0.1:1",
        socket=str(folder / "control.sock"),
        store="/sessions.db",
    )


def listen(record: ServerRecord) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(record.socket)
    listener.listen()
    return listener


def test_listening_server_is_found(folder: Path) -> None:
    record = record_in(folder)
    with listen(record):
        write_record(folder, record)
        assert find_server(folder) == record
        assert (folder / "server.json").stat().st_mode & 0o777 == 0o600
        assert set(json.loads((folder / "server.json").read_text())) == {
            *("pid", "started", "instance", "version", "protocol", "url", "socket", "store")
        }


def test_no_folder_means_no_server(tmp_path: Path) -> None:
    assert find_server(tmp_path / "missing") is None
    assert not (tmp_path / "missing").exists()


def test_record_of_a_killed_server_is_removed(folder: Path) -> None:
    # Its pid is in use: that is this very process.
    record = record_in(folder, pid=os.getpid())
    listen(record).close()
    write_record(folder, record)
    assert find_server(folder) is None
    assert read_record(folder) is None


def test_record_under_a_held_lock_stays(folder: Path) -> None:
    lock = ServerLock.acquire(folder)
    write_record(folder, record_in(folder))
    assert find_server(folder) is None  # it does not listen yet, or not any more
    assert read_record(folder) is not None
    lock.close()
    assert find_server(folder) is None
    assert read_record(folder) is None


def test_only_the_own_record_is_removed(folder: Path) -> None:
    write_record(folder, record_in(folder, "successor"))
    remove_record(folder, "predecessor")
    assert read_record(folder) is not None
    remove_record(folder, "successor")
    assert read_record(folder) is None


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"pid": "1"}', "[" * 100_000, '{"pid": 1, "started": NaN, "protocol": {"min": 1, "max": 1}}'],
)
def test_damaged_record_is_none(folder: Path, text: str) -> None:
    (folder / "server.json").touch(0o600)
    (folder / "server.json").write_text(text)
    assert find_server(folder) is None


def test_fields_of_a_newer_engine_are_ignored(folder: Path) -> None:
    write_record(folder, record_in(folder))
    document = json.loads((folder / "server.json").read_text())
    (folder / "server.json").write_text(json.dumps({**document, "later": 1}))
    assert read_record(folder) == record_in(folder)


@pytest.mark.parametrize("name", ["", "server.json"])
def test_what_others_can_read_is_refused(folder: Path, name: str) -> None:
    write_record(folder, record_in(folder))
    (folder / name).chmod(0o755)
    with pytest.raises(ConfigError, match="chmod"):
        find_server(folder)


def test_linked_folder_is_refused(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    with pytest.raises(ConfigError, match="no link"):
        find_server(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    with pytest.raises(ConfigError, match="another user"):
        find_server(folder)


async def test_second_claim_learns_of_the_first(folder: Path) -> None:
    lock = await claim_folder(folder)
    record = record_in(folder)
    with listen(record):
        write_record(folder, record)
        with pytest.raises(ServerRunning) as refused:
            await claim_folder(folder)
    assert refused.value.record == record
    lock.close()
    (await claim_folder(folder)).close()


def test_lock_outlives_one_of_two_copies(folder: Path) -> None:
    lock = ServerLock.acquire(folder)
    copy = ServerLock(os.dup(lock.descriptor))
    lock.close()
    with pytest.raises(ServerRunning):
        ServerLock.acquire(folder)
    copy.close()
    ServerLock.acquire(folder).close()


def test_each_store_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    one, link, other = (server_folder(str(tmp_path / name)) for name in ("a.db", "link.db", "b.db"))
    assert one == link != other
    assert one.parent == tmp_path / "engine"


@pytest.mark.parametrize("runtime", ["", "relative", "/nowhere/at/all"])
def test_useless_runtime_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert server_folder("a.db").parent == tmp_path / "engine"


def test_shared_runtime_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others may write, they could put a folder in the place of ours; root could write into anybody's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "shared").mkdir(mode=0o700)
    assert server_folder("a.db").parent == tmp_path / "shared" / "engine"
    (tmp_path / "shared").chmod(0o1777)
    assert server_folder("a.db").parent == tmp_path / "engine"
    if os.geteuid() == 0:
        (tmp_path / "shared").chmod(0o700)
        os.chown(tmp_path / "shared", 65534, 65534)
        assert server_folder("a.db").parent == tmp_path / "engine"


@pytest.mark.parametrize(
    "place", ["postgresql://ada:secret@db.example/sessions", "postgres://ada@db.example/sessions?password=secret"]
)
def test_label_of_a_database_has_no_password(place: str) -> None:
    assert store_label(place) == "postgresql://ada@db.example/sessions"
