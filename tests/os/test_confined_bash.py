"""`bash` as users get it: what runs without a question is confined, what they approve runs as approved."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

import engine
from engine.config.sandbox_config import SECRETS, BackendSetting, Sandbox
from engine.core.events import CallSettled, PermissionAsked
from engine.process.run_tree import FinishedProcess, run_tree
from engine.sandbox.backends import choose_backend
from engine.sandbox.mounts import MAX_PROTECTED
from engine.sandbox.reader import launch_reader
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.os import trees
from tests.os.test_reader_box import PYTHON

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

BYE: Answer = [*text("bye"), *done()]
NO_BOX: BackendSetting = "off"


@pytest.fixture(autouse=True)
def has_box() -> None:
    if trio.run(choose_backend, "auto").backend is None:
        pytest.skip("there is no box here")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with another one in it, whose settings run a program at `git status`; and a folder beside it."""
    project, home = tmp_path / "project", tmp_path / "home"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("CANARY\n")
    project.mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (project / "file").write_text("content\n")
    inner = project / "inner"
    inner.mkdir()
    for folder, command in (
        (inner, "git init -q"),
        (inner, "git -c user.name=x -c user.email=x@example.org commit -q --allow-empty -m first"),
        (project, "git init -q"),
        (project, "git -c advice.addEmbeddedRepo=false add file inner"),
        # Last, so that git does not run it before the test.
        (inner, f"git config core.fsmonitor {_hook(tmp_path)}"),
    ):
        subprocess.run(command.split(), cwd=folder, check=True)
    return project


def _hook(folder: Path) -> Path:
    """Return a program that leaves a trace, as a repository may bring it."""
    hook = folder / "project/hook"
    hook.write_text(f"#!/bin/sh\necho x > {folder}/traced\necho x > {folder}/project/traced\n")
    hook.chmod(0o755)
    return hook


def is_traced(project: Path) -> bool:
    return os.path.lexists(project / "traced") or os.path.lexists(project.parent / "traced")


