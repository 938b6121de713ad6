"""The pytest plugin, in projects of their own, in processes of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Each starts pytest up to three times, which takes half a minute where many other programs run.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HEAD = """
import pytest
import trio


class Pool:
    def __init__(self) -> None:
        self.free = ["one", "two"]

    async def use(self) -> None:
        connection = self.free.pop()
        await trio.sleep(0.1)
        self.free.append(connection)

    async def use_well(self) -> None:
        connection = self.free.pop()
        try:
            await trio.sleep(0.1)
        finally:
            self.free.append(connection)


@pytest.fixture
def pool():
    pool = Pool()
    yield pool
    assert len(pool.free) == 2, f"{2 - len(pool.free)} connections were not given back"

"""
LEAKS = """
@pytest.mark.cancel_everywhere(by=("scope", "deadline"))
async def test_pool(pool):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.use)
        nursery.start_soon(pool.use_well)


@pytest.mark.cancel_everywhere(by="scope")
async def test_leak_at_the_beginning(pool):
    await pool.use()
    for _ in range(8):
        await pool.use_well()
"""
WELL = """
@pytest.fixture
async def echo(nursery):
    send, receive = trio.open_memory_channel(0)

    async def serve():
        async for _ in receive:
            await trio.sleep(0.1)

    nursery.start_soon(serve)
    return send


@pytest.mark.cancel_everywhere
async def test_pool_well(pool, capfd):
    await trio.testing.wait_all_tasks_blocked()
    await pool.use_well()


@pytest.mark.cancel_everywhere(every=2)
@pytest.mark.parametrize("times", [1, 2])
async def test_echo(echo, autojump_clock, tmp_path, times):
    for number in range(times):
        await echo.send(number)


async def test_unmarked(pool):
    await pool.use_well()
"""
HONEST = """
import time

import hypothesis


@pytest.mark.cancel_everywhere
async def test_real_time():
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        await trio.sleep(0)


@pytest.mark.cancel_everywhere(repeatable=False, by="scope")
async def test_by_place():
    await trio.sleep(0.1)


@pytest.mark.cancel_everywhere
async def test_skipped():
    pytest.skip("not today")


@pytest.mark.cancel_everywhere
def test_not_async():
    pass


@pytest.mark.cancel_everywhere(often=3)
async def test_unknown_keyword():
    pass


@pytest.mark.cancel_everywhere(by=("scop",))
async def test_unknown_way():
    pass


@pytest.mark.cancel_everywhere
@hypothesis.given(hypothesis.strategies.none())
async def test_hypothesis(_):
    pass


@pytest.mark.cancel_everywhere
async def test_fails():
    assert [1, 2] == [1, 3]


@pytest.mark.cancel_everywhere(by="scope", every=0)
async def test_no_number():
    pass


@pytest.mark.cancel_everywhere(by="scope")
async def test_without_checkpoint():
    pass


@pytest.mark.cancel_everywhere(by="interrupt")
async def test_keeps_at_interrupt(pool):
    connection = pool.free.pop()
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        pool.free.append(connection)
        raise
    pool.free.append(connection)


@pytest.fixture
async def notes():
    notes = []
    yield notes
    assert not notes, "something was noted"


@pytest.mark.cancel_everywhere(by="interrupt")
async def test_notes_interrupt(notes):
    try:
        await trio.sleep(0.1)
    except KeyboardInterrupt as error:
        notes.append(str(error))
        raise


@pytest.mark.cancel_everywhere
async def test_generator():
    yield


def test_assertions_of_the_package_are_as_they_are():
    import engine.testing.invariants
    assert not [name for name in vars(engine.testing.invariants) if name.startswith("@")]
"""
ANYIO = """
@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
async def opened(anyio_backend):
    return 3


@pytest.mark.anyio
@pytest.mark.cancel_everywhere
async def test_anyio(anyio_backend, pool):
    await pool.use_well()


@pytest.mark.anyio
@pytest.mark.cancel_everywhere
async def test_anyio_fixture(opened):
    pass
"""


def run(folder: Path, body: str, *options: str, trio_mode: bool = True) -> tuple[str, dict[str, int]]:
    """Run the tests of a project; return what pytest printed, and how many tests had which outcome."""
    (folder / "test_it.py").write_text(HEAD + body, encoding="utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\ntrio_mode = {str(trio_mode).lower()}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=110)
    outcomes = {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    return done.stdout + done.stderr, outcomes


def test_leak_is_found_and_repeated(tmp_path: Path) -> None:
    text, outcomes = run(tmp_path, LEAKS, "--cancel-everywhere-svg=drawings")
    assert outcomes == {"failed": 2}, text
    assert "1 connections were not given back" in text
    assert "Traceback" not in text
    assert len(list((tmp_path / "drawings").glob("*.svg"))) == 2
    again = re.search(r"pytest test_it\.py::test_pool (--cancel\S+) (--cancel\S+)", text)
    assert again is not None
    text, outcomes = run(tmp_path, LEAKS, *again.groups())
    assert outcomes == {"failed": 2}, text
    # Another point of the second test is fine: it leaks at its beginning only.
    text, outcomes = run(tmp_path, LEAKS, "--cancel-everywhere-only=scope@11")
    assert outcomes == {"failed": 1, "passed": 1}, text
    assert "test_pool has no point 11: its points are 0 to 10" in text
    assert "2 tests with 30 points, cancelled in 1 run" in text


def test_fixtures_and_parameters(tmp_path: Path) -> None:
    text, outcomes = run(tmp_path, WELL, "-n", "2")
    assert outcomes["passed"] == 4, text
    assert re.search(r"cancel everywhere: 3 tests with \d+ points, cancelled in \d+ runs\n", text)


def test_what_cannot_be_repeated_says_so(tmp_path: Path) -> None:
    # As pytest does for every package that comes with a plugin, before it loads that.
    (tmp_path / "early.py").write_text("import pytest\npytest.register_assert_rewrite('engine')\n", encoding="utf-8")
    marked = WELL.replace("async def test_unmarked", "async def unmarked")
    text, outcomes = run(tmp_path, marked + HONEST, "-p", "early", trio_mode=False)
    assert outcomes == {"failed": 4, "error": 6, "skipped": 1, "passed": 6}, text
    for words in (
        "test_real_time (test_it.py:",
        "its runs differ",
        "this one is not async",
        "not often",
        "'scop' is no way to cancel",
        "does not go together with Hypothesis's given",
        "a yield, which makes it a generator",
        "cancel_everywhere: every and seconds are numbers of points, at least 1",
        # As pytest explains it, with the traceback.
        "At index 1 diff: 2 != 3",
        ", in test_fails",
        "1 without a checkpoint could not be cancelled",
        "test_fails fails without any cancel",
        "KeyboardInterrupt at test_it.py:",
        "a fixture raised AssertionError: something was noted",
    ):
        assert words in text


def test_anyio_tests(tmp_path: Path) -> None:
    text, outcomes = run(tmp_path, ANYIO, "-p", "no:trio", trio_mode=False)
    assert (outcomes["passed"], outcomes["error"], outcomes["skipped"]) == (1, 2, 1), text
    assert "1 test with 3 points" in text
    assert "can't repeat the asynchronous fixture 'opened'" in text


def test_plugin_loads_nothing_before_it_is_used() -> None:
    code = (
        "import sys; import engine.testing.cancellation.pytest_plugin; "
        "print([m for m in ('trio', 'attrs', 'hypothesis', 'engine.testing.cancellation.pytest_test') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() in {"[]", "['attrs']"}
