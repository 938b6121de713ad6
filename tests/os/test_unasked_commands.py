"""Hostile commands through the whole engine, with nobody to answer: each is denied, or has no effect. In each back end."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import engine
from engine.config.sandbox_config import BackendSetting, Sandbox
from engine.core.events import CallSettled
from engine.sandbox.backends import choose_backend
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.os import hostile_unasked as hostile
from tests.os.test_reader_box import CANARY, Place
from tests.os.test_reader_box import place as place  # noqa: PLC0414  # a fixture
from tests.os.test_reader_box import short_path as short_path  # noqa: PLC0414  # a fixture

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

BYE: Answer = [*text("bye"), *done()]
_HOOK = """#!/bin/bash
echo x > {outside}/made; echo x > {project}/made; echo x >> {project}/notes.txt
: 3<> /dev/tcp/127.0.0.1/{port}
/bin/cat {outside}/secret {home}/.ssh/id_rsa {project}/../outside/secret
"""
_GIT_SETTINGS = {
    "core.fsmonitor": "{hook}",
    "core.pager": "{hook}",
    "core.hooksPath": "{hooks}",
    "core.editor": "{hook}",
    "core.askPass": "{hook}",
    "core.sshCommand": "{hook}",
    "core.gitProxy": "{hook}",
    "core.alternateRefsCommand": "{hook}",
    "diff.external": "{hook}",
    "diff.evil.textconv": "{hook}",
    "diff.evil.command": "{hook}",
    "filter.evil.clean": "{hook}",
    "filter.evil.smudge": "{hook}",
    "filter.evil.process": "{hook}",
    "merge.evil.driver": "{hook}",
    "interactive.diffFilter": "{hook}",
    "credential.helper": "{hook}",
    "gpg.program": "{hook}",
    "gpg.ssh.program": "{hook}",
    "log.showSignature": "true",
    "pager.status": "{hook}",
    "pager.log": "{hook}",
    "alias.st": "!{hook}",
    "tar.x.command": "{hook}",
    "trailer.x.command": "{hook}",
    "man.viewer": "evil",
    "man.evil.cmd": "{hook}",
    "remote.origin.url": "ext::{hook}",
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
    "remote.origin.uploadpack": "{hook}",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
}


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _make_hostile(folder: Path, hook: Path, names: Sequence[str]) -> None:
    """Give a repository files with drivers, a change, hooks and settings that run *hook*. Afterwards git is dangerous."""
    (folder / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n")
    (folder / "a.bin").write_bytes(b"line\0line\n")
    _run(folder, "git", "add", ".gitattributes", "a.bin")
    _run(folder, "git", "commit", "-q", "-m", "second")
    (folder / "a.bin").write_bytes(b"line\0other\n")
    settings = Path(
        subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit", "reference-transaction"):
        (settings / "hooks").mkdir(exist_ok=True)
        shutil.copy(hook, settings / "hooks" / name)
    _add_settings(settings / "config", hook, names)


def _add_settings(settings: Path, hook: Path, names: Sequence[str]) -> None:
    with settings.open("a") as file:
        for name in names:
            value = _GIT_SETTINGS[name]
            section, _, key = name.rpartition(".")
            first, _, second = section.partition(".")
            shown = value.replace("{hooks}", str(settings.parent / "hooks")).replace("{hook}", str(hook))
            file.write(f'[{first} "{second}"]\n' if second else f"[{first}]\n")
            file.write(f"\t{key} = {json.dumps(shown)}\n")


@pytest.fixture
def world(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The place, with more in the project that waits for somebody to use it; see `hostile_unasked`."""
    project = place.project
    hook = project / "hook"
    hook.write_text(place.script(_HOOK).replace("{project}", str(project)))
    hook.chmod(0o755)
    port, outside = place.port, place.root / "outside"
    for name, content in {
        ".env": f"TOKEN={CANARY}\n",
        "files0": f"{outside}/secret\0",
        "list0": f"{outside}/secret\0",
        "list": f"{outside}/secret\n",
        "-rf": "x\n",
        "evil.jq": 'include "../outside/secret"; .\n',
        "evil.awk": f'BEGIN {{ system("{hook}"); print > "made"; getline x < "{outside}/secret"; print x }}\n',
        "evil.sed": f"1e {hook}\nr {outside}/secret\nw made\n",
        "evil.1": f".so {outside}/secret\n.pso {hook}\n",
        "evil.conf": f"--pager={hook}\n--pre={hook}\nDEFINE pager {hook}\n",
        "evil.js": f"require('child_process').execFileSync('{hook}')\n",
        "evil.py": f"import os\nos.system('{hook}')\n",
        "evil.gdb": f"shell {hook}\n",
        ".npmrc": f"registry=http://127.0.0.1:{port}/${{ENGINE_TEST_TOKEN}}\nscript-shell={hook}\n",
        "package.json": '{"name": "x", "dependencies": {"y": "1"}}\n',
        "pip.conf": f"[global]\nindex-url = http://127.0.0.1:{port}/\nlog = {project}/made\n",
        "requirements.txt": f"-r {outside}/secret\n",
        "Makefile": f"x := $(shell {hook})\nall:\n\t+{hook}\n",
        "go.mod": "module x\n",
        "kubeconfig": "users: [{name: x, user: {exec: {command: ./hook}}}]\n",
    }.items():
        (project / name).write_text(content)
    _run(project, "git", "init", "-q", "--bare", "bare.git")
    origin = place.root / "origin"
    for folder in (origin, project / "embedded"):
        folder.mkdir()
        _run(folder, "git", "init", "-q")
        _run(folder, "git", "commit", "-q", "--allow-empty", "-m", "first")
    _run(project, "git", "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin), "sub")
    _run(project, "git", "-c", "advice.addEmbeddedRepo=false", "add", "embedded")
    _run(project, "git", "commit", "-q", "-m", "inner")
    for folder in (project / "embedded", project / "sub"):
        _make_hostile(folder, hook, list(_GIT_SETTINGS))
    programs = place.root / "programs"
    programs.mkdir()
    for name in hostile.PLANTED:
        (programs / name).symlink_to(hook)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("ENGINE_TEST_TOKEN", CANARY)
    return place


@pytest.fixture(params=["landlock", "bwrap", "off"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    backend: BackendSetting = request.param
    if backend != "off" and trio.run(choose_backend, backend).backend is None:
        pytest.skip(f"{backend} does not work here")
    return Sandbox(backend=backend)


@asynccontextmanager
async def _open_session(project: Path, commands: Sequence[str], sandbox: Sandbox) -> AsyncGenerator[Session]:
    """Open a session whose model runs one of *commands* in each turn, while nobody answers questions."""
    calls = [
        [*call("bash", {"command": command, "timeout": 20}, id=f"c{number}"), *done("calls")]
        for number, command in enumerate(commands)
    ]
    answers = [answer for one in calls for answer in (one, BYE)]
    async with engine.open_engine(
        model=ScriptedProvider(answers),
        tools=builtin_tools({}, sandbox=sandbox),
        permissions=PermissionOptions(profile="ask"),
        files=FileOptions(spill=os.devnull),
        settings=engine.Settings(headless="deny"),
    ) as eng:
        yield await eng.create_session(cwd=project)


async def _text_of_call(session: Session) -> str:
    async with session.prompt("go") as turn:
        (text_of_call,) = [event.settlement.text async for event in turn if isinstance(event, CallSettled)]
    return text_of_call


def _changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


async def _find_holes(
    world: Place, sandbox: Sandbox, commands: Sequence[str], before_each: Callable[[int], None] | None = None
) -> list[tuple[str, object]]:
    """Run commands one after the other; return those with an effect, or that showed a secret."""
    holes: list[tuple[str, object]] = []
    async with _open_session(world.project, [world.script(one) for one in commands], sandbox) as session:
        if before_each:
            before_each(0)
        before = dict(world.state())
        for number, command in enumerate(commands, 1):
            output = await _text_of_call(session)
            after = dict(world.state())
            if changes := _changes(before, after):
                holes.append((command, changes))
            if CANARY in output:
                holes.append((command, output))
            if before_each:
                before_each(number)
                after = dict(world.state())
            before = after
    return holes


@pytest.mark.parametrize("kind", hostile.COMMANDS)
async def test_nothing_happens_unasked(world: Place, sandbox: Sandbox, kind: str) -> None:
    assert await _find_holes(world, sandbox, hostile.COMMANDS[kind]) == []


async def test_no_setting_of_the_repository_runs_a_program(world: Place, sandbox: Sandbox) -> None:
    """Each alone, so that a question about another one does not hide it."""
    settings = world.project / ".git/config"
    _make_hostile(world.project, world.project / "hook", ())
    plain = settings.read_text()
    commands = [command for _ in _GIT_SETTINGS for command in hostile.ORDINARY_GIT]

    def set_next(number: int) -> None:
        each = len(hostile.ORDINARY_GIT)
        if number < len(commands) and number % each == 0:
            settings.write_text(plain)
            _add_settings(settings, world.project / "hook", [list(_GIT_SETTINGS)[number // each]])

    assert await _find_holes(world, sandbox, commands, set_next) == []


@pytest.mark.parametrize("search", ["{project}/bin:{path}", "bin:{path}", ":{path}", "{link}:{path}"])
async def test_programs_of_the_project_on_the_path(
    world: Place, sandbox: Sandbox, search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program called `ls` need not be the one that only reads."""
    project = world.project
    (project / "bin").mkdir()
    # The shell is started before there is a box.
    for name in ("ls", "cat", *(["bash"] if sandbox.backend == "off" else [])):
        for folder in (project, project / "bin"):
            (folder / name).symlink_to(project / "hook")
    link = world.root / "link"
    link.symlink_to(project / "bin")
    path = search.replace("{project}", str(project)).replace("{link}", str(link)).replace("{path}", os.environ["PATH"])
    monkeypatch.setenv("PATH", path)
    assert await _find_holes(world, sandbox, ["ls", "cat notes.txt", "ls | head -n 1", "echo x", "pwd"]) == []
