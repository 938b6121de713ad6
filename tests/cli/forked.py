"""`engine …` as a process without the second that Python takes to import it: forked by one that has done so.

`python -m tests.cli.forked` answers on the socket that is its standard input: each request is JSON with up to three
descriptors, and each reply is the exit code. A child is a process like any other: it has the streams, the folder and the
environment of the request, a session of its own, and runs `main` from the beginning. With the path of a socket, it answers
whoever connects, several at a time: `ENGINE_PROGRAM` is an `engine` for scripts of the shell.
"""

import atexit
import fcntl
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import attrs

from tests.cli.processes import REPOSITORY, Command

_MAX_REQUEST = 1_000_000
# A run that hangs is a failure of what it tests, not of the machine.
_SECONDS = 60


@attrs.frozen
class Ended:
    """How a process has ended. Streams that went elsewhere are empty."""

    code: int
    stdout: bytes
    stderr: bytes


class Forks:
    """Starts processes, one after the other."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forked"], cwd=REPOSITORY, stdin=theirs.fileno()
        )
        theirs.close()

    def close(self) -> None:
        self._ours.close()
        self._server.wait(_SECONDS)

    def run(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
    ) -> Ended:
        """Run `engine ARGUMENTS` to its end. A stream is a descriptor, `DEVNULL`, `PIPE` (it is returned) or None: closed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("r+b") as null:
            files: dict[int, IO[bytes]] = {1: out, 2: err}

            def descriptor(number: int, stream: int | None) -> int | None:
                # A file in the place of a pipe: nobody has to read it meanwhile.
                return (
                    null.fileno()
                    if stream == subprocess.DEVNULL
                    else files[number].fileno()
                    if stream == -1
                    else stream
                )

            streams = [descriptor(number, stream) for number, stream in enumerate((stdin, stdout, stderr))]
            request = {
                "arguments": arguments,
                "cwd": str(cwd),
                "env": dict(env),
                "open": [number for number, stream in enumerate(streams) if stream is not None],
            }
            socket.send_fds(self._ours, [json.dumps(request).encode()], [one for one in streams if one is not None])
            self._ours.settimeout(_SECONDS)
            code = int(self._ours.recv(_MAX_REQUEST))
            out.seek(0)
            err.seek(0)
            return Ended(code, out.read(), err.read())


@cache
def shared_forks() -> Forks:
    """Return the one of this process of the test run; it ends with it."""
    forks = Forks()
    atexit.register(forks.close)
    return forks


