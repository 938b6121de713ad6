"""Files of long outputs: who may read them, what a disk may do, how long they stay."""

import os
import re
import resource
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError, ToolError
from engine.core.llm_types import ModelRequest
from engine.session.engine import engine_runtime
from engine.session.engine_options import FileOptions
from engine.testing import ScriptedProvider, call, done, text
from engine.testing.script import Answer
from engine.tools.builtin.grep import GREP
from engine.tools.builtin.read import READ
from engine.tools.call_values import Need
from engine.tools.output.spill import KEPT_DAYS, LARGEST_SUM, Spills, SpillStore
from engine.tools.output.spill_file import LARGEST, STAMP
from engine.tools.output.truncate import Rest
from engine.tools.search.content_search import needed
from engine.tools.search.search_arguments import Grep

pytestmark = pytest.mark.os

DAY = 86_400


def of(store: SpillStore, tree: str) -> Spills:
    spills = store.of(tree)
    assert spills is not None
    return spills


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "cache" / "spill")


@pytest.fixture
def spills(store: SpillStore) -> Spills:
    return of(store, "ses_1")


def files(store: SpillStore) -> list[Path]:
    return sorted(path for path in store.directory.glob("*/*") if path.is_file())


def held(spills: Spills, spill_id: str) -> bytes:
    with spills.open(spill_id) as file:
        return file.read()


async def eventually_no_files(store: SpillStore) -> None:
    with trio.fail_after(60):
        while files(store):
            await trio.sleep(0.01)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 100,000 bytes: as on a full disk, a write is cut short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_whole_output_is_kept_up_to_a_limit(spills: Spills, store: SpillStore) -> None:
    rest = await spills.keep(bytes(LARGEST + 1_000_000))
    assert rest.trouble == f"only its first {LARGEST:,} bytes: more is not kept of one output"
    assert files(store)[0].stat().st_size == LARGEST < 200_000_000


@attrs.frozen
class Nothing:
    """No arguments."""


async def _print_much(args: Nothing, ctx: engine.ToolContext) -> str:
    await trio.lowlevel.checkpoint()
    return "".join(f"line {n} of it\n" for n in range(50_000)) + "the needle\n"


async def test_grep_searches_a_kept_output(store: SpillStore, tmp_path: Path) -> None:
    kept = ""

    def search(request: ModelRequest) -> Answer:
        nonlocal kept
        kept = re.findall(r"spill:[0-9a-f]{16}", str(request.transcript[:]))[0]
        return [*call("grep", {"pattern": "needle", "path": kept}, id="2"), *done("calls")]

    missing = call("grep", {"pattern": "needle", "path": "spill:0123456789abcdef"}, id="3")
    script = (
        [*call("much", {}, id="1"), *done("calls")],
        search,
        [*missing, *done("calls")],
        [*text("Done."), *done()],
    )
    much = engine.tool(name="much", description="Prints much.", read_only=True)(_print_much)
    files = FileOptions(spill=store.directory)
    model = ScriptedProvider(script)
    async with engine.open_engine(model=model, tools=[much, READ, GREP], files=files) as eng:
        await (await eng.create_session(cwd=tmp_path)).run("search")
    settled = [
        result.settlement for message in model.requests[-1].transcript for result in getattr(message, "results", ())
    ]
    assert (settled[1].status, settled[1].text) == ("completed", f"{kept}\n50001: the needle")
    assert (settled[2].status, settled[2].text.partition(":")[0]) == ("error", "There is no spill")


def test_grep_of_a_kept_output_needs_no_permission() -> None:
    kept = "spill:0123456789abcdef"
    assert needed(Grep(pattern="x", path=kept), "/") == Need(permission="read", patterns=(kept,), is_own=True)


# ---- keeping and reading ---------------------------------------------------------------------------------------------


async def test_kept_output_round_trips(spills: Spills, store: SpillStore) -> None:
    data = bytes(range(256)) * 20_000
    rest = await spills.keep(data)
    assert rest.trouble == ""
    assert held(spills, rest.spill_id) == data
    assert [path.name for path in files(store)] == [rest.spill_id]


