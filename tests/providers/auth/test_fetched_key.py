"""Keys from commands and keyrings."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.core.errors import AuthFailed, ConfigError
from engine.process.secret_values import SECRET_VALUES
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.fetched_key import FetchedKeyAuth, key_of_command
from engine.providers.wire.wire_format import Body
from engine.testing.cancellation.trio_internals import seed_scheduler
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.os

REQUEST = UnsignedRequest(method="POST", url="https://x.example", headers={}, body=Body(pieces=()))


def counting(tmp_path: Path, script: str) -> tuple[str, ...]:
    """A command that notes each run, then does what the script says."""
    return ("sh", "-c", f"echo run >> {tmp_path}/runs; {script}")


async def test_command_runs_once_for_all_requests(tmp_path: Path) -> None:
    command = counting(tmp_path, "echo sk-of-a-command-123456")
    auths = [FetchedKeyAuth("lab", "x-api-key", "", partial(key_of_command, "lab", command)) for _ in range(2)]
    headers: list[dict[str, str]] = []

    async def ask(auth: FetchedKeyAuth) -> None:
        headers.append(dict(await auth.headers(REQUEST)))

    for auth in auths:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, auth)
    assert headers == [{"x-api-key": "sk-of-a-command-123456"}] * 6
    assert (tmp_path / "runs").read_text() == "run\n"
    assert auths[0].secrets == ("sk-of-a-command-123456",)
    assert SECRET_VALUES["the key of lab"] == "sk-of-a-command-123456"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo locked >&2; exit 3", "exit code 3: locked\nNext: sh -c"),
        ("true", "printed nothing"),
    ],
)
async def test_command_that_fails(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(AuthFailed) as caught:
        await key_of_command("lab", counting(tmp_path, script))
    assert message in str(caught.value)


async def test_command_that_does_not_exist() -> None:
    with pytest.raises(AuthFailed, match="can't be run: no-such-program-anywhere: No such file"):
        await key_of_command("lab", ("no-such-program-anywhere",))


async def test_output_that_is_no_key(tmp_path: Path) -> None:
    auth = FetchedKeyAuth("lab", "x", "", partial(key_of_command, "lab", counting(tmp_path, "echo two words")))
    with pytest.raises(ConfigError, match="no key has") as caught:
        await auth.headers(REQUEST)
    assert "two words" not in str(caught.value)


async def test_cancelled_command_is_ended_and_runs_again(tmp_path: Path) -> None:
    command = counting(tmp_path, f"[ -e {tmp_path}/second ] && echo key || sleep 1000")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(key_of_command, "lab", command)
            while not (tmp_path / "runs").exists():  # another process writes it
                await trio.sleep(0.01)
            scope.cancel()
    (tmp_path / "second").touch()
    assert await key_of_command("lab", command) == "key"


def fetch_twice(injector: CancelAt) -> tuple[int, int]:
    """Have two requests need a key while a cancel comes, and a third one later; return the fetches, and those at a time."""
    running = most = fetches = 0

    async def fetch(refused: str) -> str:
        nonlocal running, most, fetches
        assert not refused
        running, fetches = running + 1, fetches + 1
        most = max(most, running)
        try:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        finally:
            running -= 1
        return "sk-123456789"

    async def play() -> None:
        auth = FetchedKeyAuth("lab", "x", "", fetch)
        with injector.scope():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(auth.headers, REQUEST)
                nursery.start_soon(auth.headers, REQUEST)
        with trio.fail_after(60):
            assert await auth.headers(REQUEST) == {"x": "sk-123456789"}

    seed_scheduler(0)
    trio.run(play, instruments=[injector])
    return fetches, most


def test_key_is_fetched_after_a_cancel_at_any_step() -> None:
    counter = CancelAt()
    assert fetch_twice(counter) == (1, 1)
    for step in range(counter.steps):
        injector = CancelAt(step)
        fetches, most = fetch_twice(injector)
        assert injector.has_fired
        assert most == 1
        assert fetches in {1, 2}


def test_keyring_is_not_imported_for_a_choice() -> None:
    code = (
        "import sys\n"
        "from engine.providers.registry import usable_hosts\n"
        "usable_hosts({'OPENAI_API_KEY': 'k'})\n"
        "assert 'keyring' not in sys.modules and 'engine.providers.auth.fetched_key' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
