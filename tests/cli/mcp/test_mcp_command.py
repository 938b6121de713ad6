"""`engine mcp`: servers are added, tried, approved and removed, as a user does it."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import time
from pathlib import Path

import attrs
import pytest

from engine.cli.main import main
from engine.config.mcp_config import McpOrigin, McpServer
from engine.mcp.oauth import LoginFile, StoredLogin
from engine.process.kill_tree import find_marked
from engine.process.procfs import is_alive
from tests.cli.conftest import Start

pytestmark = pytest.mark.os

LIAR = Path(__file__).parents[2] / "mcp/lying_server.py"


@attrs.frozen
class Shell:
    """Runs `engine mcp` in this process, in a project of a user's own."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    @property
    def file(self) -> Path:
        return self.folder / "config/engine/config.toml"

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["mcp", *arguments])
        shown = self.capture.readouterr()
        return code, shown.out, shown.err

    def listed(self) -> str:
        """What `list` shows, without the breaks of its lines."""
        return " ".join(self.run("list")[1].split())

    def liar(self, **options: object) -> list[str]:
        return [sys.executable, str(LIAR), json.dumps(options)]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("ENGINE_CONFIG", raising=False)
    for name in ("CONFIG", "STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return Shell(tmp_path, capsys)


def test_server_is_added_tried_approved_and_removed(shell: Shell, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "find", "description": "Finds.", "inputSchema": {"type": "object"}}]))
    assert shell.run("list") == (0, "No MCP servers are configured.\nNext: engine mcp add NAME -- COMMAND\n", "")
    code, out, _ = shell.run("add", "liar", "--env", "PATH", "--", *shell.liar(tools=str(tools)))
    assert (code, out) == (0, f"liar is added to {shell.file}\nNext: engine mcp approve liar\n")
    assert "no tools approved" in shell.listed()
    code, out, _ = shell.run("test", "liar")
    assert code == 0
    assert "liar 1 speaks MCP 2026-07-28: ready" in out
    assert "find (new: waits for your approval)" in out
    code, out, err = shell.run("approve", "liar")  # nobody is there to ask
    assert (code, "no terminal" in err, "+ Finds." in out) == (1, True, True)
    assert shell.run("approve", "liar", "--yes")[0] == 0
    assert "1 tool approved" in shell.listed()
    assert "waits" not in shell.run("test", "liar")[1]
    assert shell.run("approve", "liar") == (
        0,
        "liar 1 speaks MCP 2026-07-28: ready\nNothing has changed since you approved it.\n",
        "",
    )
    facts = json.loads(shell.run("list", "--json")[1])
    assert (facts[0]["approved"], facts[0]["era"]) == (["find"], "modern")
    assert shell.run("remove", "liar")[0] == 0
    assert shell.run("list")[1].startswith("No MCP servers")


def test_add_refuses_what_can_not_work(shell: Shell) -> None:
    assert shell.run("add", "x")[0] == 2
    assert shell.run("add", "x", "--url", "ftp://example.com")[0] == 2
    assert shell.run("add", "x y", "--", "true")[0] == 2
    assert shell.run("add", "x", "--url", "https://example.com/mcp", "--header", "no-value")[0] == 2
    assert not shell.file.exists()
    assert shell.run("add", "x", "--url", "https://example.com/mcp", "--header", "X-Key=${KEY}")[0] == 0
    assert "there is an MCP server 'x' already" in shell.run("add", "x", "--", "true")[2]
    assert '"X-Key" = "${KEY}"' in shell.file.read_text() or 'X-Key = "${KEY}"' in shell.file.read_text()


def test_removed_server_keeps_no_login(shell: Shell) -> None:
    url, file = "https://example.com/mcp", LoginFile.of_user()
    login = StoredLogin(url=url, issuer="i", token_endpoint="t", resource="r", client_id="c", access_token="secret")
    file.save(login)
    for name in ("one", "other"):
        assert shell.run("add", name, "--url", url)[0] == 0
    assert shell.run("remove", "one")[0] == 0
    assert file.load(url) == login
    assert shell.run("remove", "other")[0] == 0
    assert b"secret" not in file.path.read_bytes()