async def test_kept_output_is_private(spills: Spills, store: SpillStore) -> None:
    before = os.umask(0)
    try:
        rest = await spills.keep(b"secret")
    finally:
        os.umask(before)
    (file,) = files(store)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, store.directory)]
    assert [oct(mode) for mode in modes] == ["0o600", "0o700", "0o700"]
    assert file.name == rest.spill_id


async def test_open_folder_is_made_private(spills: Spills, store: SpillStore) -> None:
    await spills.keep(b"one")
    (file,) = files(store)
    file.parent.chmod(0o755)
    await spills.keep(b"two")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_the_same_output_has_the_same_name(spills: Spills, store: SpillStore) -> None:
    one, other, again = [await spills.keep(data) for data in (b"one", b"other", b"one")]
    assert one == again != other
    assert len(files(store)) == 2


async def test_engines_share_a_folder(tmp_path: Path) -> None:
    rest = await of(SpillStore(tmp_path), "ses_1").keep(b"kept")
    assert held(of(SpillStore(tmp_path), "ses_1"), rest.spill_id) == b"kept"


async def test_foreign_folder_is_refused(spills: Spills, store: SpillStore) -> None:
    rest = await spills.keep(b"mine")
    for other in (of(store, "ses_2"), of(store, "ses_1/../ses_2"), of(store, "")):
        with pytest.raises(ToolError, match="this session kept no such output, or it was removed since"):
            other.open(rest.spill_id)
    assert of(store, "ses_2")._folder != spills._folder


@pytest.mark.parametrize(
    "spill_id",
    [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "0123456789abcde",
        "0123456789abcdef0",
        "0123456789ABCDEF",
        ".123456789abcdef",
        "0123456789abcde/",
        "0123456789abcdef\n",
        "0123456789abcde\0",
        "%2e%2e",
        "\ud800" * 16,
        "x" * 5_000,
    ],
)
async def test_an_id_is_no_path(spills: Spills, spill_id: str) -> None:
    await spills.keep(b"something")
    with pytest.raises(ToolError, match="is no name of a kept output"):
        spills.open(spill_id)


async def test_a_link_in_its_place_is_not_followed(spills: Spills, store: SpillStore, tmp_path: Path) -> None:
    rest = await spills.keep(b"something")
    (file,) = files(store)
    (tmp_path / "secret").write_text("secret")
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(ToolError, match="can't be read"):
        spills.open(rest.spill_id)


async def test_linked_folder_is_not_used(spills: Spills, store: SpillStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store.directory.mkdir(parents=True)
    (store.directory / spills._folder).symlink_to(tmp_path / "elsewhere")
    rest = await spills.keep(b"something")
    assert rest.spill_id == ""
    assert rest.trouble
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_another_users_folder_is_not_used(spills: Spills, store: SpillStore) -> None:
    (store.directory / spills._folder).mkdir(parents=True)
    os.chown(store.directory / spills._folder, 12_345, -1)
    assert await spills.keep(b"secret") == Rest(trouble="the folder of kept outputs belongs to another user")


# ---- a disk that refuses ---------------------------------------------------------------------------------------------


async def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rest = await of(SpillStore(tmp_path / "file" / "spill"), "ses_1").keep(b"something")
    assert rest == Rest(trouble="Not a directory")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else for a moment")
async def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    os.seteuid(65_534)
    try:
        rest = await of(SpillStore(tmp_path / "spill"), "ses_1").keep(b"something")
    finally:
        os.seteuid(0)
    assert rest == Rest(trouble="Permission denied")


@pytest.mark.usefixtures("small_files")
async def test_beginning_is_kept_of_too_much(spills: Spills) -> None:
    data = os.urandom(300_000)
    rest = await spills.keep(data)
    assert rest.trouble == "only its first 100,000 bytes: File too large"
    assert held(spills, rest.spill_id) == data[:100_000]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "none", path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


async def test_a_disk_that_runs_full(full_disk: Path) -> None:
    spills = of(SpillStore(full_disk / "spill"), "ses_1")
    data = os.urandom(500_000)
    rest = await spills.keep(data)
    assert rest.trouble.endswith("bytes: No space left on device")
    kept = held(spills, rest.spill_id)
    assert 0 < len(kept) <= 204_800
    assert data.startswith(kept)
    nothing = await spills.keep(os.urandom(1_000))
    assert nothing == Rest(trouble="No space left on device")
    assert [path.name for path in (full_disk / "spill").glob("*/*")] == [rest.spill_id]


# ---- cancelling ------------------------------------------------------------------------------------------------------


async def test_cancelled_before_the_start(spills: Spills, store: SpillStore) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await spills.keep(b"something")
    assert scope.cancelled_caught
    assert files(store) == []


async def test_cancelled_while_it_is_written(spills: Spills, store: SpillStore) -> None:
    data = os.urandom(1 << 20) * 200
    began = trio.current_time()
    with trio.move_on_after(0.02) as scope:
        await spills.keep(data)
    assert scope.cancelled_caught
    assert trio.current_time() - began < 30
    await eventually_no_files(store)


# ---- how long it stays -----------------------------------------------------------------------------------------------


def aged(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then), follow_symlinks=False)


