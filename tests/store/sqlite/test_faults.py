"""What a disk can do to a store: full, read-only, deleted, replaced, shared, somebody else's."""

# ruff: noqa: ASYNC240 -- the files are small

from __future__ import annotations

import gc
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from engine.core.errors import StoreError, StoreMismatch
from engine.core.ids import SessionId
from engine.store.sqlite.file_location import default_path
from engine.store.sqlite.filesystem import filesystem_type, is_shared
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from engine.store.write_commands import WriteCommand, WriteTransaction
from tests.conftest import NOBODY
from tests.store.journals import A, B, created, noted, notes

pytestmark = pytest.mark.os


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


async def stored(path: Path, count: int = 3) -> SqliteStore:
    """A store that has some events already."""
    store = await open_sqlite_store(path, lock_timeout=0.3)
    for event in notes(A, count):
        store.put(event)
    await store.flushed(A, count)
    return store


# ---- where it is -----------------------------------------------------------------------------------------------------


async def test_by_default_it_is_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "engine" / "sessions.db"
    store = await open_sqlite_store()
    store.put(noted(A, 1))
    await store.flushed(A, 1)
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in (tmp_path / "engine").iterdir()}
    assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "engine").stat().st_mode) == 0o700
    await store.aclose()
    assert [found.name for found in (tmp_path / "engine").iterdir()] == ["sessions.db"]


async def test_odd_file_name(tmp_path: Path) -> None:
    path = tmp_path / "50% of # what?&mode=ro ü.db"
    store = await stored(path)
    assert list(await store.load(A)) == notes(A, 3)
    await store.aclose()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


async def test_new_file_opened_by_several_at_once(path: Path) -> None:
    async def open_and_close(path: Path) -> None:
        await (await open_sqlite_store(path)).aclose()

    for number in range(30):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(open_and_close, path.with_name(f"{number}.db"))


def test_a_new_file_is_made_without_opening_it(path: Path) -> None:
    """Closing it again would drop the locks that another thread of this process has on it by then."""
    code = """
import sys
from pathlib import Path
from engine.store.sqlite.file_location import create_file
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
create_file(Path(sys.argv[1]))
assert sys.argv[1] not in opened, opened
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_cancelled_opening_leaves_nothing_open(path: Path) -> None:
    for _ in range(3):
        with trio.CancelScope() as scope:
            scope.cancel(reason="test")
            await open_sqlite_store(path)
        assert scope.cancelled_caught
        with trio.move_on_after(0.002):
            await (await open_sqlite_store(path)).aclose()
    store = await stored(path)
    await store.aclose()
    with trio.fail_after(30):
        while [found.name for found in path.parent.iterdir()] != [path.name]:
            await trio.sleep(0.01)


def test_interrupted_opening_leaves_nothing_open(path: Path) -> None:
    """Where a block takes an engine's Ctrl-C, the program goes on. (Since Python 3.13 an open connection would warn.)"""

    @trio.lowlevel.enable_ki_protection
    async def interrupt() -> None:
        while not trio.testing.active_thread_count():
            await trio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(interrupt)
        await (await open_sqlite_store(path)).aclose()

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            trio.run(main)
    while [found.name for found in path.parent.iterdir()] != [path.name]:
        time.sleep(0.01)
        gc.collect()


