"""Outputs of any length, taken in bounded memory while they come."""

import itertools
import os
import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tools.output.spill import Spills, SpillStore
from engine.tools.output.spill_writer import PROCESS_SHARE, CapturedOutput, SpillWriter
from engine.tools.output.truncate import LIMITS, OutputLimits, Rest, cut, fits

pytestmark = pytest.mark.os

SMALL = OutputLimits(lines=12, size=400)
QUEUE = 1 << 22


def of(store: SpillStore, tree: str) -> Spills:
    spills = store.of(tree)
    assert spills is not None
    return spills


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "spill")


@pytest.fixture
def spills(store: SpillStore) -> Spills:
    return of(store, "ses_1")


def files(store: SpillStore) -> list[Path]:
    return [path for path in store.directory.glob("*/*") if path.is_file()]


def held(spills: Spills, captured: CapturedOutput) -> bytes:
    with spills.open(captured.spill_id) as file:
        return file.read()


async def captured(writer: SpillWriter, *chunks: bytes) -> CapturedOutput:
    with writer:
        for chunk in chunks:
            writer.feed(chunk)
            await writer.room()
        return await writer.finish()


# ---- what is shown, what is kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunks",
    [[], [b""], [b"x" * 51_200], [b"x" * 51_199, b"\n"], [b"\n"] * 2_000, [b"y\n" * 1_999, b"y"]],
    ids=range(6),
)
async def test_short_output_is_not_kept(spills: Spills, store: SpillStore, chunks: list[bytes]) -> None:
    assert await captured(SpillWriter(spills), *chunks) == CapturedOutput(text=b"".join(chunks).decode())
    assert not store.directory.exists()


@pytest.mark.parametrize("chunks", [[b"x" * 51_200, b"x"], [b"\n"] * 2_001, [b"y\n" * 2_000, b"y"]], ids=range(3))
async def test_output_one_too_long_is_kept(spills: Spills, chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    got = await captured(SpillWriter(spills), *chunks)
    assert got.is_cut
    assert got.text == cut(whole, PROCESS_SHARE, Rest(spill_id=got.spill_id))
    assert held(spills, got) == whole


async def test_most_of_what_is_shown_is_the_end(spills: Spills) -> None:
    got = await captured(SpillWriter(spills), *(b"line %d\n" % n for n in range(1, 10_001)))
    lines = got.text.splitlines()
    assert lines[:2] == ["line 1", "line 2"]
    assert lines[-1] == "line 10000"
    assert lines[400].startswith("[8,001 of 10,000 lines, ")
    assert len(lines) == 2_000


@given(
    st.lists(
        st.sampled_from([b"\n", b"a" * 40, "é✓𝄞".encode(), b"word\n", b"\xff", b"\xe2\x9c", b"x" * 500]), max_size=60
    ),
    st.booleans(),
)
@settings(max_examples=60)
def test_shown_output_equals_truncated_whole(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], is_pumped: bool
) -> None:
    spills = of(SpillStore(tmp_path_factory.getbasetemp() / "writer-spill"), "ses_1")
    whole = b"".join(chunks)

    async def main(writer: SpillWriter) -> None:
        async with trio.open_nursery() as nursery:
            if is_pumped:
                nursery.start_soon(writer.run)
            for chunk in chunks:
                writer.feed(chunk)
                await trio.lowlevel.checkpoint()
            found.append(await writer.finish())
            nursery.cancel_scope.cancel()

    found: list[CapturedOutput] = []
    trio.run(main, SpillWriter(spills, limits=SMALL))
    (got,) = found
    text = whole.decode(errors="replace")
    if fits(text, SMALL):
        assert got == CapturedOutput(text=text)
    else:
        assert got.text == cut(whole, PROCESS_SHARE, Rest(spill_id=got.spill_id), limits=SMALL)
        assert fits(got.text, SMALL)
        assert held(spills, got) == whole


async def test_background_task_writes_the_output(spills: Spills) -> None:
    whole = os.urandom(1 << 20)
    got = CapturedOutput(text="")
    async with trio.open_nursery() as nursery:
        with SpillWriter(spills) as writer:
            nursery.start_soon(writer.run)
            for start in range(0, len(whole), 65_536):
                writer.feed(whole[start : start + 65_536])
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()  # as a tool does whose command has ended
            with trio.CancelScope(shield=True):
                got = await writer.finish()
    assert held(spills, got) == whole


async def test_invalid_utf8_may_exceed_the_limit(spills: Spills) -> None:
    got = await captured(SpillWriter(spills), b"\xff" * 40_000)
    assert got.is_cut
    assert fits(got.text)
    assert held(spills, got) == b"\xff" * 40_000


async def test_no_folder_to_keep_it(spills: Spills) -> None:
    got = await captured(SpillWriter(None), b"x" * 60_000)
    assert got == CapturedOutput(text=cut(b"x" * 60_000, PROCESS_SHARE, Rest()), is_cut=True)


