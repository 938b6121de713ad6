"""Commands in a real sandbox: what they can't do, and that nothing of them is left. Real processes, in real time."""

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from uuid import uuid4

import attrs
import pytest
import trio

import engine
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ToolError
from engine.core.events import CallSettled, PermissionAsked
from engine.process.run_tree import FinishedProcess, run_tree
from engine.sandbox.sandbox import SandboxLauncher
from engine.sandbox.temporary import process_folder, project_folder
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns, Soak
from tests.os import trees

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")]

GRACE = 0.5
# Of what ends when it is asked to: a machine may stand still for seconds.
PATIENT = 20.0
HERE = Path(__file__).parent


def beside() -> Path:
    """Return a folder that we may write to, and that is no temporary one: the sandbox leaves those open."""
    temporary = [Path(folder).resolve() for folder in (gettempdir(), "/tmp", "/var/tmp", "/dev/shm")]
    for folder in (HERE, Path.home(), Path("/opt"), Path("/srv")):
        real = folder.resolve()
        if os.access(real, os.W_OK) and not any(real.is_relative_to(one) for one in temporary):
            return real
    pytest.skip("there is no folder to write to outside of the temporary ones")


ETC = Path("/etc")


@pytest.fixture(autouse=True)
def clean() -> Generator[None]:
    # Holds a file open from its first use on.
    process_folder()
    with trees.nothing_left():
        yield


@pytest.fixture(scope="module", autouse=True)
def works() -> None:
    """Skip what needs a sandbox where there can't be one; the reason is bubblewrap's."""
    with TemporaryDirectory() as folder:
        try:
            trio.run(lambda: SandboxLauncher(Sandbox()).launch(["true"], cwd=folder))
        except ToolError as error:
            pytest.skip(str(error))


@attrs.frozen
class Place:
    """A project, and a home folder beside it."""

    project: Path
    home: Path

    async def run(self, script: str, sandbox: Sandbox | None = None) -> tuple[int | None, str]:
        """Run a script in the sandbox; return its exit code and its output."""
        output = bytearray()
        launch = await SandboxLauncher(sandbox or Sandbox()).launch(trees.bash(script), cwd=str(self.project))
        finished = await run_tree(
            launch.argv,
            confine=launch.confine,
            limits=launch.limits,
            cwd="/",
            marker=trees.marker(),
            on_output=output.extend,
            timeout=20,
        )
        return finished.exit_code, output.decode()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path / "project", tmp_path / "home")
    found.project.mkdir()
    found.home.mkdir()
    monkeypatch.setenv("HOME", str(found.home))
    return found


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def make_program(path: str, script: str) -> None:
    Path(path).write_text(f"#!/bin/sh\n{script}\n")
    Path(path).chmod(0o755)


def repository(place: Place) -> Path:
    git = place.project / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    return git


# ---- files -----------------------------------------------------------------------------------------------------------


async def test_the_project_and_temporary_folders_can_be_changed(place: Place) -> None:
    name = f"engine-test-{uuid4().hex}"
    for folder in (place.project, Path("/tmp"), Path("/var/tmp")):
        code, output = await place.run(f"echo hi > {folder}/{name} && cat {folder}/{name}")
        assert (code, output) == (0, "hi\n")
        assert await place.run(f"cat {folder}/{name}; rm {folder}/{name}") == (0, "hi\n"), "it is there for the next"


async def test_temporary_folders_are_private(place: Place, tmp_path: Path) -> None:
    (tmp_path / "others").write_text("seen")
    beside = trio.Path("/tmp", f"engine-test-{uuid4().hex}")
    await beside.write_text("seen")
    for path in (trio.Path(tmp_path, "others"), beside):
        _, output = await place.run(f"cat {path}; echo changed > {path}; ls /tmp")
        assert "seen" not in output
        assert await path.read_text() == "seen"
    assert (await place.run(f"mv /tmp/{tmp_path.relative_to('/tmp').parts[0]} /tmp/x"))[0] != 0, (
        "the way to the project"
    )
    assert await place.run(f"cat {beside}", Sandbox(writable=("/tmp",))) == (0, "seen"), "who says so shares them"
    await beside.unlink()


