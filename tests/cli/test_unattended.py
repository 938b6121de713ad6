"""`engine run` where nobody watches: over a real `ssh -T`, and with as little environment as cron gives."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.cli.conftest import StartWithInput, environment_for
from tests.cli.forked import forking_engine
from tests.cli.processes import REPOSITORY, Command, await_sleepers, token

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
# Where a server that is started by root has to find an empty folder.
PRIVILEGES = Path("/run/sshd")
CAN_LOG_IN = bool(SSHD and shutil.which("ssh")) and (os.geteuid() != 0 or PRIVILEGES.is_dir())

WORDS = "from stdin"

pytestmark = pytest.mark.os
with_ssh = pytest.mark.skipif(not CAN_LOG_IN, reason="needs ssh, sshd and, as root, /run/sshd")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """An `engine` that need not import everything again."""
    folder = tmp_path_factory.mktemp("program")
    with forking_engine(folder) as text:
        (folder / "engine").write_text(text)
        (folder / "engine").chmod(0o700)
        yield folder / "engine"


@attrs.frozen
class Login:
    """A login to this machine, with a key and a server of the test's own; no port is open."""

    folder: Path
    program: Path
    host: str

    def command(self, *arguments: str, program: str = "") -> list[str]:
        """Return `ssh -T`, with `engine ARGUMENTS` as what runs at the other end."""
        variables = environment_for(self.host, self.folder)
        settings = [f"{name}={value}" for name, value in variables.items()]
        remote = ["cd", str(self.folder), "&&", "exec", "env", *map(shlex.quote, settings)]
        return [
            *("ssh", "-T", "-F", "none", "-i", str(self.folder / "key")),
            *("-o", f"ProxyCommand={SSHD} -i -f {self.folder / 'sshd_config'}"),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *("-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "this-machine"),
            " ".join([*remote, str(self.program), *map(shlex.quote, arguments)]),
        ]


@pytest.fixture
def login(tmp_path: Path, program: Path, host: str) -> Login:
    for name in ("key", "host_key") if CAN_LOG_IN else ():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "sshd_config").write_text(
        f"HostKey {tmp_path}/host_key\nAuthorizedKeysFile {tmp_path}/key.pub\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
    )
    return Login(tmp_path, program, host)


def finished(
    command: list[str], stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env=env,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@with_ssh
def test_ssh_gets_the_answer_and_the_code(login: Login) -> None:
    code, output, errors = finished(login.command("run", "say Hällo.", "--ephemeral"))
    assert (code, output) == (0, "Hällo.\n"), errors
    assert "\x1b" not in errors
    code, output, errors = finished(login.command("run", "write", "--ephemeral"))
    assert code == 3, errors
    assert "2 tool calls denied: no terminal to ask." in errors


@with_ssh
def test_input_comes_over_ssh(login: Login) -> None:
    data = "zwölf\n" * 30_000
    command = login.command("run", "say Hi.", "--ephemeral", "--output", "json")
    code, output, errors = finished(command, data.encode())
    record = json.loads(output)
    assert (code, record["stdin"]) == (0, {"state": "read", "bytes": len(data.encode())}), errors
    assert record["text"].count("zwölf") == 30_000


@with_ssh
def test_lost_ssh_ends_the_command(login: Login) -> None:
    sleeper = token()
    with subprocess.Popen(
        login.command("run", "--yes", f"tree {sleeper}"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as ssh:
        await_sleepers(sleeper, 3)
        ssh.kill()
    await_sleepers(sleeper, 0)


@pytest.mark.slow
def test_input_that_never_comes_does_not_hang(
    engine_with_input: StartWithInput, login: Login, tmp_path: Path, *, is_full: bool
) -> None:
    """A parent that never closes, by itself and over ssh; a fifo without a writer; an open socket; and a slow writer."""
    os.mkfifo(tmp_path / "fifo")
    ours, theirs = socket.socketpair()
    pipe, remote, late = os.pipe(), os.pipe(), os.pipe()
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    arguments = ("run", "say Hi.", "--output", "json", "--ephemeral")
    with ours, theirs, ExitStack() as stack:
        # All wait at the same time.
        commands = {"pipe": engine_with_input(pipe[0], *arguments), "late": engine_with_input(late[0], *arguments)}
        if is_full:
            commands["fifo"] = engine_with_input(fifo, *arguments)
            commands["socket"] = engine_with_input(theirs.fileno(), *arguments)
        if CAN_LOG_IN:
            ssh = Command(login.command(*arguments), cwd=tmp_path, env={}, stdin=remote[0], program=())
            commands["ssh"] = stack.enter_context(ssh)
        commands["late"].read_until("waiting for standard input")
        # It says so after a second, and waits for ten.
        os.write(late[1], WORDS.encode())
        os.close(late[1])
        for name, command in commands.items():
            assert command.wait() == 0, command.output
            record = json.loads(next(line for line in command.output.splitlines() if line.startswith("{")))
            is_late = name == "late"
            assert record["stdin"] == {"state": "read" if is_late else "timeout", "bytes": len(WORDS) if is_late else 0}
            assert (WORDS in record["text"]) == is_late
            assert ("standard input sent nothing for 10 s" in command.output) != is_late
    for descriptor in (*pipe, *remote, late[0], fifo):
        os.close(descriptor)


@pytest.mark.parametrize("has_home", [True, False])
def test_environment_of_cron_is_enough(host: str, tmp_path: Path, *, has_home: bool) -> None:
    """As cron starts it: a shell, a pipe that is closed at once, and no terminal, language or home of the user's own."""
    (tmp_path / "home").mkdir()
    env = {
        "PATH": "/usr/bin:/bin",
        "SHELL": "/bin/sh",
        "LOGNAME": "root",
        "PYTHONPATH": str(REPOSITORY),
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": host,
        **({"HOME": str(tmp_path / "home")} if has_home else {"XDG_DATA_HOME": str(tmp_path / "data")}),
    }
    command = ["/bin/sh", "-c", f"cd {shlex.quote(str(tmp_path))} && {sys.executable} -m engine run 'say Hällo.'"]
    code, output, errors = finished(command, b"", env)
    assert (code, output) == (0, "Hällo.\n"), errors
    assert "\x1b" not in errors
    assert [path.name for path in tmp_path.rglob("sessions.db")] == ["sessions.db"]
