"""Commands that are hard to get rid of, and ways to see whether one got rid of them.

Every process of them has a token in its command line, so that these tests find
what is left without the means of the code they test.
"""

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

from engine.process.kill_tree import find_marked

MARKERS = f"test{os.getpid()}-"
# Not the link in a virtual environment: where the checkout is in /tmp, a sandbox with a private /tmp hides the link.
PYTHON = os.path.realpath(sys.executable)
_TOKENS = f"86400.{os.getpid():08d}"  # `sleep` takes it for a little more than a day
_numbers = itertools.count(1)

# Double fork, a session of its own, nothing inherited, and deaf to all that can be ignored.
_DAEMON = """
import os, signal, sys, time
if os.fork():
    time.sleep(float(sys.argv[2]))
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
os.chdir("/")
os.write(1, b"ready\\n")
os.closerange(0, 3)
os.execvp("sleep", ["sleep", sys.argv[1]])
"""
# Its first thread ends, so that it looks like a zombie and is none.
_HEADLESS = """
import ctypes, os, sys, threading, time
threading.Thread(target=time.sleep, args=(float(sys.argv[1]),)).start()
os.write(1, b"ready\\n")
ctypes.CDLL(None).pthread_exit(None)
"""
# Each process lives for an instant only, in a session of its own, and leaves a child: a thousand times, so that one that
# got away does not slow down for ever what comes after.
_HOPPER = "use POSIX; $| = 1; print qq(ready\\n); for (1..1000) { fork && POSIX::_exit(0); setsid(); select(undef, undef, undef, 0.002) }"

# {t} is the token. Each says "ready" as soon as it can't be got rid of easily.
STUBBORN = {
    "plain": "echo ready; sleep {t}",
    "ignores TERM": "trap '' TERM; echo ready; sleep {t}; sleep {t}",
    "children": "for i in 1 2 3 4 5; do sleep {t} & done; echo ready; wait",
    "children who ignore TERM": "trap '' TERM; for i in 1 2 3; do (sleep {t}; sleep {t}) & done; echo ready; wait",
    "setsid": "setsid sleep {t} & echo ready; wait",
    "setsid, ignores TERM": "trap '' TERM; setsid sleep {t} & echo ready; wait",
    "nohup": "nohup sleep {t} >/dev/null 2>&1 & echo ready; wait",
    "group of its own": "set -m; sleep {t} & echo ready; wait",
    "group of its own, wiped environment, parent gone": (
        "bash -c 'set -m; env -i sleep {t} >/dev/null & :'; echo ready; sleep {t}"
    ),
    "stopped": "sleep {t} & kill -STOP $!; echo ready; wait",
    "leader stopped": "sleep {t} & echo ready; kill -STOP $$",
    "wiped environment": "env -i sleep {t} & echo ready; wait",
    "wiped environment, setsid, parent lives": "env -i setsid sleep {t} & sleep 0.05; echo ready; wait",
    "daemon": f"exec {PYTHON} -c '{_DAEMON}' {{t}} 86400",
    "daemon, parent gone": f"{PYTHON} -c '{_DAEMON}' {{t}} 0; sleep {{t}}",
    "headless": f"exec {PYTHON} -c '{_HEADLESS}' 86400 {{t}}",
    "hopper": f"perl -e '{_HOPPER}' {{t}} & sleep {{t}}",
    "writes for ever": "echo ready; yes {t}",
    "fills the pipe of nobody": "setsid yes {t} & echo ready; sleep {t}",
}


def token() -> str:
    """Return a duration for `sleep` that no other command uses."""
    return f"{_TOKENS}{next(_numbers):05d}"


def marker() -> str:
    """Return a marker that no other call uses."""
    return f"{MARKERS}{next(_numbers)}"


def bash(script: str, **names: str) -> list[str]:
    """Return the argv that runs *script*, a {t} in it filled in."""
    for name, value in {"t": token(), **names}.items():
        script = script.replace(f"{{{name}}}", value)
    return ["bash", "-c", script]


def alive(text: str = _TOKENS) -> list[int]:
    """Return the processes with *text* in their command line. A zombie has none."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def children() -> set[int]:
    """Return the children of this process, zombies included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def open_files() -> dict[str, str]:
    """Return the open file descriptors of this process."""
    files: dict[str, str] = {}
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them
            target = str(fd.readlink())
            # One file is kept open for the life of a process, from its first patch on.
            if "/engine-staging-" not in target:
                files[fd.name] = target
    return files


@contextlib.contextmanager
def nothing_left() -> Generator[None]:
    """Fail if the block leaves a process, a zombie or an open file. The processes are killed: the next block begins anew."""
    files, family = open_files(), children()
    try:
        yield
        # At once, without a wait: run_tree promises that they are gone when it returns.
        assert alive() == []
        assert find_marked(lambda mark: mark.startswith(MARKERS)) == []
        assert children() <= family
        # A thread of the engine that was abandoned may hold a file for a moment.
        assert wait_for(lambda: not open_files().items() - files.items()), open_files().items() - files.items()
    finally:
        for pid in {*alive(), *(stray.pid for stray in find_marked(lambda mark: mark.startswith(MARKERS)))}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait, blocking, until *condition* holds; return whether it does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.005)
    return False