async def test_only_private_folders_hide_temporary_files(place: Place) -> None:
    """The same sandbox, with the machine's own folders instead of them."""
    beside = trio.Path("/tmp", f"engine-test-{uuid4().hex}")
    await beside.write_text("seen")
    launch = await SandboxLauncher(Sandbox()).launch(
        trees.bash(f"cat {beside}; echo changed > {beside}"), cwd=str(place.project)
    )
    output = bytearray()
    argv = list(launch.argv)
    for index, word in enumerate(argv):
        if word == "--bind" and argv[index + 1] == project_folder(str(place.project)):
            argv[index + 1] = argv[index + 2]
    await run_tree(argv, confine=launch.confine, cwd="/", marker=trees.marker(), on_output=output.extend)
    assert (output.decode(), await beside.read_text()) == ("seen", "changed\n")
    await beside.unlink()


async def test_other_project_has_other_temporary_files(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert await place.run("echo x > /tmp/engine-test-made") == (0, "")
    assert (await Place(other, place.home).run("cat /tmp/engine-test-made"))[0] != 0


async def test_environment_in_a_temporary_folder(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs on `PATH` are there although the folder is private."""
    (tmp_path / "env/bin").mkdir(parents=True)
    make_program(f"{tmp_path}/env/bin/own-program", "echo ran")
    monkeypatch.setenv("PATH", f"{tmp_path}/env/bin:{os.environ['PATH']}")
    assert await place.run("own-program") == (0, "ran\n")


async def test_everything_else_is_forbidden(place: Place) -> None:
    name = f"engine-test-{uuid4().hex}"
    somewhere = ("/", "/etc", "/usr", "/usr/local/bin", "/home", str(beside()), "/run", "/proc", "/sys")
    for folder in somewhere:
        code, output = await place.run(f"touch {folder}/{name}")
        assert code != 0, folder
        assert "Read-only file system" in output or "No such file" in output or "denied" in output, output
        assert not is_there(f"{folder}/{name}")
    code, output = await place.run(
        "rm -f /etc/passwd; mv /usr/bin /usr/bim; chmod 777 /etc; ln -s / /etc/x; wc -c < /etc/passwd"
    )
    assert int(output.splitlines()[-1]) == (ETC / "passwd").stat().st_size


@pytest.mark.parametrize(
    "way",
    [
        "mount -o remount,rw /",
        "mount -o remount,bind,rw /",
        "umount /proc; umount -l /",
        "unshare -r mount -o remount,rw /",
        "unshare -rm sh -c 'mount -o remount,bind,rw / || mount -t tmpfs x /etc'",
        "mknod x b 8 0 && cat x",
        "chroot / touch /etc/x",
        "nsenter -t 1 -m touch /etc/x",
        "touch '/proc/1/root'/etc/x",
        "cat /proc/kcore | head -c 1 | grep -q .",
    ],
)
async def test_ways_out(place: Place, way: str) -> None:
    name = f"engine-test-{uuid4().hex}"
    code, _ = await place.run(f"{{ {way.replace('/etc/x', f'/etc/{name}')}; }} 2>&1 && touch /etc/{name}")
    assert code != 0
    assert not is_there(f"/etc/{name}")


async def test_the_kernel_can_not_be_changed(place: Place) -> None:
    """Not even by root, to whom all of these belong. They are opened only, or this test would change this machine."""
    folders = "/proc/sys /proc/irq /proc/fs /proc/bus /proc/sysrq-trigger /sys"
    script = f"for f in $(find {folders} -type f -perm /222 | head -3000); do (exec 3>>$f) && echo $f; done 2>/dev/null; echo over"
    assert await place.run(script) == (0, "over\n")


async def test_more_folders_may_be_changed(place: Place) -> None:
    with TemporaryDirectory(dir=beside()) as folder:
        sandbox = Sandbox(writable=(folder, f"{folder}/nothing", "/nowhere/at/all"))
        assert await place.run(f"touch {folder}/x", sandbox) == (0, "")
        assert (await place.run(f"touch {folder}/y"))[0] != 0
        assert os.listdir(folder) == ["x"]  # noqa: PTH208 - the names


async def test_secrets_look_empty(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (place.home / ".aws").symlink_to(tmp_path / "elsewhere")
    (place.home / ".ssh").mkdir()
    (place.home / ".config/engine").mkdir(parents=True)
    files = [
        place.home / ".ssh/id",
        tmp_path / "elsewhere/credentials",
        place.home / ".netrc",
        place.home / ".config/engine/c",
    ]
    for path in files:
        path.write_text("hunter2")
    for path in (*files, place.home / ".aws/credentials"):
        assert "hunter2" not in (await place.run(f"cat {path}; cat {path} > copy; cat copy"))[1]
    script = "ls -A ~/.ssh ~/.config/engine; ls ~/.ssh/..; touch ~/.ssh/authorized_keys; echo x >> ~/.netrc; rm -rf ~/.ssh; mv ~/.netrc x; mv ~/.ssh y; cat y/id x"
    _, output = await place.run(script)
    assert "hunter2" not in output
    assert [path.read_text() for path in files] == ["hunter2"] * 4
    assert [path.name for path in (place.home / ".ssh").iterdir()] == ["id"]
    shown = Sandbox(hidden=(), writable=(str(place.home),))
    assert await place.run("cat ~/.ssh/id", shown) == (0, "hunter2"), "who says so may see it"


async def test_project_in_a_hidden_folder_is_visible(place: Place) -> None:
    project = place.home / ".config/engine/plugin"
    project.mkdir(parents=True)
    (project.parent / "other").write_text("")
    assert await Place(project, place.home).run("touch x; ls; ls ..") == (0, "x\nplugin\n")


async def test_files_executed_later_are_read_only(place: Place) -> None:
    git = repository(place)
    (place.project / ".engine").mkdir()
    (place.project / ".engine/config.toml").write_text("")
    for way in (
        "echo x > .git/config",
        "echo x > .git/hooks/pre-commit",
        "rm -rf .git/hooks",
        "mv .git/hooks .git/hooks2",
        "mv .git .git2",
        "mv .git/config x",
        "ln -sf x .git/config",
        "echo x > .engine/config.toml",
        "rm -rf .engine",
        "mv .engine x",
        f"mv {place.project} {place.project}2",
        f"mv {place.project.parent} {place.project.parent}2",
    ):
        code, output = await place.run(way)
        assert code != 0, (way, output)
    assert (git / "config").read_text() == "[core]\n"
    assert list((git / "hooks").iterdir()) == []
    assert (place.project / ".engine/config.toml").read_text() == ""


async def test_git_works(place: Place) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    who = "git -c user.name=a -c user.email=a@b"
    assert (await place.run("git init -q"))[0] == 0
    code, output = await place.run(
        f"echo x > f && git add f && {who} commit -qm one && git log --format=%s && git config a.b c"
    )
    assert output.splitlines()[0] == "one"
    assert code != 0, "only the settings can't be changed"


async def test_missing_settings_cannot_be_created(place: Place) -> None:
    git = repository(place)
    (git / "hooks").rmdir()
    for way in ("mkdir -p .engine && touch .engine/config.toml", "mkdir -p .git/hooks && touch .git/hooks/x"):
        assert (await place.run(way))[0] != 0
    assert list((place.project / ".engine").iterdir()) == list((git / "hooks").iterdir()) == []


def told_by_git(place: Place, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place.project, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


async def test_repository_cannot_redirect_its_settings(place: Place) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    git = place.project / ".git"
    told_by_git(place, "init", "-q")
    told_by_git(place, "config", "extensions.worktreeConfig", "true")
    for name in ("commondir", "config.worktree"):
        for way in (f"echo /tmp > .git/{name}", f"rm -f .git/{name} && echo x", f"mv .git/{name} .git/x"):
            code, output = await place.run(way)
            assert code != 0, (way, output)
    assert told_by_git(place, "status", "--short") == ""
    assert (git / "commondir").read_text() == ".\n", "as it is anyhow"


@pytest.mark.parametrize("form", ["file", "links", "no settings"])
async def test_repositories_of_other_forms(place: Place, form: str) -> None:
    git = place.project / ".git"
    match form:
        case "file":  # a worktree, or a submodule
            git.write_text("gitdir: /somewhere\n")
            ways = ["echo x > .git", "rm .git", "mv .git x"]
        case "links":
            repository(place)
            (git / "hooks").rmdir()
            (git / "hooks").symlink_to("../hooks")
            ways = ["rm .git/hooks", "touch .git/x", "mv .git x"]
        case _:
            git.mkdir()
            ways = ["touch .git/config", "touch .git/x"]
    for way in ways:
        assert (await place.run(way))[0] != 0, way


# ---- network ---------------------------------------------------------------------------------------------------------


@contextmanager
def listening(family: int, address: str | tuple[str, int]) -> Generator[socket.socket]:
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()
        yield server
    if isinstance(address, str):
        Path(address).unlink()


async def test_network_is_off_by_default(place: Place) -> None:
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        code, output = await place.run(script)
        assert code != 0
        assert "connected" not in output
        assert await place.run(script, Sandbox(network=True)) == (0, "connected\n")


async def test_outside_processes_are_unreachable(place: Place) -> None:
    """The sockets of a user's agents and terminals lie in temporary folders."""
    connect = f"{trees.PYTHON} -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "
    with TemporaryDirectory() as folder:
        beside = f"{folder[: folder.rfind('/')]}/engine-test-{uuid4().hex}.sock"
        deep = mkdtemp(dir=mkdtemp(dir=folder))
        for path in (f"{folder}/s", beside, f"{deep}/s", str(place.home / "s")):
            with listening(socket.AF_UNIX, path):
                assert (await place.run(f"{connect} {path}", Sandbox(network=True)))[0] != 0
    with listening(socket.AF_UNIX, str(place.project / "s")):
        assert await place.run(f"{connect} s") == (0, ""), "what is in the project is the project's"


# ---- processes -------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Output:
    """What a command wrote so far."""

    data: bytearray = attrs.field(factory=bytearray)
    is_ready: trio.Event = attrs.field(factory=trio.Event)

    def __call__(self, chunk: bytes) -> None:
        if len(self.data) < 1_000_000:
            self.data += chunk
        if b"ready" in self.data:
            self.is_ready.set()


async def run_and_cancel(
    place: Place, script: str, output: Output, *, after: float | None = None, grace: float = GRACE
) -> FinishedProcess:
    """Run a script in the sandbox, cancel it when it is ready or after so many seconds; return how it ended."""
    launch = await SandboxLauncher(Sandbox()).launch(trees.bash(script), cwd=str(place.project))
    results: list[FinishedProcess] = []

    async def run() -> None:
        await run_tree(
            launch.argv,
            confine=launch.confine,
            limits=launch.limits,
            cwd="/",
            marker=trees.marker(),
            on_output=output,
            grace=grace,
            on_finish=results.append,
        )

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            if after is None:
                await output.is_ready.wait()
            else:
                await trio.sleep(after)
            nursery.cancel_scope.cancel(reason="test")
    return (
        results[0]
        if results
        else FinishedProcess(
            cause="cancel",
            exit_code=None,
            signal=None,
            duration=0,
            left_behind=0,
            ended=True,
            survivors=(),
            output_complete=True,
        )
    )


@pytest.mark.parametrize("kind", trees.STUBBORN)
async def test_a_cancel_ends_all(place: Place, kind: str) -> None:
    finished = await run_and_cancel(place, trees.STUBBORN[kind], Output())
    assert (finished.cause, finished.ended, finished.survivors) == ("cancel", True, ())


@pytest.mark.parametrize("kind", ["daemon, parent gone", "setsid, ignores TERM", "wiped environment", "hopper"])
async def test_the_end_of_the_command_ends_all(place: Place, kind: str) -> None:
    script = f"({trees.STUBBORN[kind]}) & read line < <(sleep 0.3); exit 3"
    code, _ = await place.run(script)
    assert code == 3


async def test_the_hole_is_closed(place: Place) -> None:
    """Left the session, no parents, no environment: outside of a sandbox, such a one is not found."""
    script = "env -i setsid bash -c 'env -i setsid sleep {t} >/dev/null 2>&1 & exit' >/dev/null 2>&1; sleep 0.2; exit 3"
    assert (await place.run(script))[0] == 3


async def test_cancelled_command_may_clean_up(place: Place) -> None:
    """SIGTERM comes first, half the grace later SIGKILL; last words are passed on."""
    output = Output()
    script = "trap 'echo bye; sleep 0.05; touch tidy; exit' TERM; echo ready; sleep {t} & wait"
    await run_and_cancel(place, script, output, grace=PATIENT)
    assert output.data == b"ready\nbye\n"
    assert (place.project / "tidy").exists()


@pytest.mark.soak
async def test_cancelled_at_any_instant(place: Place, soak: Soak, count_runs: CountRuns) -> None:
    script = "echo ready; (trap '' TERM; setsid sleep {t}) & env -i sleep {t} & wait"
    for seed in soak.seeds(20):
        await run_and_cancel(place, script, Output(), after=random.Random(seed).uniform(0, 0.15))
        assert trees.alive() == []
        count_runs(1)


async def test_ending_thread_takes_no_command_with_it(place: Place) -> None:
    """The one that starts a process ends when it was idle for ten seconds; then `--die-with-parent` would strike."""
    launch = await SandboxLauncher(Sandbox()).launch(["sleep", "0.3"], cwd=str(place.project))
    assert not {"--die-with-parent", "--new-session"} & set(launch.argv)


async def test_another_user(place: Place) -> None:
    """Who is not root needs a namespace for users, too."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to be somebody else")
    for folder in place.project.parents:
        if folder.owner() == "root" and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    launch = await SandboxLauncher(Sandbox()).launch(
        trees.bash("id -u; echo x > x; touch /etc/x; env -i setsid sleep {t} & sleep 0.1; echo over"),
        cwd=str(place.project),
    )
    command = [word for word in launch.argv if word not in {"--cap-add", "CAP_DAC_OVERRIDE"}]
    for path in (place.project, place.project / ".engine"):
        os.chown(path, 65534, 65534)
    output = bytearray()
    finished = await run_tree(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command],
        cwd="/", marker=trees.marker(), on_output=output.extend, timeout=20,
    )  # fmt: skip
    said = output.decode()
    if "bwrap: " in said:
        pytest.skip(f"another user can't make a sandbox here: {said}")
    assert (finished.exit_code, finished.ended) == (0, True)
    assert (
        said.splitlines() == ["65534", "touch: cannot touch '/etc/x': Permission denied", "over"] or "Read-only" in said
    )
    assert (place.project / "x").read_text() == "x\n"


# ---- where there can't be one ----------------------------------------------------------------------------------------


async def refusal(place: Place, folder: Path) -> str:
    with pytest.raises(ToolError) as raised:
        await SandboxLauncher(Sandbox()).launch(["true"], cwd=str(folder))
    return str(raised.value)


async def test_without_bubblewrap_nothing_is_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert (await refusal(place, place.project)).startswith(
        "The command was not run: a sandbox is required, but bubblewrap is not installed here. The user can install it: "
        "apt-get install bubblewrap"
    )


async def test_a_bubblewrap_that_does_not_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir=beside()) as folder:
        make_program(f"{folder}/bwrap", "echo bwrap: No permissions to create a new namespace\nexit 1")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        told = await refusal(place, place.project)
    assert told.startswith(
        "The command was not run: a sandbox is required, but bubblewrap does not work here: "
        "bwrap: No permissions to create a new namespace"
    )


async def test_a_bubblewrap_that_the_model_may_have_made(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(f"{place.project}/bwrap", "exit 0")
    monkeypatch.setenv("PATH", f"{place.project}:{os.environ['PATH']}")
    assert (await refusal(place, place.project)).endswith("is writable in the sandbox.")


async def test_places_that_no_sandbox_can_guard(place: Place, tmp_path: Path) -> None:
    assert await refusal(place, Path("/")) == (
        "The command was not run: in a sandbox only a project can be changed, and / is none."
    )
    (place.project / ".engine").symlink_to("x")
    assert (await refusal(place, place.project)).endswith(".engine is a symbolic link, which a sandbox can't protect.")


async def test_a_project_that_leads_elsewhere_by_now(place: Place, tmp_path: Path) -> None:
    """A command has moved it, and put a link in its place, where the user has other things."""
    launcher, project = SandboxLauncher(Sandbox()), tmp_path / "deep/er"
    project.mkdir(parents=True)
    with TemporaryDirectory(dir="/dev/shm") as elsewhere:
        await launcher.launch(["true"], cwd=str(project))
        (tmp_path / "deep").rename(tmp_path / "moved")
        (tmp_path / "deep").mkdir()
        project.symlink_to(elsewhere)
        with pytest.raises(ToolError, match=r"leads to another folder than at first\.$"):
            await launcher.launch(["true"], cwd=str(project))


# ---- the tool --------------------------------------------------------------------------------------------------------

BYE: Answer = [*text("bye"), *done()]


def ran(command: str, **more: object) -> Answer:
    return one("bash", {"command": command, **more})


def one(tool: str, arguments: dict[str, object]) -> Answer:
    return [*call(tool, arguments, id="c"), *done("calls")]


# All that is asked about in these tests is the way out.
INSIDE = ("allow bash *", "allow read /**", "allow edit /**", "allow outside /**", "allow opaque *")


@asynccontextmanager
async def opened(place: Place, answers: Sequence[Answer], *rules: str) -> AsyncGenerator[Session]:
    tools = builtin_tools({}, sandbox=Sandbox())
    async with engine.open_engine(
        model=ScriptedProvider(tuple(answers)),
        tools=tools,
        permissions=PermissionOptions(rules=(*INSIDE, *rules)),
        files=FileOptions(spill=os.devnull),
    ) as eng:
        yield await eng.create_session(cwd=place.project)


async def results(
    session: Session, reply: engine.Once | engine.Always | engine.Reject | None = None
) -> tuple[list[str], list[PermissionAsked]]:
    """Run a turn; return what the calls told, and what was asked."""
    told: list[str] = []
    asked: list[PermissionAsked] = []
    with trio.fail_after(60):
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked) and reply is not None:
                    asked.append(event)
                    await turn.reply(event.request_id, reply)
                if isinstance(event, CallSettled):
                    told.append(event.settlement.text)
    return told, asked


def test_escape_exists_only_with_a_sandbox() -> None:
    plain, confined, boxed = (
        next(tool for tool in builtin_tools({}, sandbox=sandbox) if tool.name == "bash")
        for sandbox in (Sandbox(backend="off"), None, Sandbox(network=True))
    )
    assert "outside_sandbox" not in plain.schema.schema
    assert "sandbox" not in plain.description
    assert "outside_sandbox" in confined.schema.schema
    assert "runs without a question, but confined" in confined.description
    assert "outside_sandbox" in boxed.schema.schema
    assert "there is a network" in boxed.description
    assert [tool.name for tool in builtin_tools({}, sandbox=Sandbox())] == [tool.name for tool in builtin_tools({})]


async def test_model_learns_of_sandbox_failures(place: Place) -> None:
    answers = [
        ran("touch /etc/x"), ran("curl -sS http://localhost.invalid || echo Could not resolve host; exit 6"),
        ran("ls nothing"), ran("sleep 60 & echo hi"), BYE,
    ]  # fmt: skip
    async with opened(place, answers) as session:
        (wrote, fetched, other, left), _ = await results(session)
    hint = "with outside_sandbox=true the user is asked to let it run outside]"
    assert wrote.endswith(
        f"\n[it ran in a sandbox, where outside of the project and the temporary folders nothing can be written; {hint}"
    )
    assert fetched.endswith(f"\n[it ran in a sandbox, where there is no network; {hint}")
    assert "sandbox" not in other
    assert "[1 process that it left running had to be ended." in left


async def test_escape_is_always_asked_about(place: Place) -> None:
    name = beside() / f"engine-test-{uuid4().hex}"
    command = f"touch {name} && echo done"
    answers = [ran(command), ran(command, outside_sandbox=True), ran(command, outside_sandbox=True), BYE]
    async with opened(place, answers) as session:
        try:
            told, asked = await results(session, engine.Once())
        finally:
            name.unlink(missing_ok=True)
    assert [(one.permission, one.patterns, one.detail) for one in asked] == [("unsandboxed", (command,), command)] * 2
    assert "Read-only file system" in told[0]
    assert [one.splitlines()[0] for one in told[1:]] == ["done", "done"]


async def test_forbidden_commands_stay_forbidden_outside(place: Place) -> None:
    answers = [ran("touch x", outside_sandbox=True), ran("echo hi", outside_sandbox=True), BYE]
    async with opened(place, answers, "deny bash touch *", "allow unsandboxed *") as session:
        told, asked = await results(session)
    assert (told[0][:7], told[1][:3], asked) == ("Denied ", "hi\n", [])


async def test_refused_escape_stays_inside(place: Place) -> None:
    name = beside() / f"engine-test-{uuid4().hex}"
    async with opened(place, [ran(f"touch {name}", outside_sandbox=True), BYE]) as session:
        told, _ = await results(session, engine.Reject("no"))
    assert told == ["Rejected by the user: no"]
    assert not name.exists()


async def test_jobs_run_in_it_too(place: Place) -> None:
    script = 'until [ -e go ]; do sleep 0.01; done; echo "$(touch /etc/x 2>&1) up"; sleep {t} & wait'
    answers = [
        ran(script.replace("{t}", trees.token()), background=True, name="web"),
        ran("touch go"),
        one("bash_output", {"name": "web", "wait": 30}),
        one("bash_stop", {"name": "web"}),
        BYE,
    ]
    async with opened(place, answers) as session:
        (_, _, shown, stopped), _ = await results(session)
    assert "Read-only file system up\n" in shown
    assert "web" in stopped


async def test_missing_sandbox_runs_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    async with opened(place, [ran("touch x"), ran("touch x", background=True), BYE]) as session:
        told, _ = await results(session)
    assert [one[:71] for one in told] == ["The command was not run: a sandbox is required, but bubblewrap is not i"] * 2
    assert not (place.project / "x").exists()