async def test_only_old_outputs_are_removed(store: SpillStore, tmp_path: Path) -> None:
    old = await of(store, "ses_1").keep(b"old")
    young = await of(store, "ses_2").keep(b"young")
    alone = await of(store, "ses_3").keep(b"alone")
    (folder,) = (path.parent for path in files(store) if path.name == old.spill_id)
    (other,) = (path.parent for path in files(store) if path.name == young.spill_id)
    aged(folder / old.spill_id, KEPT_DAYS + 0.1)
    aged(other / young.spill_id, KEPT_DAYS - 0.1)
    (gone,) = (path for path in files(store) if path.name == alone.spill_id)
    gone.unlink()
    # What a crash left half written, and what was never ours.
    (other / ".0123456789abcdef").write_text("half")
    aged(other / ".0123456789abcdef", KEPT_DAYS + 0.1)
    (tmp_path / "mine").write_text("x")
    foreign = [
        other / "notes.txt",
        store.directory / "0123456789abcdef",
        store.directory / "music" / "0123456789abcdef",
        tmp_path / "0123456789abcdef",
    ]
    foreign[2].parent.mkdir()
    for path in foreign:
        path.write_text("x")
        aged(path, 100)
    (other / "fedcba9876543210").symlink_to(tmp_path / "mine")
    aged(other / "fedcba9876543210", 100)
    (store.directory / f"tree-{'0' * 32}").symlink_to(tmp_path)
    await store.sweep()
    assert store.take_warning() == ""
    assert not folder.exists()
    assert not gone.parent.exists()
    assert sorted(path.name for path in other.iterdir()) == sorted([young.spill_id, "notes.txt", "fedcba9876543210"])
    assert all(path.exists() for path in (*foreign, tmp_path / "mine"))