async def test_room_for_what_the_tool_itself_adds(spills: Spills) -> None:
    note = "\n[exit code 1, 3.0 s]"
    limits = LIMITS.less(OutputLimits(lines=1, size=len(note)))
    got = await captured(SpillWriter(spills, limits=limits), b"x" * 60_000)
    assert fits(got.text + note)


# ---- memory ----------------------------------------------------------------------------------------------------------


async def test_memory_does_not_grow_with_the_output(spills: Spills, store: SpillStore) -> None:
    chunk = os.urandom(65_536)
    async with trio.open_nursery() as nursery:
        with SpillWriter(spills) as writer:
            nursery.start_soon(writer.run)
            tracemalloc.start()
            try:
                for _ in range(1_600):
                    writer.feed(bytes(chunk[:60_000]) + chunk[60_000:])  # a new one each time
                    await writer.room()
                got = await writer.finish()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            nursery.cancel_scope.cancel()
    assert peak < 8 << 20
    (file,) = files(store)
    assert file.stat().st_size == 1_600 * 65_536
    assert file.name == got.spill_id


async def test_a_disk_that_is_slower_than_the_output(spills: Spills) -> None:
    chunks = [bytes([n]) * 65_536 for n in range(100)]
    with SpillWriter(spills) as writer:
        writer.feed(b"x" * 60_000)
        assert writer._file is not None
        with writer._file._lock:  # the disk hangs
            for chunk in chunks:
                writer.feed(chunk)
        got = await writer.finish()
    whole = b"x" * 60_000 + b"".join(chunks)
    kept = held(spills, got)
    assert QUEUE - 65_536 < len(kept) <= QUEUE
    assert whole.startswith(kept)
    assert f"(only its first {len(kept):,} bytes: it came faster than it could be written)]" in got.text
    assert got.text.endswith(chr(99) * 1_000)


async def test_backpressure_loses_nothing(spills: Spills) -> None:
    whole = os.urandom(3 * QUEUE)
    got = await captured(SpillWriter(spills), *(whole[n : n + 65_536] for n in range(0, len(whole), 65_536)))
    assert held(spills, got) == whole


async def test_chunk_may_exceed_the_queue(spills: Spills) -> None:
    whole = os.urandom(2 * QUEUE)
    assert held(spills, await captured(SpillWriter(spills), whole)) == whole


# ---- cancelling ------------------------------------------------------------------------------------------------------


async def eventually_no_files(store: SpillStore) -> None:
    with trio.fail_after(60):
        while files(store):
            await trio.sleep(0.01)


@pytest.mark.parametrize("pumps", [0, 1], ids=["unwritten", "written"])
async def test_unfinished_file_is_removed(spills: Spills, store: SpillStore, pumps: int) -> None:
    with SpillWriter(spills) as writer:
        writer.feed(b"x" * 3_000_000)
        for _ in range(pumps):
            await writer.room()
            assert len(files(store)) == 1
    await eventually_no_files(store)


async def test_cancelled_while_a_thread_writes(spills: Spills, store: SpillStore) -> None:
    chunk = os.urandom(65_536)
    with trio.move_on_after(0.05) as scope, SpillWriter(spills) as writer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for _ in itertools.repeat(None):
                writer.feed(chunk)
                await writer.room()
                await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    await eventually_no_files(store)


async def test_finishing_may_be_cancelled_and_done_again(spills: Spills, store: SpillStore) -> None:
    whole = os.urandom(3_000_000)
    with SpillWriter(spills) as writer:
        writer.feed(whole)
        assert writer._file is not None
        with writer._file._lock:
            with trio.move_on_after(0.02) as scope:
                await writer.finish()
            assert scope.cancelled_caught
        with trio.fail_after(60):
            while writer._file._rest is None:  # the thread that was abandoned goes on
                await trio.sleep(0.01)
        got = await writer.finish()
    assert held(spills, got) == whole


# ---- a disk that refuses ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
async def test_a_disk_that_runs_full_on_the_way(spills: Spills) -> None:
    chunks = [bytes([65 + n % 26]) * 60_000 for n in range(50)]
    got = await captured(SpillWriter(spills), *chunks)
    whole = b"".join(chunks)
    assert held(spills, got) == whole[:100_000]
    assert "(only its first 100,000 bytes: File too large)]" in got.text
    assert got.text.endswith(whole[-1_000:].decode())


async def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    got = await captured(SpillWriter(of(SpillStore(tmp_path / "file" / "spill"), "ses_1")), b"x" * 60_000)
    assert got.spill_id == ""
    assert "are not shown, and were not kept: Not a directory]" in got.text


# ---- the limit ----------------------------------------------------------------------------------------------------


async def test_kept_output_is_limited(spills: Spills, store: SpillStore) -> None:
    with SpillWriter(spills) as writer:
        writer.feed(b"x" * 60_000)
        assert writer._file is not None
        await trio.to_thread.run_sync(writer._file.pump)
        writer._file._written = (1 << 27) - 10  # as if it had come
        writer.feed(b"y" * 100)
        got = await writer.finish()
    assert "(only its first 134,217,728 bytes: more is not kept of one output)]" in got.text
    assert files(store)[0].stat().st_size == 60_010
