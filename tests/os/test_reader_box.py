"""The reader box, in each back end: real commands that try to leave it, and ordinary ones that must not notice it."""

import ctypes
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import attrs
import pytest
import trio

from engine.config.sandbox_config import SECRETS
from engine.process.run_tree import run_tree
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.landlock import WITH_SIGNALS, landlock_version, make_ruleset, open_place, restrict_thread
from engine.sandbox.places import readable_places
from engine.sandbox.reader import Backend, launch_reader
from engine.sandbox.refused_calls import (
    ALWAYS_REFUSED,
    CONDITIONS,
    GROUPS,
    NETWORK,
    NOT_IMPLEMENTED,
    READER_REFUSED,
    SESSIONS,
    SIGNALS,
    UNSEEN_MEMORY,
    numbers,
)
from engine.sandbox.seccomp import drop_privileges, install_filter, keep_privileges_low, machine, seccomp_filter
from tests.os import hostile, trees

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

CANARY = "CANARY-5b1f"
PYTHON = os.path.realpath(sys.executable)
HOSTILE = {
    f"{kind}: {name}": script
    for kind, scripts in (
        ("write", hostile.WRITES),
        ("send", hostile.SENDS),
        ("read", hostile.READS),
        ("signal", hostile.SIGNALS),
    )
    for name, script in scripts.items()
}


@pytest.fixture(scope="module", params=get_args(Backend))
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    choice = trio.run(choose_backend, found)
    if choice.backend is None:
        pytest.skip("; ".join(choice.problems))
    return found


@attrs.define(eq=False)
class Place:
    """A project in git, with a folder and a home beside it, a process, and listeners. All that a box must not reach."""

    root: Path
    victim: subprocess.Popen[bytes]
    port: int
    received: list[str]
    folder: Path | None = None
    # The content of each path, with the inode and the time of its latest change.
    contents: dict[str, tuple[tuple[int, int], tuple[object, bytes]]] = attrs.field(
        factory=dict[str, tuple[tuple[int, int], tuple[object, bytes]]], init=False, repr=False
    )

    @property
    def project(self) -> Path:
        return self.folder or self.root / "project"

    def script(self, text: str) -> str:
        for name, value in {
            "outside": self.root / "outside",
            "home": self.root / "home",
            "port": self.port,
            "socket": self.root / "outside/listening",
            "pid": self.victim.pid,
            "handle": _handle_of(self.root / "outside/secret"),
            "network": str(Path("/proc/self/ns/net").readlink()),
            "engine": os.getpid(),
            "abstract": self.root.name,
            "python": PYTHON,
        }.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text.replace("{{", "{").replace("}}", "}")

    def launch(self, backend: Backend, script: str, *extra: str) -> Launch:
        return launch_reader(
            backend,
            trees.bash(script),
            cwd=str(self.project),
            home=str(self.root / "home"),
            hidden=SECRETS,
            extra=extra,
        )

    def state(self) -> Mapping[str, object]:
        """Return all that a command could change here."""
        found: dict[str, object] = {str(self.root): self._state_of(str(self.root))}
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = f"{folder}/{name}"
                found[path] = self._state_of(path)
        found["made in shared folders"] = [
            path
            for path in ("/tmp/engine-test-made", "/var/tmp/engine-test-made", "/dev/shm/engine-test-made")
            if os.path.lexists(path)
        ]
        # Other programs of this machine have some as well.
        lines = [line for name in ("shm", "sem") for line in Path("/proc/sysvipc", name).read_text().splitlines()]
        found["shared objects"] = [line for line in lines if re.search(r"\b(54321|777)\b", line)]
        found["host name"] = socket.gethostname()
        status = Path(f"/proc/{self.victim.pid}/limits").read_text(), os.getpriority(os.PRIO_PROCESS, self.victim.pid)
        found["victim"] = (self.victim.poll(), status, os.sched_getaffinity(self.victim.pid))
        found["received"] = list(self.received)
        return found

    def _state_of(self, path: str) -> object:
        found = os.lstat(path)
        change = found.st_ino, found.st_ctime_ns
        known, content = self.contents.get(path, (None, None))
        # What changes the content or an attribute changes the time as well. It has steps, so a young one proves nothing.
        if content is None or change != known or time.time() - found.st_ctime < 1:
            content = _content_of(path, found.st_mode)
            self.contents[path] = change, content
        return found.st_mode, found.st_uid, found.st_mtime_ns, found.st_nlink, found.st_ino, content