class Turn:
    """What a turn's calls returned, and what was asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.asked: list[PermissionAsked] = []


async def run(
    project: Path,
    *commands: str | dict[str, object],
    profile: str = "ask",
    rules: Sequence[str] = (),
    sandbox: Sandbox | None = None,
    reply: engine.Once | engine.Reject | None = None,
) -> Turn:
    """Run commands, one in each step; answer each question with *reply*, without which nobody answers."""
    arguments = [{"command": command} if isinstance(command, str) else command for command in commands]
    answers = [[*call("bash", each, id=f"c{number}"), *done("calls")] for number, each in enumerate(arguments)]
    turn_log = Turn()
    async with engine.open_engine(
        model=ScriptedProvider((*answers, BYE)),
        tools=builtin_tools({}, sandbox=sandbox),
        permissions=PermissionOptions(profile=profile, rules=tuple(rules)),
        files=FileOptions(spill=os.devnull),
        settings=engine.Settings(headless="deny" if reply is None else "wait"),
    ) as eng:
        session = await eng.create_session(cwd=project)
        with trio.fail_after(60):
            async with session.prompt("go") as turn:
                async for event in turn:
                    if isinstance(event, PermissionAsked) and reply is not None:
                        turn_log.asked.append(event)
                        await turn.reply(event.request_id, reply)
                    if isinstance(event, CallSettled):
                        turn_log.texts.append(event.settlement.text)
    return turn_log


async def test_program_of_the_repository_runs_confined(project: Path) -> None:
    """What `git status` runs is nothing that the table of programs could tell."""
    turn = await run(project, "git status --short")
    assert "A  file" in turn.texts[0]
    assert not is_traced(project)


async def test_approved_command_runs_as_approved(project: Path) -> None:
    turn = await run(project, "git status --short && touch made", reply=engine.Once())
    assert len(turn.asked) == 1
    assert is_traced(project)
    assert (project / "made").exists()


async def test_command_that_a_rule_allows_runs_as_allowed(project: Path) -> None:
    await run(project, "git status", rules=["allow bash git status *"])
    assert is_traced(project)


async def test_full_profile_confines_nothing(project: Path) -> None:
    await run(project, "git status", profile="full")
    assert is_traced(project)


async def test_rule_for_running_unconfined(project: Path) -> None:
    await run(project, "git status", rules=["allow unsandboxed git *"])
    assert is_traced(project)


async def test_reading_command_beside_an_allowed_one(project: Path) -> None:
    """The line runs unconfined, so what would need a box is asked about."""
    mixed = await run(project, "touch made && git status", rules=["allow bash touch *", "allow edit made"])
    assert "Denied" in mixed.texts[0]
    assert not is_traced(project)
    plain = await run(project, "touch made && ls", rules=["allow bash touch *", "allow edit made"])
    assert "made" in plain.texts[0]


async def test_background_job_is_confined(project: Path) -> None:
    turn = await run(project, {"command": "git status --short", "background": True})
    assert "A  file" in turn.texts[0]
    assert not is_traced(project)


async def test_failure_in_the_box_names_the_way_out(project: Path) -> None:
    turn = await run(
        project, "git status; cat file > /dev/null; sort --compress-program=./hook -S 1b -o file file", "ls nothing"
    )
    assert "Denied" in turn.texts[0]
    assert "confined" not in turn.texts[1]
    program = project.parent / "outside"
    (project / "script.awk").write_text(f'BEGIN {{ getline x < "{program}/file"; print x; exit (x == "") }}\n')
    turn = await run(project, "cat link")
    assert "No such file" in turn.texts[0]


async def test_box_is_named_where_it_may_be_the_reason(project: Path) -> None:
    # As root, no permission of a file keeps anybody out.
    (project / "far").symlink_to("/proc/1/environ")
    turn = await run(project, "cat /proc/1/environ", rules=["allow read /proc/**", "allow outside /proc/**"])
    assert turn.texts[0].endswith("with outside_sandbox=true the user is asked to let it run outside]")
    assert "it ran without a question, so it was confined" in turn.texts[0]


async def test_way_out_is_asked_about(project: Path) -> None:
    turn = await run(project, {"command": "git status", "outside_sandbox": True}, reply=engine.Once())
    assert [(one.permission, one.offers) for one in turn.asked] == [("unsandboxed", ())]
    assert is_traced(project)


async def test_place_that_a_rule_opens_is_readable(project: Path) -> None:
    outside = project.parent / "outside/file"
    command = f"cat {outside}"
    assert "Denied" in (await run(project, command)).texts[0]
    rules = [f"allow read {outside}", f"allow outside {outside}"]
    assert "CANARY" in (await run(project, command, rules=rules)).texts[0]


async def test_without_a_box_only_listed_commands_run_unasked(project: Path) -> None:
    turn = await run(project, "git status", "ls && cat file | head -n 1", "ls --color=never", "sort --files0-from=file",
                     sandbox=Sandbox(backend=NO_BOX))  # fmt: skip
    assert ["Denied" in one for one in turn.texts] == [True, False, False, True]
    assert not is_traced(project)


async def test_edits_are_sandboxed_with_auto_edit(project: Path) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    turn = await run(
        project,
        "touch made",
        "echo x > .git/hooks/post-checkout",
        "touch /opt/engine-test",
        profile="auto-edit",
    )
    assert (project / "made").exists()
    assert not (project / ".git/hooks/post-checkout").exists()
    assert "Read-only file system" in turn.texts[2]


_MAKES_LATER = (
    f"{PYTHON} -c \"import os; open('.envrc', 'w').write('x'); os.mkdir('.vscode'); open('.vscode/tasks.json', 'w')\""
)


@pytest.mark.parametrize("answer", ["once", "reject", "nobody", "rule"])
async def test_new_files_that_run_later_are_asked_about(project: Path, answer: str) -> None:
    """The kernel can't refuse a name that is not there, and no word of the command shows it."""
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    replies: dict[str, engine.Once | engine.Reject] = {"once": engine.Once(), "reject": engine.Reject("no")}
    rules = ["allow edit .envrc", "allow edit .vscode/**", "allow edit .vscode"] if answer == "rule" else []
    (project / ".tool-versions").write_text("python 3.11\n")
    turn = await run(project, _MAKES_LATER, profile="auto-edit", reply=replies.get(answer), rules=rules)
    asked = [sorted(event.patterns) for event in turn.asked]
    assert asked == ([[".envrc", ".vscode"]] if answer in replies else [])
    is_kept = answer in {"once", "rule"}
    assert (project / ".envrc").exists() == (project / ".vscode").exists() == is_kept
    assert (project / ".envrc.not-allowed").exists() == (project / ".vscode.not-allowed/tasks.json").exists() != is_kept
    assert (".envrc.not-allowed" in turn.texts[0]) != is_kept
    assert (project / ".tool-versions").exists()