# ---- full ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def filled(folder: Path) -> Path:
    """Write a file until there is no space left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 4096)
    return filler


async def test_full_disk_costs_only_what_does_not_fit(small_disk: Path) -> None:
    store = await stored(small_disk / "sessions.db")
    filler = filled(small_disk)
    store.put(noted(A, 4, "x" * 200_000))
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        await store.flushed(A, 4)
    store.put(noted(A, 5))
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        await store.flushed(A, 5)
    assert list(await store.wait_for_events(A, 0)) == notes(A, 3)
    filler.unlink()
    await store.flushed(A, 4)
    assert list(await store.load(A)) == [*notes(A, 3), noted(A, 4, "x" * 200_000), noted(A, 5)]
    await store.aclose()


async def test_closing_on_full_disk_reports_the_loss(small_disk: Path) -> None:
    store = await stored(small_disk / "sessions.db")
    filler = filled(small_disk)
    store.put(noted(A, 4, "x" * 200_000))
    with pytest.raises(StoreError, match=r"could not be written to its end: .*the disk is full"):
        await store.aclose()
    filler.unlink()
    again = await open_sqlite_store(small_disk / "sessions.db")
    assert list(await again.load(A)) == notes(A, 3)
    await again.aclose()


async def test_opening_on_full_disk_reports_or_degrades(small_disk: Path) -> None:
    path = small_disk / "sessions.db"
    await (await stored(path)).aclose()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE notes SET value = 0")  # so that it is looked at, which would be noted
    connection.commit()
    connection.close()
    filler = filled(small_disk)
    # There is not even room for the memory that SQLite shares between processes.
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        await open_sqlite_store(path)
    os.truncate(filler, filler.stat().st_size - 65_536)
    with (small_disk / "more").open("wb", buffering=0) as more:
        more.write(b"x" * 24_576)
    store = await open_sqlite_store(path)
    assert list(await store.load(A)) == notes(A, 3)
    assert len(await store.list_sessions()) == 1
    await store.aclose()


async def test_a_limit_on_the_size_of_files(path: Path) -> None:
    store = await stored(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 300_000, hard))
    try:
        store.put(noted(A, 4, "x" * 1_000_000))
        with pytest.raises(StoreError, match=r"refuses to read or write|disk is full"):
            await store.flushed(A, 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.flushed(A, 4)
    assert len(await store.load(A)) == 4
    await store.aclose()


# ---- rights ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("not_root")
async def test_a_file_that_is_read_only(path: Path) -> None:
    await (await stored(path)).aclose()
    path.chmod(0o400)
    with pytest.raises(StoreError, match="is read-only"):
        await open_sqlite_store(path)
    path.chmod(0o600)
    store = await open_sqlite_store(path)
    assert list(await store.load(A)) == notes(A, 3)
    await store.aclose()


@pytest.mark.usefixtures("not_root")
async def test_a_folder_that_is_read_only(path: Path) -> None:
    await (await stored(path)).aclose()
    path.parent.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="is read-only"):
            await open_sqlite_store(path)
        with pytest.raises(StoreError, match="Permission denied"):
            await open_sqlite_store(path.with_name("new.db"))
        with pytest.raises(StoreError, match="Permission denied"):
            await open_sqlite_store(path.parent / "new" / "new.db")
    finally:
        path.parent.chmod(0o700)
    store = await open_sqlite_store(path)
    assert list(await store.load(A)) == notes(A, 3)
    await store.aclose()


@pytest.mark.usefixtures("not_root")
async def test_another_user_s_file(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to be two users")
    os.seteuid(0)
    await (await stored(path)).aclose()
    os.seteuid(NOBODY)
    with pytest.raises(StoreError, match="can't be read: this user has no right to"):
        await open_sqlite_store(path)


# ---- gone ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the file", "the WAL", "the folder", "replaced"])
async def test_file_deleted_while_open(path: Path, what: str) -> None:
    path = path.parent / "folder" / path.name
    store = await stored(path)
    match what:
        case "the file":
            path.unlink()
        case "the WAL":
            path.with_name(f"{path.name}-wal").unlink()
        case "the folder":
            path.parent.rename(path.parent.with_name("moved"))
        case _:
            path.rename(path.with_name("old.db"))
            other = await open_sqlite_store(path.with_name("other.db"))
            await other.aclose()
            path.with_name("other.db").rename(path)
    store.put(noted(A, 4))
    with pytest.raises(StoreError, match=r"was (deleted|replaced) while it was open: nothing more is written"):
        await store.flushed(A, 4)
    with pytest.raises(StoreError, match="nothing more is written"):
        store.put(noted(A, 5))
    with pytest.raises(StoreError, match="nothing more is written"):
        await store.load(B)
    with pytest.raises(StoreError, match="nothing more is written"):
        await store.aclose()
    store = await open_sqlite_store(path)
    assert len(await store.load(A)) <= 3
    await store.aclose()


@attrs.define(eq=False)
class Removal(WriteCommand):
    """Removes the file in the middle of a transaction."""

    path: Path

    def run(self, at: WriteTransaction) -> None:
        self.path.unlink()


async def test_commit_to_a_deleted_file_fails(path: Path) -> None:
    store = await stored(path)
    store.put(noted(A, 4))
    store._enqueue(Removal(path))
    with pytest.raises(StoreError, match="was deleted while it was open"):
        await store.flushed(A, 4)
    with pytest.raises(StoreError, match="nothing more is written"):
        await store.aclose()


# ---- a network -------------------------------------------------------------------------------------------------------

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw shared:2 master:3 - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/me/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:42 / /mnt/ssh rw - fuse.sshfs me@host:/ rw
33 22 0:43 / /mnt/usb rw - fuseblk /dev/sdc1 rw
34 22 0:44 / /mnt/win rw - 9p C:\\134 rw
35 22 8:2 / /mnt/win rw - ext4 /dev/sdd1 rw
broken line
"""


@pytest.mark.parametrize(
    ("where", "kind", "shared"),
    [
        ("/", "ext4", False),
        ("/homework", "ext4", False),
        ("/home", "nfs4", True),
        ("/home/me/.local/share", "nfs4", True),
        ("/home/me/local disk/x", "xfs", False),
        ("/mnt/ssh/a", "fuse.sshfs", True),
        ("/mnt/usb/a", "fuseblk", False),
        ("/mnt/win/a", "ext4", False),
    ],
)
def test_the_kind_of_a_file_system(tmp_path: Path, where: str, kind: str, *, shared: bool) -> None:
    told = tmp_path / "mountinfo"
    told.write_text(MOUNTS)
    assert filesystem_type(Path(where), told) == kind
    assert is_shared(kind) is shared


