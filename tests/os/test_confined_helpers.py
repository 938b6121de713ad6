"""The programs that the engine starts by itself, ripgrep, formatters and checkers, are confined."""

import os
import sys
from collections.abc import Mapping

import pytest
import trio

import engine
from engine.config.config import Config
from engine.config.formatter_config import FileProgram
from engine.config.sandbox_config import BackendSetting, Sandbox
from engine.core.events import CallSettled
from engine.sandbox.backends import choose_backend
from engine.sandbox.helpers import launch_reading_helper
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.os import trees
from tests.os.test_reader_box import Place, backend, place, run, short_path

__all__ = ["backend", "place", "short_path"]

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]


@pytest.fixture(autouse=True)
def has_boxes() -> None:
    for one in ("auto", "bwrap"):
        if trio.run(choose_backend, one).backend is None:
            pytest.skip("there is no box here")


async def test_reading_helper_is_confined(place: Place) -> None:
    script = "cat file 2>&1; echo x > made; cat ../project/notes.txt"
    folder = place.root / "outside"
    (folder / "file").write_text("wanted")
    launch = await launch_reading_helper(trees.bash(script), folder=str(folder))
    before = place.state()
    _, output = await run(launch, Place(folder, place.victim, place.port, place.received, folder))
    assert "wanted" in output
    assert "a first line" not in output
    assert place.state() == before


async def edited(
    place: Place, programs: Mapping[str, FileProgram], backend: BackendSetting, path: str = "made.txt"
) -> str:
    """Write a file with a formatter; return what the model reads."""
    answers = (
        [*call("write", {"path": path, "content": "plain\n"}, id="c"), *done("calls")],
        [*text("bye"), *done()],
    )
    async with engine.open_engine(
        model=ScriptedProvider(answers),
        tools=builtin_tools({}),
        config=Config(formatters=programs, sandbox=Sandbox(backend=backend)),
        permissions=PermissionOptions(profile="full"),
        files=FileOptions(spill=os.devnull),
    ) as eng:
        session = await eng.create_session(cwd=place.project)
        told = ""
        with trio.fail_after(60):
            async with session.prompt("go") as turn:
                async for event in turn:
                    if isinstance(event, CallSettled):
                        told = event.settlement.text
    return told


def formatter(place: Place, script: str) -> Mapping[str, FileProgram]:
    program = place.project / "format.sh"
    program.write_text(place.script(script))
    return {"test": FileProgram(command=("sh", str(program), "{path}"), patterns=("*.txt",))}


async def test_formatter_changes_only_the_project(place: Place) -> None:
    script = 'echo formatted > "$1"; echo x > {home}/traced; echo x > /opt/engine-test; cat {home}/.ssh/id_rsa; exit 0'
    (place.root / "home/.ssh/id_rsa").write_text("KEY")
    home = place.root / "home"
    told = await edited(place, formatter(place, script), "auto")
    assert (place.project / "made.txt").read_text() == "formatted\n"
    assert "has formatted made.txt" in told
    assert not (home / "traced").exists()
    assert not await trio.Path("/opt/engine-test").exists()


async def test_formatter_runs_without_a_sandbox_where_it_is_off(place: Place) -> None:
    await edited(place, formatter(place, 'echo formatted > "$1"; echo x > {home}/traced'), "off")
    assert (place.root / "home/traced").exists()
    assert (place.project / "made.txt").read_text() == "formatted\n"


async def test_file_outside_of_the_project_is_formatted_too(place: Place) -> None:
    path = place.root / "outside/made.txt"
    await edited(place, formatter(place, 'echo formatted > "$1"'), "auto", str(path))
    assert path.read_text() == "formatted\n"


async def test_formatter_makes_nothing_that_runs_later(place: Place) -> None:
    script = f'mkdir -p {place.project}/deep; touch {place.project}/deep/.envrc; echo formatted > "$1"'
    told = await edited(place, formatter(place, script), "auto")
    assert "which now are deep/.envrc.not-allowed" in told
    assert not (place.project / "deep/.envrc").exists()
    assert (place.project / "made.txt").read_text() == "plain\n"


async def test_formatter_changes_a_file_that_runs_later(place: Place) -> None:
    program = formatter(place, 'echo formatted > "$1.new"; mv "$1.new" "$1"')["test"]
    programs = {"test": FileProgram(command=program.command, patterns=("AGENTS.md",))}
    told = await edited(place, programs, "auto", "deep/AGENTS.md")
    assert (place.project / "deep/AGENTS.md").read_text() == "formatted\n", told
