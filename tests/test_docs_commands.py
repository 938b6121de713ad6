"""Each command of the documentation runs as pasted, or says what it needs.

The lines of a block of shell commands run in one script, in a project with a session, against a model on the loopback. A
line whose comment says `needs …` is not run, and neither is a block that begins with such a comment; their `engine`
commands must still parse. `make` has to know its targets. So has a command that is named in a sentence: it has to exist,
with the flags it is named with.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.command_table.command_parser import SpecParser
from engine.cli.command_table.command_spec import CommandSpec
from engine.cli.command_table.find_command import find_subcommand, load_spec
from engine.core.errors import ConfigError
from tests.cli.forked import forking_engine
from tests.store.server import shared_server
from tests.test_docs_blocks import DOCS, PAGES, REPOSITORY, blocks_of, prose_of

SHELLS = {"console", "sh", "bash"}
# The reference is made from the command table, whose examples have a test of their own.
MADE = {DOCS / "reference" / "commands.md"}
HAND_WRITTEN = [page for page in PAGES if page.parent.name != "design" and page not in MADE]
# It takes seconds, and has tests of its own, in a terminal and in the wheel.
TESTED_ELSEWHERE = ("engine demo",)
_NEEDS = re.compile(r"#.*\bneeds\b")
_SECONDS = 100


@attrs.frozen
class Script:
    """A block of commands: where it is, and its lines."""

    page: Path
    line: int
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    def runnable(self) -> list[str]:
        """The lines that need nothing but the engine."""
        if self.lines[0].startswith("#") and _NEEDS.search(self.lines[0]):
            return []
        return [
            line for line in self.lines if not _NEEDS.search(line) and not line.startswith(("make ", *TESTED_ELSEWHERE))
        ]


def scripts() -> Iterator[Script]:
    """Every block of shell commands."""
    for page in HAND_WRITTEN:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.language in SHELLS:
                lines = re.sub(r"\\\n *", "", block.text).splitlines()
                yield Script(page, block.line, tuple(line.removeprefix("$ ") for line in lines if line.strip()))


SCRIPTS = list(scripts())


def calls_of(line: str) -> Iterator[list[str]]:
    """The arguments of each call of `engine` in a line of shell."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    tokens.whitespace_split = True
    call: list[str] | None = None
    is_command = True
    for token in [*tokens, ";"]:
        is_operator = not token.strip("|&;()<>") and token != ""
        if is_operator and call is not None:
            yield call
            call = None
        elif call is not None:
            call.append(token)
        elif is_command and token == "engine":
            call = []
        is_command = is_operator and "<" not in token and ">" not in token


def parse(arguments: list[str]) -> None:
    """Raise `ConfigError` or `SystemExit` where the command does not accept these arguments."""
    if not arguments or arguments[0] in {"--version", "help"}:
        return
    if arguments[0] not in COMMANDS:
        raise ConfigError(f"no command {arguments[0]!r}")
    spec, rest = find_subcommand(load_spec(arguments[0]), arguments[1:])
    SpecParser(spec).parse(rest)


# ---- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_commands_in_blocks_parse(script: Script) -> None:
    for line in script.lines:
        for arguments in calls_of(line):
            try:
                parse(arguments)
            except (ConfigError, SystemExit) as error:
                pytest.fail(f"{script.name}: {line}: {error}")


def test_commands_in_transcripts_parse() -> None:
    for page in HAND_WRITTEN:
        for line in re.findall(r"^ *\$ (engine .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            for arguments in calls_of(line):
                parse(arguments)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+)(?: [\w-]+)*:", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE))
    for script in SCRIPTS:
        for line in script.lines:
            if line.split()[0] == "make":
                assert line.split()[1] in targets, f"{script.name}: {line}"


def test_blocks_of_commands_say_so() -> None:
    for page in HAND_WRITTEN:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            is_shell = re.match(r"(engine |make |pip |pipx |uv |uvx |git |curl )", block.text)
            assert not is_shell or block.language in SHELLS, (
                f"{page.relative_to(REPOSITORY)}:{block.line}: no `console`"
            )


SERVER = """
import trio
from engine.testing.http_server import ScriptedServer
from engine.testing.script import call, done, text

async def main():
    def answer(request):
        prompts = [m for m in request.json["messages"] if m["role"] == "user"]
        if "write src/a.py" in str(prompts[-1]):
            return [*call("write", {"path": "src/a.py", "content": "def parse(): ...\\n"}, id="c1"), *done("calls")]
        return [*text('["parse", "render"]'), *done()]

    async with trio.open_nursery() as nursery:
        print(await nursery.start(ScriptedServer(answer).serve), flush=True)

trio.run(main)
"""