def test_missing_mount_table_is_unknown(tmp_path: Path) -> None:
    assert filesystem_type(tmp_path, tmp_path / "nothing") == ""
    assert not is_shared("")
    assert filesystem_type(Path("/proc/self")) == "proc" or not Path("/proc/self/mountinfo").exists()


async def test_a_file_moves_to_a_network_and_back(path: Path, tmp_path: Path) -> None:
    """Whatever mode it was left in, by a crash even, it is opened in the one that is safe where it is."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs server:/ rw\n")
    count = 0
    for given, mode in ((tmp_path / "none", "wal"), (mounts, "truncate"), (tmp_path / "none", "wal")):
        store = await open_sqlite_store(path, mounts=given)
        assert (store.mode, list(await store.load(A))) == (mode, notes(A, count))
        for event in notes(A, 5, after=count):
            store.put(event)
        count += 5
        await store.flushed(A, count)
        assert path.with_name(f"{path.name}-shm").exists() == (mode == "wal")
        await store.aclose()


async def test_a_wal_is_left_behind_without_shared_memory(path: Path, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - nfs server:/ rw\n")
    await (await stored(path)).aclose()
    # Whoever wants to share memory here can't.
    path.with_name(f"{path.name}-shm").mkdir()
    with pytest.raises(StoreError, match="is read-only"):
        await open_sqlite_store(path)
    store = await open_sqlite_store(path, mounts=mounts)
    assert list(await store.load(A)) == notes(A, 3)
    other = await open_sqlite_store(path, mounts=mounts)
    other.put(noted(B, 1))
    await other.flushed(B, 1)
    await other.aclose()
    await store.aclose()


# ---- somebody else's -------------------------------------------------------------------------------------------------


async def test_non_database_file_is_not_changed(path: Path) -> None:
    path.write_bytes(b"my diary, " * 1_000)
    with pytest.raises(StoreMismatch, match="no SQLite database") as caught:
        await open_sqlite_store(path)
    assert not caught.value.is_newer
    assert path.read_bytes() == b"my diary, " * 1_000
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "statements", [["CREATE TABLE mine (a)"], ["PRAGMA application_id = 7"], ["PRAGMA user_version = 3"]]
)
async def test_foreign_database_is_not_changed(path: Path, statements: list[str]) -> None:
    theirs = sqlite3.connect(path)
    for statement in statements:
        theirs.execute(statement)
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(StoreMismatch, match="another program's"):
        await open_sqlite_store(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


async def test_link_is_resolved_first(tmp_path: Path) -> None:
    """What is beside the link counts for nothing: SQLite's other files are where it leads to."""
    (tmp_path / "far").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to("far/sessions.db")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path}/far rw - nfs server:/ rw\n")
    store = await open_sqlite_store(link, mounts=mounts)
    assert (store.mode, store.path) == ("truncate", str(tmp_path / "far" / "sessions.db"))
    await store.aclose()
    store = await stored(link)
    (tmp_path / "far" / "sessions.db-wal").unlink()
    store.put(noted(A, 4))
    with pytest.raises(StoreError, match="was deleted while it was open"):
        await store.flushed(A, 4)
    with pytest.raises(StoreError, match="nothing more is written"):
        await store.aclose()
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(StoreError, match="it exists and is no file"):
        await open_sqlite_store(link)


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        await open_sqlite_store(tmp_path)


# ---- what can't be written at all ------------------------------------------------------------------------------------


async def test_unwritable_session_harms_no_other(path: Path) -> None:
    store = await stored(path)
    broken = SessionId("\ud800")
    store.put(noted(broken, 1))
    store.put(noted(A, 4))
    await store.flushed(A, 4)
    with pytest.raises(StoreError, match="nothing more of session"):
        await store.flushed(broken, 1)
    with pytest.raises(StoreError, match="nothing more of session"):
        store.put(noted(broken, 2))
    with pytest.raises(StoreError, match="no number"):
        store.put(created())
    with pytest.raises(StoreError, match="never put"):
        await store.flushed(A, 5)
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        store.put(noted(A, 5))


async def test_abandoned_read_is_stopped_and_its_connection_dropped(path: Path) -> None:
    store = await stored(path, 2_000)
    slow = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(store._connections.read, lambda connection: connection.execute(slow).fetchall())
            await trio.sleep(0.05)
            for _ in range(3):
                assert len(await store.load(A)) == 2_000
            scope.cancel(reason="test")
    assert trio.current_time() - began < 30
    with trio.fail_after(30):
        while store._connections._limiter.borrowed_tokens:
            await trio.sleep(0.001)
    assert len(await store.load(A)) == 2_000
    await store.aclose()
    assert not path.with_name(f"{path.name}-wal").exists()
