"""What confined commands may use, and what their processes may do to bubblewrap's own. Nothing here runs without an end."""

import errno
import os
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import attrs
import pytest

from engine.config.sandbox_config import SECRETS, Sandbox
from engine.core.errors import ToolError
from engine.process.resource_limits import ResourceLimits, default_memory
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.reader import launch_reader
from engine.sandbox.sandbox import SandboxLauncher
from engine.sandbox.seccomp import keep_privileges_low
from engine.sandbox.temporary import process_folder
from engine.tools.shell_environment import ending_of
from tests.os import trees
from tests.os.test_reader_box import PYTHON

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

Start = Callable[[str], Awaitable[Launch]]


@pytest.fixture(autouse=True)
def clean() -> Generator[None]:
    # Holds a file open from its first use on.
    process_folder()
    with trees.nothing_left():
        yield


@pytest.fixture(params=["landlock", "bwrap", "sandbox"])
async def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """How to start a script in each of the two reader boxes, and in the sandbox."""
    kind = request.param
    if kind == "sandbox":
        launcher = SandboxLauncher(Sandbox())

        async def in_sandbox(script: str) -> Launch:
            try:
                return await launcher.launch(trees.bash(script), cwd=str(tmp_path))
            except ToolError as error:
                pytest.skip(str(error))

        return in_sandbox
    if (await choose_backend(kind)).backend is None:
        pytest.skip(f"{kind} does not work here")

    async def in_reader(script: str) -> Launch:
        return launch_reader(kind, trees.bash(script), cwd=str(tmp_path), home=str(tmp_path), hidden=SECRETS)

    return in_reader


async def run(launch: Launch, **limits: Any) -> tuple[FinishedProcess, str]:
    """Run it with other limits, since the usual ones are far away."""
    assert launch.limits is not None
    output = bytearray()
    finished = await run_tree(
        launch.argv,
        cwd="/",
        marker=trees.marker(),
        env={**os.environ, **launch.environment},
        confine=launch.confine,
        limits=attrs.evolve(launch.limits, **limits),
        on_output=output.extend,
        timeout=60,
    )
    return finished, output.decode(errors="replace")


@pytest.mark.parametrize(
    "command", ["sleep {t}", "setsid sleep {t}", "env -i setsid sleep {t}", "(trap '' TERM; sleep {t})"]
)
async def test_command_with_too_many_processes_is_ended(start: Start, command: str) -> None:
    launch = await start(f"for i in $(seq 150); do {command} & done; wait")
    finished, _ = await run(launch, processes=50)
    if finished.cause == "limit":
        assert (finished.exceeded, finished.ended) == ("50 processes", True)
    else:
        # Landlock's box lets none begin a session, so they end at once.
        assert "setsid" in command
        assert launch.keepers == 0


async def test_command_with_too_many_threads_is_ended(start: Start) -> None:
    code = "import threading as t, time; [t.Thread(target=time.sleep, args=(86400,)).start() for _ in range(150)]"
    finished, _ = await run(await start(f"exec {PYTHON} -c '{code}' {{t}}"), processes=10)
    assert (finished.cause, finished.exceeded) == ("limit", "100 threads")


@pytest.mark.parametrize(
    "code",
    [
        "a = b'x' * 300_000_000; time.sleep(86400)",
        "a = mmap.mmap(-1, 300_000_000); a.write(b'x' * 300_000_000); time.sleep(86400)",
        "a = [os.fork() for _ in range(2)]; b = b'x' * 80_000_000; time.sleep(86400)",
    ],
)
async def test_command_that_eats_memory_is_ended(start: Start, code: str) -> None:
    finished, _ = await run(await start(f'exec {PYTHON} -c "import mmap, os, time; {code}" {{t}}'), memory=200)
    assert (finished.cause, finished.exceeded) == ("limit", "200 MB of memory")
    assert ending_of(finished) == "ended: it took more than it may, 200 MB of memory"


async def test_only_the_watch_limits_processes(start: Start) -> None:
    launch = await start("for i in $(seq 60); do sleep {t} & done; jobs -p | wc -l; kill $(jobs -p)")
    finished, output = await run(launch, processes=1_000_000, memory=1_000_000)
    assert (finished.cause, output.split()[0]) == ("exit", "60")


async def test_shared_memory_counts_once(start: Start) -> None:
    code = "a = b'x' * 80_000_000; c = [os.fork() for _ in range(3)]; time.sleep(0.5)"
    finished, _ = await run(await start(f'exec {PYTHON} -c "import os, time; {code}"'), memory=200)
    assert finished.cause == "exit"


@pytest.mark.parametrize(
    "script", ["yes > $TMPDIR/x", "mkdir $TMPDIR/a; i=0; while :; do i=$((i+1)); : > $TMPDIR/a/$i; done"]
)
async def test_temporary_files_of_a_reading_command_are_limited(start: Start, script: str) -> None:
    launch = await start(script)
    folder = launch.environment.get("TMPDIR")
    if folder is None:
        pytest.skip("the sandbox's commands may fill the project as well")
    finished, _ = await run(launch, folder_size=10)
    assert (finished.cause, finished.exceeded) == ("limit", "10 MB of temporary files")
    assert trees.wait_for(lambda: not os.path.lexists(folder))


