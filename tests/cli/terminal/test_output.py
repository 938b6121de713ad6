"""Output: to pipes that are read, slow, full or broken."""

import errno
import os
import socket
import threading
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import trio

from engine.cli.terminal.output import Output
from engine.cli.terminal.standard_streams import print_error

pytestmark = pytest.mark.os


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ours, theirs = os.pipe()
    yield ours, theirs
    for fd in (ours, theirs):
        try:
            os.close(fd)
        except OSError:
            continue


async def written(output: Output, *texts: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.run)
        for text in texts:
            output.write(text)
        with trio.fail_after(60):
            await output.drain()
        nursery.cancel_scope.cancel()


def to_pipe(fd: int, *, encoding: str = "utf-8", has_status: bool = False) -> Output:
    return Output(fd, encoding, has_status, has_status, 80)


async def test_text_arrives_in_order(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    await written(to_pipe(theirs), "a", "", "b\n", "ü")
    assert os.read(ours, 100) == "ab\nü".encode()


async def test_nothing_to_write_returns_at_once(pipe: tuple[int, int]) -> None:
    await written(to_pipe(pipe[1]))


async def test_unencodable_characters_are_replaced(pipe: tuple[int, int]) -> None:
    await written(to_pipe(pipe[1], encoding="ascii"), "ü \ud800")
    assert os.read(pipe[0], 100) == b"? ?"


async def test_slow_reader_gets_everything(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    received = bytearray()

    def read_on() -> None:
        while data := os.read(ours, 10_000):
            received.extend(data)

    reader = threading.Thread(target=read_on)
    reader.start()
    await written(to_pipe(theirs), "x" * 500_000)
    os.close(theirs)
    await trio.to_thread.run_sync(reader.join)
    assert received == b"x" * 500_000


async def test_nonblocking_pipe_is_awaited(pipe: tuple[int, int]) -> None:
    """Our parent may have made it so; we must neither change that nor spin on it."""
    os.set_blocking(pipe[1], False)
    await test_slow_reader_gets_everything(pipe)


async def test_full_pipe_blocks_no_other_task(pipe: tuple[int, int]) -> None:
    output = to_pipe(pipe[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.run)
        output.write("x" * 1_000_000)
        with trio.fail_after(60):
            await trio.sleep(0.1)
        with trio.move_on_after(0.1) as scope:
            await output.drain()
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
    os.close(pipe[0])  # lets the abandoned thread go


@pytest.mark.parametrize("where", ["broken pipe", "full disk"])
async def test_failure_is_reported_once(pipe: tuple[int, int], where: str) -> None:
    told: list[str] = []
    os.close(pipe[0])
    fd = pipe[1] if where == "broken pipe" else os.open("/dev/full", os.O_WRONLY)
    output = to_pipe(fd)
    output.on_failure(lambda: told.append("failed"))
    await written(output, "a")
    await written(output, "b")
    assert told == ["failed"]
    assert output.failure is not None
    assert output.failure.errno == (errno.EPIPE if where == "broken pipe" else errno.ENOSPC)
    assert output.is_reader_gone is (where == "broken pipe")
    if where == "full disk":
        os.close(fd)


async def test_nowhere_is_no_failure() -> None:
    output = Output.to(None)
    await written(output, "a")
    assert output.failure is None
    assert not output.has_status


async def test_a_stream_without_a_descriptor_is_nowhere() -> None:
    with TextIOWrapper(BytesIO()) as stream:  # as pytest puts in the place of standard output
        assert Output.to(stream)._fd is None


async def test_the_status_line_is_put_below_the_text(pipe: tuple[int, int]) -> None:
    output = to_pipe(pipe[1], has_status=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.run)
        for status in ("one", "one"):
            output.show_status(status)
            await output.drain()
        output.write("text\n")
        await output.drain()
        output.show_status("")
        await output.drain()
        output.write("more\n")
        await output.drain()
        nursery.cancel_scope.cancel()
    assert os.read(pipe[0], 100) == b"one\r\x1b[Ktext\none\r\x1b[Kmore\n"


async def test_without_a_terminal_there_is_no_status(pipe: tuple[int, int]) -> None:
    output = to_pipe(pipe[1])
    output.show_status("one")
    await written(output, "text")
    assert os.read(pipe[0], 100) == b"text"


def test_complaining(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    print_error("wrong")
    assert capsys.readouterr().err == "wrong\n"
    monkeypatch.setattr("sys.stderr", None)
    print_error("to nobody")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr("sys.stderr", full)
        print_error("in vain")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


async def test_reader_that_goes_is_noticed_without_a_write(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    output = to_pipe(theirs)
    gone = trio.Event()
    output.on_failure(gone.set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.watch_reader)
        await trio.testing.wait_all_tasks_blocked()
        assert not output.is_reader_gone
        os.close(os.dup(ours))  # another end of the same pipe is still open
        os.dup2(theirs, ours)
        with trio.fail_after(60):
            await gone.wait()
    assert output.is_reader_gone


async def test_socket_is_gone_only_once_it_is_closed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        output = to_pipe(theirs.fileno())
        gone = trio.Event()
        output.on_failure(gone.set)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.watch_reader)
            # Standard input, and its end: a parent's socket may be both.
            ours.send(b"input")
            ours.shutdown(socket.SHUT_WR)
            await trio.testing.wait_all_tasks_blocked()
            assert not output.is_reader_gone
            ours.close()
            with trio.fail_after(60):
                await gone.wait()
        assert output.is_reader_gone


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_cancelled_watch_leaves_no_descriptor(pipe: tuple[int, int]) -> None:
    output = to_pipe(pipe[1])
    before = open_descriptors()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.watch_reader)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel(reason="the test")
    assert open_descriptors() == before
    assert not output.is_reader_gone
