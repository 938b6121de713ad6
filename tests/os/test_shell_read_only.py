"""What is said to only read does: bash is asked what it ran, and a folder whether it was written to."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import engine
from engine.events import CallStarted
from engine.permission.simple import AllowAll
from engine.testing.script import call, done, text
from engine.testing.scripted import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.read_only_commands import RULES
from engine.tools.shell_read_only import is_read_only
from tests.conftest import Soak
from tests.tools.test_shell_read_only import ALLOWED, PIECES, SAFE

pytestmark = [pytest.mark.os, pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")]

# ---- what bash runs --------------------------------------------------------------------------------------------------

# Names that a function of bash may have; `:` is one that POSIX reserves.
NAMES = sorted({name.split()[0] for name in RULES} - {":"})
# Instead of running anything, every command notes its name and its arguments.
PRELUDE = """
note() { local each; for each; do builtin printf '%s\\0' "$each"; done >>"$NOTES/$BASHPID.$RANDOM$RANDOM"; }
command_not_found_handle() { note "$@"; }
""" + "\n".join(f'{name}() {{ note {name} "$@"; builtin return 0; }}' for name in NAMES)

SCRAPS = (
    *NAMES[:20],
    *(
        "git log",
        "git",
        "rm",
        "touch x",
        "-n",
        "-3",
        "--",
        "-",
        "a",
        "a=b",
        "e\\ f",
        "\\(",
        "\\;",
        "%",
        "^",
        "~",
        "=",
        "1",
    ),
    *("|", "&&", "||", ";", "\n", "(", ")", "{", "}", "&", "!", "$", "$x", "`", "#", "# c", " \\\n", "\\", "\\\n"),
    *(">", "<", "2>&1", ">/dev/null", "2>/dev/null", "&>/dev/null", ">&2", "<a", "<<a", "<<<a", ">|", "<>a"),
    *(
        "'x y'",
        '"x y"',
        '"a\\|b$"',
        '"\\$x"',
        "'$x'",
        "''",
        '""',
        "'",
        '"',
        "$'x'",
        "*",
        "?",
        "[",
        "]",
        "[[",
        "]]",
        "a[1]",
    ),
    *(
        "if",
        "then",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "time",
        "coproc",
        "@(",
        "+(",
        "()",
        "{ ",
    ),
)


@attrs.frozen
class Oracle:
    """Runs a command line with nothing but functions that note how they were called."""

    folder: Path
    bash: str

    def ran(self, command: str) -> list[list[str]]:
        notes = self.folder / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        subprocess.run(
            [self.bash, "-c", command],
            env={"PATH": os.devnull, "BASH_ENV": str(self.folder / "prelude"), "NOTES": str(notes), "HOME": "/home"},
            cwd=self.folder / "work",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        return [note.read_text().split("\0")[:-1] for note in notes.iterdir()]


@pytest.fixture
def oracle(tmp_path: Path) -> Oracle:
    (tmp_path / "work").mkdir()
    (tmp_path / "prelude").write_text(PRELUDE)
    return Oracle(tmp_path, shutil.which("bash") or "")


def test_the_oracle_sees(oracle: Oracle) -> None:
    assert sorted(oracle.ran("ls -a | cat; no-such x 'y z'")) == [["cat"], ["ls", "-a"], ["no-such", "x", "y z"]]


def _random_lines(dice: random.Random) -> Iterator[str]:
    while True:
        if dice.random() < 0.5:
            line = dice.choice([*SAFE, *ALLOWED])
            for _ in range(dice.randint(1, 3)):
                place = dice.randrange(len(line) + 1)
                line = line[:place] + dice.choice([*SCRAPS, *PIECES]) + line[place + dice.randrange(3) :]
        else:
            line = "".join(dice.choice(SCRAPS) + dice.choice(["", " ", " "]) for _ in range(dice.randint(1, 9)))
        yield line


@pytest.mark.soak
def test_bash_runs_only_what_the_table_knows(oracle: Oracle, soak: Soak) -> None:
    """Random lines, many of them nonsense; of those that are said to only read, bash agrees on what they run."""
    known = {name.split()[0] for name in RULES}
    for seed in soak.seeds(at_least=8):
        lines = (line for line in _random_lines(random.Random(seed)) if is_read_only(line))
        for _ in range(40):
            line = next(lines)
            assert {argv[0] for argv in oracle.ran(line)} <= known, line
            assert list((oracle.folder / "work").iterdir()) == [], line


# ---- what real programs do -------------------------------------------------------------------------------------------

Snapshot = dict[str, tuple[int, int, int]]


def _snapshot(folder: Path) -> Snapshot:
    """What is in a folder, and when it was written.

    `git diff` alone may replace the index by one that knows which files have not changed. It does so all at once,
    and not at all if another git is at it.
    """
    found: Snapshot = {}
    for path in [folder, *folder.rglob("*")]:
        if path.name not in {".git", "index"}:
            state = path.lstat()
            found[str(path)] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository, with files for the names that the examples use."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "x.py").write_text("def a():\n    pass\n")
    for name in ("a", "b", "c d", "e f", "a b"):
        (folder / name).write_text("a 1\nb 2\n")
    (folder / "a.txt").write_text("def\n")
    (folder / "a.json").write_text('{"a": {"c": 1}}')
    if shutil.which("git"):
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
        ):
            subprocess.run(["git", *arguments], cwd=folder, check=True, env=_environment(folder))
        # As if nothing were known of the files: git would like to note that they are unchanged.
        for path in folder.glob("*"):
            os.utime(path, (1, 1))
    return folder


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize("command", [*SAFE, *ALLOWED])
def test_it_writes_nothing(command: str, project: Path) -> None:
    before = _snapshot(project.parent)
    subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=_environment(project),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert _snapshot(project.parent) == before


@pytest.mark.parametrize(("command", "together"), [("sleep 0.3; cat a", True), ("sleep 0.3; cat a; true > b", False)])
async def test_what_only_reads_runs_side_by_side(command: str, together: bool, project: Path) -> None:
    answer = [event for n in "12" for event in call("bash", {"command": f"{command}  # {n}"}, id=n)]
    model = ScriptedProvider([[*answer, *done("calls")], [*text("bye"), *done()]])
    order: list[str] = []
    async with engine.open_engine(model=model, tools=[BASH], approver=AllowAll()) as eng:
        session = await eng.create_session(cwd=project)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    order.append("started")
                elif isinstance(event, engine.CallSettled):
                    order.append(event.settlement.status)
    assert order == (["started"] * 2 + ["completed"] * 2 if together else ["started", "completed"] * 2)


def test_what_was_seen_to_write_or_to_run_something_else(shared_dir: Path) -> None:
    """A corpus of scripts, each with what the kernel saw of it."""
    corpus = shared_dir / "shell" / "corpus_sample.jsonl"
    if not corpus.is_file():
        pytest.skip("no corpus of shell scripts in the shared folder")
    known = {name.split()[0] for name in RULES}
    scripts = [json.loads(line) for line in corpus.read_text().splitlines()]
    safe = [script for script in scripts if is_read_only(script["script"])]
    assert len(safe) >= 3
    for script in safe:
        assert script["benign"], script
        assert not script["writes"], script
        assert not script.get("prog_writes"), script
        assert {argv[0] for argv in script["executes"]} <= known, script
