"""A model's host for the tests that run the command, one for each process of the test run."""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.cli.forked import Ended, ForkedCommand, Forks, fork_server, shared_forks
from tests.cli.processes import REPOSITORY, Command


@pytest.fixture(scope="session")
def host() -> Generator[str]:
    """The address of the host."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.host"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def forks() -> Forks:
    return shared_forks()


class Quick(Protocol):
    def __call__(
        self,
        *arguments: str,
        stdin: int | None = ...,
        stdout: int | None = ...,
        stderr: int | None = ...,
        **env: str,
    ) -> Ended: ...


@pytest.fixture
def quick(forks: Forks, host: str, tmp_path: Path) -> Quick:
    """Run `engine …` to its end as a forked process, in `tmp_path`, with a key and the host's address."""

    def run(
        *arguments: str,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
        **env: str,
    ) -> Ended:
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm", **environment_for(host, tmp_path), **env}
        return forks.run(*arguments, cwd=tmp_path, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)

    return run


def environment_for(host: str, folder: Path) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ANTHROPIC_BASE_URL": host,
        "ENGINE_MODEL": "anthropic/claude-sonnet-5-5",
        "ENGINE_CONFIG": "",
        "XDG_CONFIG_HOME": str(folder / "no-config"),
        "XDG_STATE_HOME": str(folder / "no-state"),
        "XDG_DATA_HOME": str(folder / "data"),
        "HOME": f"{folder}-no-home",
    }


class Start(Protocol):
    def __call__(
        self,
        *arguments: str,
        terminal: bool = False,
        program: Sequence[str] = ...,
        **env: str,
    ) -> Command: ...


@pytest.fixture(scope="session")
def fork_path(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Where processes are forked for `engine`."""
    with fork_server(tmp_path_factory.mktemp("forks")) as path:
        yield path


@pytest.fixture
def started_engine(host: str, tmp_path: Path) -> Iterator[Start]:
    """Start `engine …` in `tmp_path`, with a key and the host's address in its environment."""
    with ExitStack() as stack:

        def start(
            *arguments: str,
            terminal: bool = False,
            program: Sequence[str] = (sys.executable, "-m", "engine"),
            **env: str,
        ) -> Command:
            environment = {**environment_for(host, tmp_path), **env}
            return stack.enter_context(
                Command(arguments, cwd=tmp_path, env=environment, terminal=terminal, program=program)
            )

        yield start


@pytest.fixture
def engine(started_engine: Start, fork_path: str, host: str, tmp_path: Path, *, is_full: bool) -> Iterator[Start]:
    """The same in forked processes, without the second that Python takes to import the engine; not under `make full`."""
    with ExitStack() as stack:

        def start(*arguments: str, terminal: bool = False, program: Sequence[str] = (), **env: str) -> Command:
            if program:
                return started_engine(*arguments, terminal=terminal, program=program, **env)
            # Python heeds such variables only when it starts.
            if is_full or any(name.startswith("PYTHON") for name in env):
                return started_engine(*arguments, terminal=terminal, **env)
            environment = {**environment_for(host, tmp_path), **env}
            return stack.enter_context(
                ForkedCommand(fork_path, arguments, cwd=tmp_path, env=environment, terminal=terminal)
            )

        yield start


class StartWithInput(Protocol):
    def __call__(self, stdin: int, *arguments: str) -> Command: ...


@pytest.fixture
def engine_with_input(host: str, tmp_path: Path) -> Iterator[StartWithInput]:
    """Start `engine …` with a descriptor as its standard input, without a terminal or a language."""
    with ExitStack() as stack:

        def start(stdin: int, *arguments: str) -> Command:
            environment = {**environment_for(host, tmp_path), "LANG": "", "TERM": ""}
            return stack.enter_context(Command(arguments, cwd=tmp_path, env=environment, stdin=stdin))

        yield start