_MAKES_EVERYWHERE = """
mkdir -p deep/below/.vscode deep/.github/workflows node_modules/one plain
touch deep/below/.vscode/tasks.json deep/.envrc .github/workflows/new.yml deep/.github/workflows/ci.yml node_modules/one/.envrc
ln -s /dev/null deep/AGENTS.md
mkdir -p bare/objects bare/refs && touch bare/HEAD bare/config plain/config plain/ordinary.txt
git init -q deep/repository
echo commondir > .git/modules/one/commondir
"""


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


@pytest.mark.parametrize("reply", [engine.Once(), engine.Reject("no")])
async def test_new_files_are_found_in_every_folder(project: Path, reply: engine.Once | engine.Reject) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    made = {
        ".git/modules/one/commondir",
        "bare/config",
        "deep/.envrc",
        "deep/.github/workflows",
        "deep/AGENTS.md",
        "deep/below/.vscode",
        "deep/repository/.git",
    }
    (project / ".github/workflows").mkdir(parents=True)
    (project / ".git/modules/one").mkdir(parents=True)
    (project / ".git/modules/one/HEAD").touch()
    (project / "make.sh").write_text(_MAKES_EVERYWHERE)
    turn = await run(project, "sh make.sh", profile="auto-edit", reply=reply)
    assert [set(event.patterns) for event in turn.asked] == [made]
    is_kept = isinstance(reply, engine.Once)
    assert [_is_there(project / path) for path in made] == [is_kept] * len(made)
    assert [_is_there(project / f"{path}.not-allowed") for path in made] == [not is_kept] * len(made)
    assert (project / "plain/config").exists()
    assert (project / "node_modules/one/.envrc").exists()
    # It was there, so it is read-only.
    assert not (project / ".github/workflows/new.yml").exists()


async def test_existing_files_that_run_later_stay_as_they_are(project: Path) -> None:
    """In whichever folder they are, and wherever a link among them leads."""
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    files = (
        "deep/.envrc",
        "deep/below/.vscode/tasks.json",
        ".github/workflows/ci.yml",
        "docs/agents.md",
        "inner/.git/config",
    )
    for path in files[:-1]:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("as it was")
    (project / "AGENTS.md").symlink_to("docs/agents.md")
    (project / "CLAUDE.md").symlink_to("nothing/yet")
    before = [(project / path).read_text() for path in files]
    script = "\n".join(f"echo changed > {path}; rm -rf {path}; mv {path} away" for path in files)
    (project / "change.sh").write_text(
        f"{script}\nmv deep elsewhere; mkdir -p deep nothing; touch deep/.envrc nothing/yet\n"
    )
    turn = await run(project, "sh change.sh", profile="auto-edit", reply=engine.Reject("no"))
    assert "Read-only file system" in turn.texts[0]
    assert [(project / path).read_text() for path in files[2:]] == before[2:]
    # Their folder was moved, which leads the paths to other files.
    assert [set(event.patterns) for event in turn.asked] == [
        {"CLAUDE.md", "deep/.envrc", "elsewhere/.envrc", "elsewhere/below/.vscode"}
    ]
    assert (project / "elsewhere/.envrc.not-allowed").read_text() == "as it was"
    assert (project / "CLAUDE.md.not-allowed").is_symlink()


