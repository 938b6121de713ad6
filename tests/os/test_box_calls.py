"""System calls by which a command in the reader box could reach what is outside of it, and which no program names."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from engine.sandbox.backends import choose_backend
from engine.sandbox.reader import Backend
from engine.sandbox.seccomp import machine, seccomp_filter
from tests.os.test_reader_box import CANARY, PYTHON, Place, run
from tests.os.test_reader_box import backend as backend  # noqa: PLC0414  # a fixture
from tests.os.test_reader_box import place as place  # noqa: PLC0414  # a fixture
from tests.os.test_reader_box import short_path as short_path  # noqa: PLC0414  # a fixture

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

_PRIORITY = "import os; os.setpriority(os.PRIO_USER, 0, 1)"
_DATAGRAMS = """
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.SOCK_RAW):
    try:
        socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", "datagrams")
    except OSError:
        pass
a, b = socket.socketpair()
a.send(b"streams work")
print(b.recv(99).decode())
try:
    socket.socket(40, socket.SOCK_STREAM)  # AF_VSOCK: the machine that runs this one
    print("vsock")
except OSError:
    pass
"""
# CLONE_PARENT: the new process is a child of the engine's, which never waits for it.
_CHILD = """
import ctypes, os, signal
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
if ctypes.CDLL(None).syscall(number, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    os.write(1, b"parent %d\\n" % os.getppid())
    os._exit(0)
"""
# BTRFS_IOC_SUBVOL_CREATE, FS_IOC_ENABLE_VERITY, FS_IOC_SET_ENCRYPTION_POLICY, EXT4_IOC_MIGRATE, FIOSETOWN, TIOCSTI.
_CONTROLS = """
import ctypes, os
libc, opened = ctypes.CDLL(None, use_errno=True), os.open(".", os.O_RDONLY)
for number in (0x5000940E, 0x40806685, 0x800C6613, 0x6609, 0x8901, 0x5412):
    libc.ioctl(opened, ctypes.c_ulong(number), ctypes.create_string_buffer(8192))
    print(ctypes.get_errno())
"""
_OWNER = """
import fcntl, os, sys
from engine.sandbox.seccomp import drop_privileges, install_filter
drop_privileges()
install_filter(sys.stdin.buffer.read())
opened, _ = os.pipe()
for control in (fcntl.F_SETOWN, fcntl.F_SETSIG, 15):
    try:
        fcntl.fcntl(opened, control, os.getppid() if control == fcntl.F_SETOWN else bytes(8) if control == 15 else 9)
    except OSError as error:
        print(error.errno)
"""


async def _python(place: Place, backend: Backend, code: str) -> str:
    (place.project / "code.py").write_text(code)
    _, output = await run(place.launch(backend, f"exec {PYTHON} code.py"), place)
    return output


async def test_priority_of_all_processes_of_the_user(backend: Backend, place: Place) -> None:
    before = place.state()["victim"], os.getpriority(os.PRIO_PROCESS, 0)
    await _python(place, backend, _PRIORITY)
    assert (place.state()["victim"], os.getpriority(os.PRIO_PROCESS, 0)) == before


async def test_datagrams_through_a_pair_of_sockets(backend: Backend, place: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(place.project / "datagrams"))
        listener.setblocking(False)
        assert await _python(place, backend, _DATAGRAMS) == "streams work\n"
        with pytest.raises(BlockingIOError):
            listener.recv(99)


async def test_child_of_the_engine(backend: Backend, place: Place) -> None:
    output = await _python(place, backend, _CHILD)
    assert f"parent {os.getpid()}\n" not in output


async def test_controls_of_files_that_are_open_for_reading(place: Place) -> None:
    """Some change the file, or make a folder. In namespaces all is mounted for reading only."""
    if (await choose_backend("landlock")).backend is None:
        pytest.skip("landlock does not work here")
    output = await _python(place, "landlock", _CONTROLS)
    assert output.split() == [str(errno.EPERM)] * 6


def test_signals_by_way_of_files() -> None:
    """Landlock keeps them inside, from Linux 6.12 on."""
    kind = machine()
    if kind is None:
        pytest.skip("an unknown machine")
    program = seccomp_filter(kind, is_reader=True, network=False, refuses_signals=True)
    ran = subprocess.run([sys.executable, "-c", _OWNER], input=program, capture_output=True, check=True)
    assert ran.stdout.split() == [b"%d" % errno.EPERM] * 3


async def test_place_that_became_a_link(backend: Backend, place: Place) -> None:
    """Between the judgement of its real path and the start."""
    link = place.root / "outside/opened"
    link.symlink_to(place.root / "home/.ssh")
    script = place.script("cat {outside}/opened/id_rsa {home}/.ssh/id_rsa")
    _, output = await run(place.launch(backend, script, str(link)), place)
    assert CANARY not in output


async def test_hidden_files_below_a_place_that_a_rule_opens(backend: Backend, place: Place) -> None:
    (place.root / "home/notes").write_text("shown\n")
    script = place.script("cat {home}/.ssh/id_rsa; cat {home}/notes")
    _, output = await run(place.launch(backend, script, str(place.root / "home")), place)
    assert CANARY not in output
    assert "shown" in output
    named = str(place.root / "home/.ssh")
    _, output = await run(place.launch(backend, script, named), place)
    assert CANARY in output