async def test_the_oldest_go_when_it_is_too_much(store: SpillStore) -> None:
    spills = of(store, "ses_1")
    kept = [(await spills.keep(name)).spill_id for name in (b"first", b"second", b"third")]
    for age, name in enumerate(reversed(kept)):
        path = store.directory / spills._folder / name
        os.truncate(path, LARGEST_SUM // 2)  # holes: they take no room
        aged(path, age)
    await store.sweep()
    assert {path.name for path in files(store)} == set(kept[1:])


async def test_much_that_was_kept_is_swept_at_once(store: SpillStore) -> None:
    spills = of(store, "ses_1")
    old = await spills.keep(b"old")
    aged(store.directory / spills._folder / old.spill_id, KEPT_DAYS + 1)
    store.count(LARGEST_SUM)
    await spills.keep(b"new")
    with trio.fail_after(60):
        while len(files(store)) > 1:
            await trio.sleep(0.01)


def test_another_sweep_may_take_the_folder_away(store: SpillStore) -> None:
    spills = of(store, "ses_1")
    store.directory.mkdir(parents=True)
    is_over = threading.Event()

    def remove_folders() -> None:
        while not is_over.is_set():
            store._remove_empty_folders()

    sweeper = threading.Thread(target=remove_folders)
    sweeper.start()
    try:
        for n in range(4_000):  # about ten of them meet it at the wrong moment
            file = spills.new_file()
            file.put(b"%d" % n)
            rest = file.finish()
            assert rest.trouble == ""
            (store.directory / spills._folder / rest.spill_id).unlink()
    finally:
        is_over.set()
        sweeper.join()


# ---- the engine's own folder -----------------------------------------------------------------------------------------


def model() -> ScriptedProvider:
    return ScriptedProvider([[*text("hello"), *done()]], repeat=True)


async def an_old_one(store: SpillStore, *, swept_days_ago: float) -> Path:
    rest = await of(store, "ses_1").keep(b"old")
    path = store.directory / of(store, "ses_1")._folder / rest.spill_id
    aged(path, KEPT_DAYS + 1)
    aged(store.directory / STAMP, swept_days_ago)
    return path


async def test_an_engine_sweeps_when_it_starts(store: SpillStore) -> None:
    old = await an_old_one(store, swept_days_ago=1)
    async with engine.open_engine(model=model(), files=FileOptions(spill=store.directory)):
        with trio.fail_after(60):
            while old.exists():
                await trio.sleep(0.01)
    assert time.time() - (store.directory / STAMP).stat().st_mtime < 60


async def test_recent_sweep_is_not_repeated(store: SpillStore) -> None:
    await an_old_one(store, swept_days_ago=0)
    assert not store.is_due()


async def test_engine_without_outputs_touches_no_disk(store: SpillStore) -> None:
    async with engine.open_engine(model=model(), files=FileOptions(spill=store.directory)) as eng:
        assert (await (await eng.create_session()).run("hello")).text == "hello"
    assert not store.directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else for a moment")
async def test_failing_sweep_is_reported_next_turn(store: SpillStore, tmp_path: Path) -> None:
    old = await an_old_one(store, swept_days_ago=1)
    for path in (store.directory, *store.directory.iterdir(), old):
        os.chown(path, 65_534, -1)
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root":
            path.chmod(path.stat().st_mode | 0o011)
    old.parent.chmod(0o500)
    os.seteuid(65_534)
    try:
        notices: list[engine.Notice] = []
        async with engine.open_engine(model=model(), files=FileOptions(spill=store.directory)) as eng:
            session = await eng.create_session(cwd=tmp_path)
            with trio.fail_after(60):
                while not engine_runtime(eng).setup.spills._complaint:
                    await trio.sleep(0.01)
            for _ in range(2):
                async with session.prompt("hello") as turn:
                    notices += [event async for event in turn if isinstance(event, engine.Notice)]
    finally:
        os.seteuid(0)
    said = f"old outputs in {store.directory} could not be removed: Permission denied"
    told = [(notice.level, notice.code, notice.text) for notice in notices if notice.code != "unknown_model"]
    assert told == [("warning", "spill_not_swept", said)]
    assert old.exists()


@pytest.mark.parametrize("wrong", [3, object(), "~nobody-of-that-name/spill"])
def test_non_folders(wrong: object) -> None:
    with pytest.raises(ConfigError, match="spill must be the path of a directory"):
        engine.open_engine(model=model(), files=FileOptions(spill=wrong))  # type: ignore[arg-type]


async def test_where_nothing_is_kept(tmp_path: Path) -> None:
    store = SpillStore(Path(os.devnull))
    assert store.of("ses_1") is None
    assert not store.is_due()


def test_default_folder_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert engine_runtime(engine.open_engine(model=model())).setup.spills.directory.name == "spill"
    if os.uname().sysname == "Linux":
        assert engine_runtime(engine.open_engine(model=model())).setup.spills.directory == tmp_path / "engine" / "spill"