def run_engine(
    *arguments: str, cwd: Path, env: Mapping[str, str], stdin: str | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `engine ARGUMENTS` to its end as a forked process; *stdin* comes through a pipe."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    if data is None:
        ended = shared_forks().run(*arguments, cwd=cwd, env=env)
    else:
        reader, writer = os.pipe()
        thread = threading.Thread(target=_write, args=(writer, data))
        thread.start()
        ended = shared_forks().run(*arguments, cwd=cwd, env=env, stdin=reader)
        os.close(reader)
        thread.join()
    return subprocess.CompletedProcess(arguments, ended.code, ended.stdout.decode(), ended.stderr.decode())


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as file:
        file.write(data)


# `engine` for a script: it passes on its arguments, folder, environment and streams, and ends as the forked process does.
ENGINE_PROGRAM = """#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({path!r})
request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ), "open": [0, 1, 2]}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
for number in range(3):
    os.close(number)
connection.recv(100)
code = int(connection.recv(100))
os._exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def fork_server(folder: Path, *options: str) -> Generator[str]:
    """Let a process fork others in the block; return the path of its socket."""
    path = str(folder / "forks")
    arguments = [sys.executable, *options, "-m", "tests.cli.forked", path]
    with subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline()
            yield path
        finally:
            server.kill()


@contextmanager
def forking_engine(folder: Path) -> Generator[str]:
    """Return the text of a program `engine`, which works in the block."""
    with fork_server(folder, "-W", "error") as path:
        yield ENGINE_PROGRAM.format(python=sys.executable, path=path)


class Fork:
    """`engine ARGUMENTS` as a forked process, with what the tests use of `subprocess.Popen`."""

    def __init__(
        self,
        path: str,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        script: Path | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(path)
        request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "open": [0, 1, 2]}
        if script is not None:
            request["script"] = str(script)
        socket.send_fds(self._connection, [json.dumps(request).encode()], streams)
        self.pid = int(self._connection.recv(100))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("engine", timeout or 0.0)
            self.returncode = int(self._connection.recv(100))
            self._connection.close()
        return self.returncode


def run_script(path: str, script: Path, *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program in Python to its end as a forked process of the server at *path*."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as null:
        fork = Fork(path, (), cwd, env, (null.fileno(), out.fileno(), err.fileno()), script=script)
        try:
            code = fork.wait(_SECONDS)
        finally:
            fork.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([str(script)], code, out.read().decode(), err.read().decode())


class ForkedCommand(Command):
    """The same in a forked process: it does not import the engine again."""

    def __init__(
        self, path: str, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], terminal: bool = False
    ) -> None:
        self._path = path
        super().__init__(arguments, cwd=cwd, env=env, terminal=terminal, program=())

    def _start(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, output: int) -> Fork:
        with Path(os.devnull).open("rb") as null:
            first = null.fileno() if stdin == subprocess.DEVNULL else stdin
            return Fork(self._path, command, cwd, env, (first, output, output))


def serve() -> None:
    """Answer on one connection, one request after the other."""
    connection = socket.socket(fileno=0)
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
        if not data:
            return
        connection.send(str(_end(*_fork(data, descriptors))).encode())


def listen(path: str) -> None:
    """Answer whoever connects, for ever; several may run at a time, as in a pipe of the shell."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"open\n")
        while True:
            for ready in select.select([listener.fileno(), *running], [], [])[0]:
                if ready == listener.fileno():
                    connection = listener.accept()[0]
                    data, descriptors, _, _ = socket.recv_fds(connection, _MAX_REQUEST, 3)
                    child, reader = _fork(data, descriptors)
                    running[reader] = child, connection
                    connection.send(str(child).encode())
                else:
                    child, connection = running.pop(ready)
                    with connection, suppress(BrokenPipeError):  # whoever asked may be gone
                        connection.send(str(_end(child, ready)).encode())


def _fork(data: bytes, descriptors: Sequence[int]) -> tuple[int, int]:
    """Start a child; return it, and where it will say what it has imported."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run(json.loads(data), descriptors, writer)
    for descriptor in (*descriptors, writer):
        os.close(descriptor)
    return child, reader


def _end(child: int, reader: int) -> int:
    """Wait for a child; return its exit code."""
    with os.fdopen(reader) as names:
        # What one child has imported, the next ones need not. No import starts a thread, which a fork would lose.
        for name in names.read().split():
            with suppress(ImportError):
                import_module(name)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(request: Mapping[str, Any], descriptors: Sequence[int], report: int) -> None:
    """Become `engine …`, and report what it has imported. Never returns."""
    code, loaded = 70, set(sys.modules)
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in descriptors]
        os.closerange(0, 3)
        for number, descriptor in zip(request["open"], high, strict=True):
            os.dup2(descriptor, number)
        for number in range(3, 200):
            if number != report:
                with suppress(OSError):
                    os.close(number)
        terminal = next((number for number in request["open"] if os.isatty(number)), None)
        if terminal is not None:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        sys.stdin, sys.stdout, sys.stderr = (_stream(number, number in request["open"]) for number in range(3))
        code = _run_as_main(request["script"]) if "script" in request else _run_engine(request["arguments"])
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.write(report, "\n".join(set(sys.modules) - loaded).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _run_engine(arguments: Sequence[str]) -> int:
    sys.argv = ["engine", *arguments]
    from engine.cli.main import main

    return main()


def _run_as_main(script: str) -> int:
    # As `python SCRIPT` does it.
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _stream(number: int, is_open: bool) -> Any:
    # As Python does it when it starts.
    if not is_open:
        return None
    mode = "r" if number == 0 else "w"
    return io.TextIOWrapper(open(number, f"{mode}b", closefd=False), "utf-8", line_buffering=number == 2)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        listen(sys.argv[1])
    else:
        serve()