def test_failed_server_says_why(shell: Shell) -> None:
    shell.run("add", "gone", "--", "/no/such/program")
    code, out, _ = shell.run("test", "gone")
    assert code == 1
    assert "/no/such/program" in out
    shell.run("add", "ends", "--", *shell.liar(start="exit"))
    code, out, _ = shell.run("test", "ends")
    assert code == 1
    assert "I will not serve." in out
    assert "did you mean ends?" in shell.run("test", "end")[2]


def write_shared(command: str, arguments: list[str], **env: str) -> None:
    listed = {"mcpServers": {"theirs": {"command": command, "args": arguments, "env": env}}}
    Path(".mcp.json").write_text(json.dumps(listed))


def test_project_server_starts_only_once_approved(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command, *arguments = shell.liar(log=str(log))
    write_shared(command, arguments)
    assert "theirs" not in shell.run("list")[1]  # the project is not trusted
    assert main(["permissions", "trust"]) == 0
    shell.capture.readouterr()
    assert "named by the project" in shell.listed()
    code, out, _ = shell.run("test", "theirs")
    assert (code, "needs_approval" in out, log.exists()) == (1, True, False)
    code, out, err = shell.run("approve", "theirs")
    assert shlex.quote(command) in out
    assert (code, "no terminal" in err, log.exists()) == (1, True, False)
    assert shell.run("approve", "theirs", "--yes")[0] == 0
    assert shell.run("test", "theirs")[0] == 0
    write_shared(command, [*arguments, "more"])
    code, out, _ = shell.run("test", "theirs")
    assert (code, "needs_approval" in out) == (1, True)


def test_project_server_asks_for_a_variable_openly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "canary")
    command, *arguments = shell.liar()
    write_shared(command, arguments, HARMLESS="x")
    assert main(["permissions", "trust"]) == 0
    assert shell.run("approve", "theirs", "--yes")[0] == 0
    assert shell.run("test", "theirs")[0] == 0
    # The same names, but now it gets the user's variable.
    write_shared(command, arguments, HARMLESS="${MY_KEY}")
    code, out, _ = shell.run("test", "theirs")
    assert (code, "needs_approval" in out) == (1, True)
    code, out, _ = shell.run("approve", "theirs")
    assert (code, "variable: HARMLESS=${MY_KEY}" in out, "canary" in out) == (1, True, False)


def test_values_of_foreign_headers_belong_to_the_approval() -> None:
    def fingerprint(value: str, origin: McpOrigin) -> str:
        return McpServer(url="https://example.com/mcp", headers={"X-A": value}, origin=origin).fingerprint

    assert fingerprint("one", "project") != fingerprint("${KEY}", "project")
    assert fingerprint("one", "user") == fingerprint("two", "user")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_no_server(engine: Start, tmp_path: Path, number: signal.Signals) -> None:
    """A server that ignores the end of its input, below two shells that do not replace themselves."""
    script = f'sh -c \'{sys.executable} "$0" "$1"; true\' "$0" "$1"; true'
    table = {"command": "sh", "args": ["-c", script, str(LIAR), json.dumps({"stays": True})]}
    config = tmp_path / "no-config/engine/config.toml"
    config.parent.mkdir(parents=True)
    fields = "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
    config.write_text(f'[mcp]\nrequired = ["liar"]\nrequired_wait = 30\n[mcp.servers.liar]\n{fields}')
    command = engine("run", "--profile", "full", "bash echo started; sleep 100")
    command.read_until("started")
    ours = find_marked(lambda mark: mark.startswith("mcp.liar.") and f".{command.process.pid}." in mark)
    assert len(ours) == 3
    command.send(number)
    command.wait()
    end = time.monotonic() + 30
    while any(map(is_alive, ours)):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert "wait for your approval" in command.output