@pytest.fixture(scope="module")
def model() -> Generator[str]:
    """The address of a model that writes a file if it is asked to, and else says the same."""
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@attrs.frozen
class World:
    """A home with a project that has a session which has changed a file, and the environment to work there."""

    home: Path
    env: dict[str, str]

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def saved(self) -> Path:
        return self.home.with_name("saved")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, *, is_full: bool) -> Generator[str]:
    """What `engine` is in a script: by default, forked by a process that has imported it before."""
    if is_full:
        yield f'#!/bin/sh\nexec {sys.executable} -m engine "$@"\n'
        return
    with forking_engine(tmp_path_factory.mktemp("forks")) as text:
        yield text


@pytest.fixture(scope="module")
def worlds(model: str, program: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    home = tmp_path_factory.mktemp("world") / "home"
    programs = home / "bin"
    env = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONWARNINGS": "error",
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ANTHROPIC_BASE_URL": model,
        "VISUAL": "true",
        "LANG": "C.UTF-8",
        **{f"GIT_{role}_NAME": "tests" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "tests@localhost" for role in ("AUTHOR", "COMMITTER")},
    }
    world = World(home, env)
    for name in ("README.md", "CHANGELOG.md", "docs/notes.md"):
        (world.project / name).parent.mkdir(parents=True, exist_ok=True)
        (world.project / name).write_text("A little project.\n")
    programs.mkdir()
    (programs / "engine").write_text(program)
    (programs / "engine").chmod(0o755)
    begin = (
        "git init -q && git add . && git commit -qm begin\n"
        'engine run -q --profile auto-edit "write src/a.py" >/dev/null\n'
        "echo more >> README.md\n"
    )
    bash(begin, world)
    home.rename(world.saved)
    return world


@pytest.fixture
def world(worlds: World) -> Generator[World]:
    """The world as it was: at the same path, to which its session belongs."""
    shutil.copytree(worlds.saved, worlds.home, symlinks=True)
    yield worlds
    shutil.rmtree(worlds.home)


def bash(script: str, world: World) -> None:
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=world.project,
        env=world.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"exit code {result.returncode} of\n{script}\n{result.stdout}{result.stderr}"


@pytest.mark.os
@pytest.mark.slow
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.runnable()], ids=lambda script: script.name)
def test_commands_run_as_pasted(script: Script, world: World) -> None:
    with database_of(script, world) as env:
        bash("\n".join(script.runnable()), attrs.evolve(world, env={**world.env, **env}))


@contextmanager
def database_of(script: Script, world: World) -> Generator[dict[str, str]]:
    """The variables for the page about fleets: a database, and an `engine` that gets the signals which a shell sends."""
    if script.page.name != "run-a-fleet.md":
        yield {}
        return
    programs = world.home / "own"
    programs.mkdir()
    (programs / "engine").write_text(f'#!/bin/sh\nexec {sys.executable} -m engine "$@"\n')
    (programs / "engine").chmod(0o755)
    server = shared_server()
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    yield {"ENGINE_STORE": server.url(name), "PATH": f"{programs}:{world.env['PATH']}"}
    server.do(f"DROP DATABASE {name} WITH (FORCE)")


# ---- sentences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_named_commands_exist(page: Path) -> None:
    for text in re.findall(r"`(engine [a-z][^`]*)`", prose_of(page.read_text(encoding="utf-8"))):
        words = text.replace("\n", " ").split()[1:]
        if words[0] in {"help", "batch"}:
            continue
        assert words[0] in COMMANDS, f"`{text}`: no command {words[0]}"
        spec, rest = find_subcommand(load_spec(words[0]), [word for word in words[1:] if word != "…"])
        _check_flags(spec, rest, text)


def _check_flags(spec: CommandSpec, words: list[str], text: str) -> None:
    names = {name for each in spec.with_subcommands() for flag in each.flags for name in flag.names} | {"-h", "--help"}
    for flag in filter(None, (re.match(r"--?[a-z][\w-]*", word) for word in words)):
        assert flag[0] in names, f"`{text}`: engine {spec.name} has no flag {flag[0]}"


# ---- the test's own tests --------------------------------------------------------------------------------------------


def test_calls_are_found_in_a_line() -> None:
    line = 'x=$(engine run -q "a | b") && git diff | engine run "# this" > engine  # engine models'
    assert list(calls_of(line)) == [["run", "-q", "a | b"], ["run", "# this"]]


def test_what_needs_something_is_not_run() -> None:
    lines = ("engine models", "engine auth test openai  # needs the network", "make test")
    assert Script(DOCS, 1, lines).runnable() == ["engine models"]
    assert Script(DOCS, 1, ("# needs a server", "engine attach")).runnable() == []
