"""Record what a model's host says, once; play it again in tests, without a key and without the host."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

import engine
from engine.providers import Model, resolve
from engine.testing import Recorder, ReplayServer, ScriptedServer, cassette, done, text

KEY = "sk-ant-not-a-real-key"


async def greet(model: Model) -> str:
    """What is to be tested: it asks a model something."""
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        return (await session.run("Say hello.")).text


async def record(env: Mapping[str, str], folder: Path) -> None:
    model = resolve("anthropic/claude-haiku-4-5", env)
    with Recorder(folder, "hello") as recorder:
        recorder.watch(model)
        print("recorded:", await greet(model))
    await model.aclose()


async def replay(folder: Path) -> None:
    recorded = cassette.read_all(folder, "hello")
    server = ReplayServer(recorded, largest_piece=7, seed=1)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-haiku-4-5", {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url})
        print("replayed:", await greet(model))
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    # Did it ask for the same thing as when it was recorded?
    assert server.requests[0].json == json.loads(recorded[0].sent)


def show(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        print(path.name, "with the key" if KEY in path.read_text(encoding="utf-8") else "without the key")


async def main() -> None:
    with TemporaryDirectory() as folder:
        # A host of our own stands for the real one here: give `os.environ` to `record` instead.
        real = ScriptedServer([[*text("Hello!"), *done()]])
        async with trio.open_nursery() as nursery:
            url = await nursery.start(real.serve)
            await record({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}, Path(folder))
            nursery.cancel_scope.cancel(reason="the recording is done")
        await replay(Path(folder))
        show(Path(folder))


if __name__ == "__main__":
    trio.run(main)