async def test_temporary_files_end_with_the_command(start: Start) -> None:
    launch = await start("echo x > ${TMPDIR:-/tmp}/x; cat ${TMPDIR:-/tmp}/x")
    finished, output = await run(launch)
    assert (finished.exit_code, output) == (0, "x\n")
    folder = launch.environment.get("TMPDIR")
    assert folder is None or trees.wait_for(lambda: not os.path.lexists(folder))


def test_usual_memory_is_less_than_the_machines() -> None:
    assert 0 < default_memory() * 1_000_000 < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


async def test_unlimited_command_is_left_alone() -> None:
    finished = await run_tree(
        trees.bash("for i in $(seq 30); do sleep 0.3 & done; wait"),
        cwd="/",
        marker=trees.marker(),
        on_output=lambda _: None,
        limits=ResourceLimits(processes=50, memory=1_000),
    )
    assert finished.cause == "exit"


# ---- system calls ----------------------------------------------------------------------------------------------------

_TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
    print(libc.ptrace(request, 1, 0, 0))
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
part = Part(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
print(libc.process_vm_readv(1, ctypes.byref(part), 1, ctypes.byref(part), 1, 0), ctypes.get_errno() == 1)
print(os.listdir("/proc/1"))
"""
# An address that is not there, in the first process.
_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
part = (ctypes.c_size_t * 2)(8, 8)
libc.process_vm_readv(1, part, 1, part, 1, 0)
print(ctypes.get_errno())
"""
_CALLS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
for numbers in ((250, 219), (425, 425), (321, 280), (298, 241), (323, 282), (438, 438)):
    libc.syscall(numbers[column], -1, 0, 0, 0, 0)
    print(ctypes.get_errno())
for family in (40, 17, 38):  # AF_VSOCK, AF_PACKET, AF_ALG
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print("made")
    except PermissionError as error:
        print(error.errno)
"""
_ORDINARY = """
import os, socket, subprocess, threading, tempfile
from concurrent.futures import ProcessPoolExecutor
thread = threading.Thread(target=print, args=("thread",))
thread.start()
thread.join()
a, b = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
local = socket.socket(socket.AF_UNIX)
local.bind(tempfile.mkdtemp() + "/s")
with ProcessPoolExecutor(2) as pool:
    print(*pool.map(abs, (-1, -2)))
print(subprocess.run(["sh", "-c", "echo child"], capture_output=True, text=True, start_new_session=True).stdout)
os.memfd_create("x")
"""


async def python(start: Start, tmp_path: Path, code: str) -> tuple[FinishedProcess, str]:
    (tmp_path / "code.py").write_text(code)
    return await run(await start(f"exec {PYTHON} {tmp_path}/code.py"))


async def test_first_process_can_not_be_traced(start: Start, tmp_path: Path) -> None:
    if (await start("true")).keepers == 0:
        pytest.skip("bubblewrap's")
    _, output = await python(start, tmp_path, _TRACE)
    assert output.splitlines() == ["-1", "-1", "-1 True", "[]"]


async def test_calls_that_reach_into_the_kernel_are_refused(start: Start, tmp_path: Path) -> None:
    if (await start("true")).environment:
        pytest.skip("the reader box refuses more, see test_box_calls")
    _, output = await python(start, tmp_path, _CALLS)
    assert output.split() == [str(errno.EPERM)] * 9


async def test_only_the_filter_refuses_those_calls(start: Start, tmp_path: Path) -> None:
    if (await start("true")).keepers == 0:
        pytest.skip("bubblewrap's")
    (tmp_path / "code.py").write_text(_MEMORY + _CALLS)
    launch = await start(f"exec {PYTHON} {tmp_path}/code.py")
    _, filtered = await run(launch)
    _, unfiltered = await run(attrs.evolve(launch, confine=keep_privileges_low))
    assert filtered.split()[0] == str(errno.EPERM)
    assert unfiltered.split()[0] != str(errno.EPERM)
    assert unfiltered.split().count(str(errno.EPERM)) < filtered.split().count(str(errno.EPERM))


async def test_only_the_empty_folder_hides_the_first_process(start: Start) -> None:
    launch = await start("ls /proc/1")
    words = list(launch.argv)
    if launch.keepers == 0:
        pytest.skip("bubblewrap's")
    place = words.index("--tmpfs")
    assert words[place : place + 4] == ["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
    _, output = await run(attrs.evolve(launch, argv=[*words[:place], *words[place + 4 :]]))
    assert "environ" in output


async def test_ordinary_programs_go_on_working(start: Start, tmp_path: Path) -> None:
    if (await start("true")).environment:
        pytest.skip("the reader box refuses sockets")
    finished, output = await python(start, tmp_path, _ORDINARY)
    assert (finished.exit_code, output.split()) == (0, ["thread", "1", "2", "child"]), output