def _content_of(path: str, mode: int) -> tuple[object, bytes]:
    """Return the attributes and the bytes of a file."""
    if stat.S_ISLNK(mode):
        return [], b""
    attributes = [(name, os.getxattr(path, name)) for name in os.listxattr(path)]
    return attributes, Path(path).read_bytes() if stat.S_ISREG(mode) else b""


def _handle_of(path: Path) -> str:
    """Return the handle of a file, as name_to_handle_at gives it, in hexadecimal."""
    handle = ctypes.create_string_buffer(struct.pack("I", 128), 136)
    code = ctypes.CDLL(None).name_to_handle_at(-100, bytes(path), handle, ctypes.byref(ctypes.c_int()), 0)
    assert code == 0
    return handle.raw.hex()


@pytest.fixture
def short_path() -> Generator[Path]:
    """The path of a socket must be short."""
    with TemporaryDirectory(prefix="box-") as folder:
        yield Path(folder).resolve()


@pytest.fixture
def place(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    project, outside, home = (short_path / name for name in ("project", "outside", "home"))
    for folder in (project / "src", outside, home / ".ssh"):
        folder.mkdir(parents=True)
    (outside / "secret").write_text(f"{CANARY}\n")
    (home / ".ssh/id_rsa").write_text(f"{CANARY}\n")
    (home / ".gitconfig").write_text(
        "[user]\nname = x\nemail = x@example.org\n[safe]\ndirectory = *\n[maintenance]\nauto = false\n"
    )
    (project / "notes.txt").write_text("a first line\nand a second one\n" * 10)
    (project / "src/main.py").write_text("import os\nimport sys\n")
    (project / "link-to-secret").symlink_to(outside / "secret")
    monkeypatch.setenv("HOME", str(home))
    for command in ("git init -q", "tar cf given.tar notes.txt", "git add .", "git commit -qm first"):
        subprocess.run(command.split(), cwd=project, check=True)
    (project / "src/main.py").write_text("import os\nimport sys\nimport re\n")
    subprocess.run(["git", "status"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    received: list[str] = []
    with ExitStack() as stack:
        victim = stack.enter_context(_victim(outside))
        stack.callback(victim.kill)
        port = _listen(stack, received, socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_STREAM)
        _listen(stack, received, socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM)
        for address in (str(outside / "listening"), str(project / "listening"), f"\0{short_path.name}"):
            _listen(stack, received, socket.AF_UNIX, address, socket.SOCK_STREAM)
        yield Place(short_path, victim, port, received)


def _victim(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "ENGINE_TEST_VALUE": CANARY}
    return subprocess.Popen(["sleep", "86399"], cwd=folder, stdin=subprocess.DEVNULL, env=environment)


def _listen(stack: ExitStack, received: list[str], family: int, address: object, kind: int) -> int:
    """Listen in a thread, and note who comes; return the port if there is one."""
    listener = stack.enter_context(socket.socket(family, kind))
    listener.bind(address)  # type: ignore[arg-type]
    if kind == socket.SOCK_STREAM:
        listener.listen()
    closing = threading.Event()

    def serve() -> None:
        while not closing.is_set():
            try:
                if kind == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(10)
            except OSError:
                return
            if not closing.is_set():
                received.append(str(address))

    thread = threading.Thread(target=serve)
    thread.start()

    def close() -> None:
        closing.set()
        if kind == socket.SOCK_DGRAM:
            listener.sendto(b"", listener.getsockname())
        else:
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()

    stack.callback(close)
    return int(listener.getsockname()[1]) if family == socket.AF_INET else 0


async def run(launch: Launch, place: Place) -> tuple[int | None, str]:
    output = bytearray()
    finished = await run_tree(
        launch.argv,
        cwd=str(place.project),
        marker=trees.marker(),
        env={**os.environ, **launch.environment},
        confine=launch.confine,
        limits=launch.limits,
        on_output=output.extend,
        timeout=60,
    )
    return finished.exit_code, output.decode(errors="replace")


@pytest.mark.parametrize("name", HOSTILE)
async def test_nothing_leaves_the_box(backend: Backend, place: Place, name: str) -> None:
    before = place.state()
    _, output = await run(place.launch(backend, place.script(HOSTILE[name])), place)
    assert CANARY not in output
    assert place.state() == before


@pytest.mark.parametrize("script", hostile.ORDINARY)
async def test_ordinary_commands_do_not_notice(backend: Backend, place: Place, script: str) -> None:
    plain = await run(Launch(argv=trees.bash(script)), place)
    assert await run(place.launch(backend, script), place) == plain


async def test_extra_places_are_readable(backend: Backend, place: Place) -> None:
    secret = str(place.root / "outside/secret")
    script = place.script("cat {outside}/secret; echo x > {outside}/secret; cat {home}/.ssh/id_rsa")
    _, output = await run(place.launch(backend, script, secret), place)
    assert output.count(CANARY) == 1
    assert await trio.Path(secret).read_text() == f"{CANARY}\n"


async def test_hidden_files_in_a_readable_folder(backend: Backend, place: Place) -> None:
    launch = launch_reader(
        backend,
        trees.bash("cat src/main.py; cat notes.txt; ls"),
        cwd=str(place.project),
        home=str(place.root / "home"),
        hidden=(str(place.project / "src"),),
    )
    _, output = await run(launch, place)
    assert "import os" not in output
    assert "a first line" in output
    assert "given.tar" in output


async def test_working_tree_of_another_repository(backend: Backend, place: Place) -> None:
    tree = place.root / "tree"
    await trio.run_process(["git", "worktree", "add", "-q", str(tree)], cwd=place.project)
    launch = launch_reader(
        backend, trees.bash("git log --oneline | wc -l"), cwd=str(tree), home=str(place.root / "home"), hidden=SECRETS
    )
    output = bytearray()
    await run_tree(
        launch.argv,
        cwd=str(tree),
        marker=trees.marker(),
        env={**os.environ, **launch.environment},
        confine=launch.confine,
        limits=launch.limits,
        on_output=output.extend,
    )
    assert output.decode() == "1\n"


async def test_git_file_that_names_a_folder_which_does_not_point_back(backend: Backend, place: Place) -> None:
    tree = place.root / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {place.root / 'outside'}\n")
    for name, content in (("HEAD", "ref: x\n"), ("commondir", ".\n"), ("gitdir", f"{place.project}/.git\n")):
        (place.root / "outside" / name).write_text(content)
    launch = launch_reader(
        backend,
        trees.bash(place.script("cat {outside}/secret")),
        cwd=str(tree),
        home=str(place.root / "home"),
        hidden=SECRETS,
    )
    _, output = await run(launch, place)
    assert CANARY not in output


async def test_the_engine_itself_is_not_confined(backend: Backend, place: Place) -> None:
    threads = threading.active_count()
    await run(place.launch(backend, "true"), place)
    (place.root / "made").write_text("x")
    read = await trio.run_process(["cat", str(place.root / "outside/secret")], capture_stdout=True)
    assert CANARY in read.stdout.decode()
    with socket.create_connection(("127.0.0.1", place.port)):
        pass
    assert threading.active_count() <= threads + 2  # Trio's own, which wait for more work
    assert "engine: start confined" not in {thread.name for thread in threading.enumerate()}


# ---- each part is needed ---------------------------------------------------------------------------------------------

Part = Literal[
    "files", "calls", "calls of open files", "sockets", "capabilities", "groups", "sessions", "unseen memory"
]
# A command of the table that only this part keeps inside.
_HELD_BY: Mapping[Part, str] = {
    "files": "write: redirection",
    "calls": "write: mode",
    "calls of open files": "write: mode of an open file",
    "sockets": "send: path",
    "capabilities": "read: environment of a process",
    "groups": "leave: group",
    "sessions": "leave: session",
    "unseen memory": "leave: unseen memory",
}
_REFUSED_CALLS: Mapping[Part, str] = {"groups": GROUPS, "sessions": SESSIONS, "unseen memory": UNSEEN_MEMORY}
# What would leave the signal by which Landlock's box is ended, or the limits. Namespaces need none of these refusals.
_LEAVING = {
    "leave: group": "os.fork() and os.wait() or os.setpgid(0, 0) or print('CANARY-5b1f')",
    "leave: session": "os.fork() and os.wait() or os.setsid() or print('CANARY-5b1f')",
    "leave: unseen memory": "os.memfd_create('x') and print('CANARY-5b1f')",
}
_LEAVING_SCRIPTS = {name: f'{{python}} -c "import os; {code}"' for name, code in _LEAVING.items()}


def _confine_without(part: Part, place: Place) -> Callable[[], None]:
    """Return what confines a thread as the box does, but for one part of it."""
    kind = machine()
    assert kind is not None
    program = seccomp_filter(
        kind, is_reader=part != "calls of open files", network=part == "sockets", refuses_signals=False
    )
    if part in _REFUSED_CALLS:
        program = _without(program, numbers(_REFUSED_CALLS[part], kind))
    places = readable_places(str(place.project), str(place.root / "home"), os.environ["PATH"], [])
    readable = [*places.split()[0], *(["/"] if part == "files" else [])]
    writable = ["/" if part == "files" else "/dev/null"]

    def confine() -> None:
        descriptors = [
            [found for path in paths if (found := open_place(path)) is not None] for paths in (readable, writable)
        ]
        ruleset = make_ruleset(descriptors[0], [], descriptors[1], network=False)
        if part != "capabilities":
            drop_privileges()
        restrict_thread(ruleset)
        if part != "calls":
            install_filter(program)
        for descriptor in (*descriptors[0], *descriptors[1], ruleset):
            os.close(descriptor)

    return confine


def _without(program: bytes, calls: Sequence[int]) -> bytes:
    """Return a filter that does not refuse these calls: no call has the number that it looks for instead."""
    steps = [
        (code, then, otherwise, 0xFFFF_FFFF if code == 0x15 and value in calls else value)
        for code, then, otherwise, value in struct.iter_unpack("=HBBI", program)
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


@pytest.mark.parametrize("name", _LEAVING)
async def test_nothing_leaves_the_group_of_landlocks_box(place: Place, name: str) -> None:
    if (await choose_backend("landlock")).backend is None:
        pytest.skip("landlock does not work here")
    _, output = await run(place.launch("landlock", place.script(_LEAVING_SCRIPTS[name])), place)
    assert CANARY not in output
    assert "Operation not permitted" in output


@pytest.mark.parametrize("part", get_args(Part))
async def test_every_part_of_the_box_is_needed(place: Place, part: Part) -> None:
    if landlock_version() < WITH_SIGNALS:
        pytest.skip("an older Landlock")
    if part == "capabilities" and os.geteuid() != 0:
        pytest.skip("only root has capabilities")
    before = place.state()
    script = place.script({**HOSTILE, **_LEAVING_SCRIPTS}[_HELD_BY[part]])
    _, output = await run(Launch(argv=trees.bash(script), confine=_confine_without(part, place)), place)
    assert place.state() != before or CANARY in output


# What bubblewrap is asked for, or the filter, and a command that only this keeps inside.
_PARTS_OF_BUBBLEWRAP = {
    "filter": "send: path in the project",
    "--unshare-net": "send: tcp",
    "--unshare-pid": "signal: kill",
}


@pytest.mark.parametrize("part", _PARTS_OF_BUBBLEWRAP)
async def test_every_part_of_bubblewraps_box_is_needed(place: Place, part: str) -> None:
    if (await choose_backend("bwrap")).backend is None:
        pytest.skip("bwrap does not work here")
    before = place.state()
    launch = place.launch("bwrap", place.script(HOSTILE[_PARTS_OF_BUBBLEWRAP[part]]))
    argv = [word for word in launch.argv if word != part]
    assert (part == "filter") != (len(argv) < len(launch.argv))
    await run(
        attrs.evolve(launch, argv=argv, confine=keep_privileges_low if part == "filter" else launch.confine), place
    )
    assert trees.wait_for(lambda: place.victim.poll() is not None or place.state() != before)


# ---- numbers of system calls -----------------------------------------------------------------------------------------

_HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("kind", ["x86_64", "aarch64"])
def test_numbers_are_those_of_the_kernel(kind: Literal["x86_64", "aarch64"]) -> None:
    header = _HEADERS[kind]
    if not header.exists():
        pytest.skip("no kernel headers")
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(encoding="ascii"))
    }
    calls = ",".join(
        (ALWAYS_REFUSED, READER_REFUSED, NETWORK, SIGNALS, NOT_IMPLEMENTED, *(one.call for one in CONDITIONS))
    )
    for call in calls.split(","):
        name = call.split()[0]
        if name in known:
            assert numbers(call, kind) == [known[name]], name


def test_filter_is_what_the_kernel_takes() -> None:
    kind = machine()
    if kind is None:
        pytest.skip("an unknown machine")
    program = seccomp_filter(kind, is_reader=True, network=False, refuses_signals=True)
    assert len(program) % struct.calcsize("=HBBI") == 0
    code = "import sys; from engine.sandbox.seccomp import *; drop_privileges(); install_filter(sys.stdin.buffer.read()); print('in')"
    ran = subprocess.run([sys.executable, "-c", code], input=program, capture_output=True, check=True)
    assert ran.stdout == b"in\n"


# ---- the choice ------------------------------------------------------------------------------------------------------


async def test_landlock_comes_first(place: Place) -> None:
    landlock, bwrap, auto, off = [await choose_backend(mode) for mode in ("landlock", "bwrap", "auto", "off")]
    assert auto.backend == (landlock.backend or bwrap.backend)
    assert off.backend is None


def test_missing_back_end_is_named(place: Place) -> None:
    """In a program of its own, since what works is found out once for each process."""
    programs = place.root / "programs"
    programs.mkdir()
    (programs / "bash").symlink_to(shutil.which("bash") or "")
    code = "import trio; from engine.sandbox.backends import choose_backend; print(trio.run(choose_backend, 'bwrap'))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "BackendChoice(backend=None, problems=('bwrap: bubblewrap is not installed',))\n"


def test_temporary_folder_goes_with_its_process(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, sys; from engine.sandbox.reader import launch_reader;"
        "from engine.files.staging import remove_leftovers; remove_leftovers();"
        "print(launch_reader('landlock', ['true'], cwd='/', home='/', hidden=()).environment['TMPDIR'], flush=True);"
        "sys.argv[1:] and os.kill(os.getpid(), 9)"
    )
    temporary = place.root / "tmp"
    temporary.mkdir()
    start = partial(
        subprocess.run, env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True, text=True, check=False
    )
    ended, killed = (Path(start([sys.executable, "-c", code, *more]).stdout.strip()).parent for more in ((), ("kill",)))
    assert not ended.exists()
    assert killed.is_dir()
    start([sys.executable, "-c", code])
    assert not killed.exists()


def test_killed_trial_is_cleaned_up_by_the_next(place: Place) -> None:
    programs, temporary = place.root / "programs", place.root / "tmp"
    programs.mkdir()
    temporary.mkdir()
    # The trial runs it: it ends with the engine only.
    (programs / "bash").write_text("#!/bin/sh\nwhile [ -d /proc/$PPID ]; do sleep 0.1; done\n")
    (programs / "bash").chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(temporary), "PATH": f"{programs}:{os.environ['PATH']}"}
    code = "import trio; from engine.sandbox.backends import choose_backend; trio.run(choose_backend, 'landlock')"
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        try:
            found = trees.wait_for(lambda: any(temporary.glob("*/trial-*")) or process.poll() is not None)
            if process.poll() is not None:
                pytest.skip("landlock does not work here")
            assert found
        finally:
            process.kill()
    code = "from engine.files.staging import remove_leftovers; remove_leftovers()"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("engine-staging-")] == []