async def test_background_job_is_asked_about(project: Path) -> None:
    """What it makes hours later could not be told from what the user makes."""
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    job: dict[str, object] = {"command": "touch made", "background": True}
    turn = await run(project, job, profile="auto-edit", reply=engine.Once())
    assert [event.permission for event in turn.asked] == ["bash"]
    assert "Denied" in (await run(project, job, profile="auto-edit")).texts[0]


async def test_too_many_files_that_run_later_need_a_question(project: Path) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    for number in range(MAX_PROTECTED + 1):
        (project / f"package{number}").mkdir()
        (project / f"package{number}/.npmrc").touch()
    turn = await run(project, "touch made", profile="auto-edit")
    assert "more than 250 files" in turn.texts[0]
    assert not (project / "made").exists()
    for number in range(MAX_PROTECTED + 1):
        shutil.rmtree(project / f"package{number}")
    (project / ".zed").symlink_to(".")
    turn = await run(project, "touch made", profile="auto-edit")
    assert ".zed is a link to a folder that the command can change" in turn.texts[0]


async def test_cancelled_command_leaves_no_file_that_runs_later(project: Path) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bubblewrap does not work here")
    asked = trio.Event()
    answers = [*call("bash", {"command": _MAKES_LATER}, id="c0"), *done("calls")]
    async with (
        engine.open_engine(
            model=ScriptedProvider([answers, BYE]),
            tools=builtin_tools({}),
            permissions=PermissionOptions(profile="auto-edit"),
            files=FileOptions(spill=os.devnull),
        ) as eng,
        trio.open_nursery() as nursery,
    ):
        turn = eng.start_turn(await eng.create_session(cwd=project), "go")

        async def cancel() -> None:
            await asked.wait()
            assert (project / ".envrc").exists()
            turn.cancel()

        nursery.start_soon(cancel)
        with trio.fail_after(60):
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    asked.set()
    assert not (project / ".envrc").exists()
    assert (project / ".envrc.not-allowed").exists()


async def test_edits_are_asked_about_without_a_sandbox(project: Path) -> None:
    turn = await run(project, "touch made", profile="auto-edit", sandbox=Sandbox(backend=NO_BOX))
    assert "Denied" in turn.texts[0]
    assert not (project / "made").exists()


# ---- cancelling ------------------------------------------------------------------------------------------------------


class _CancelAtStep(trio.abc.Instrument):
    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope = scope
        self.left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel(reason="test")


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
async def test_confined_command_cancelled_at_every_step(
    project: Path, count_runs: CountRuns, backend: BackendSetting
) -> None:
    """Until the steps run out: the command ends by itself before the cancel."""
    found = (await choose_backend(backend)).backend
    if found is None:
        pytest.skip(f"{backend} does not work here")
    step = 0
    while True:
        step += 1
        finished: list[FinishedProcess] = []
        command = trees.bash(f"setsid sleep {trees.token()} & echo hi; sleep 0.02")
        launch = launch_reader(found, command, cwd=str(project), home=str(project.parent / "home"), hidden=SECRETS)
        scope = trio.CancelScope()
        instrument = _CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope:
            await run_tree(
                launch.argv,
                cwd=str(project),
                marker=trees.marker(),
                env={**os.environ, **launch.environment},
                confine=launch.confine,
                limits=launch.limits,
                drain=0.01,
                on_output=bytearray().extend,
                on_finish=finished.append,
            )
        trio.lowlevel.remove_instrument(instrument)
        assert (trees.alive(), [how for how in finished if not how.ended]) == ([], []), step
        if instrument.left > 0:
            break
    assert step > 20
    count_runs(step)
