"""`engine doctor`: each check on a machine that works and on one that does not, the time limit, the bundle."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.cli.doctor.config_checks import check_state, check_store
from engine.cli.doctor.doctor import run_checks
from engine.cli.doctor.machine_checks import check_clipboard, check_sandbox, check_terminal
from engine.cli.main import main
from engine.config.config import Config
from engine.config.sandbox_config import Sandbox

KEY = "sk-canary-doctor-2718281828"


@attrs.frozen
class Shell:
    """Runs `engine doctor` in this process, with folders of its own."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> tuple[int, dict[str, list[CheckResult]], str]:
        code = main(["doctor", "--json", *words])
        shown = self.capture.readouterr()
        assert KEY not in shown.out + shown.err
        findings: dict[str, list[CheckResult]] = {}
        for row in json.loads(shown.out or "[]"):
            findings.setdefault(row["name"], []).append(CheckResult(**row))
        return code, findings, shown.err

    def configure(self, text: str) -> None:
        (self.folder / "config/engine").mkdir(parents=True, exist_ok=True)
        (self.folder / "config/engine/config.toml").write_text(text)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in os.environ:
        if name.endswith(("_KEY", "_TOKEN", "_PAT")) or name in {"ENGINE_CONFIG", "ENGINE_STORE"}:
            monkeypatch.delenv(name)
    for name, folder in (("HOME", ""), ("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return Shell(tmp_path, capsys)


@pytest.mark.os
def test_empty_home_has_nothing_to_mend(shell: Shell) -> None:
    code, findings, _ = shell.run()
    assert code == 0
    assert {"version", "python", "config", "project", "keys", "store", "state", "git", "rg", "sandbox", "limits"} <= {
        *findings
    }
    assert findings["keys"] == [
        CheckResult("keys", "warn", "no provider has a key; a local model needs none", "engine auth add HOST")
    ]


@pytest.mark.os
def test_text_names_the_command_that_mends(shell: Shell) -> None:
    shell.configure("[defaults]\nmodle = 1\n")
    assert main(["doctor"]) == 1
    out = shell.capture.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(out) if line.startswith("fail  config"))
    assert "config.toml:2: unknown key defaults.modle: did you mean model?" in out[place]
    assert out[place + 1].split(maxsplit=1) == ["Next:", "engine config check"]


@pytest.mark.os
def test_untrusted_project_and_unknown_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_MODLE", "x")
    own = shell.folder / "project/.engine/config.toml"
    own.parent.mkdir()
    own.write_text('[checkers.x]\ncommand = ["x"]\npatterns = ["*"]\n')
    code, findings, _ = shell.run()
    assert code == 0
    assert findings["environment"][0].state == "warn"
    (project,) = findings["project"]
    assert (project.state, project.next) == ("warn", f"engine permissions trust {shell.folder}/project")


class Provider(BaseHTTPRequestHandler):
    """A provider: accepts one key, and its clock may be wrong."""

    skew = 0.0

    def do_GET(self) -> None:
        self.send_response_only(200 if self.headers["authorization"] == f"Bearer {KEY}" else 401)
        self.send_header("date", formatdate(formatdate_now() + self.skew, usegmt=True))
        self.send_header("content-type", "text/html" if self.path.startswith("/page") else "application/json")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class calls it
        """Print nothing."""


def formatdate_now() -> float:
    import time

    return time.time()


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.os
@pytest.mark.parametrize(
    ("path", "key", "skew", "state", "text", "next_"),
    [
        ("", KEY, 0.0, "ok", "the list of models was read", ""),
        ("", "sk-wrong", 0.0, "fail", "the key was rejected (401)", "engine auth add lab"),
        ("/page", KEY, 0.0, "fail", "a web page answered", "engine config explain hosts.lab.base_url"),
        ("", KEY, 3_600.0, "ok", "the list of models was read", ""),
    ],
)
def test_providers(
    shell: Shell,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    key: str,
    skew: float,
    state: str,
    text: str,
    next_: str,
) -> None:
    monkeypatch.setenv("LAB_KEY", key)
    monkeypatch.setattr(Provider, "skew", skew)
    shell.configure(f'[hosts.lab]\nwire = "openai_chat"\nbase_url = "{url}{path}"\nkey = "LAB_KEY"\n')
    code, findings, _ = shell.run("lab")
    (found,) = findings["provider lab"]
    assert (found.state, found.next) == (state, next_)
    assert text in found.text
    clock = findings.get("clock", [])
    assert [(one.state, "60 min behind" in one.text) for one in clock] == ([("fail", True)] if skew else [])
    assert code == int(state == "fail" or bool(skew))


@pytest.mark.os
def test_provider_that_does_not_listen(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shell.configure(
            f'[hosts.lab]\nwire = "openai_chat"\nbase_url = "http://127.0.0.1:{free.getsockname()[1]}/v1"\nkey = "LAB_KEY"\n'
        )
        code, findings, _ = shell.run()
    (found,) = findings["provider lab"]
    assert (code, found.state) == (1, "fail")
    assert "Nothing listens" in found.text


@pytest.mark.os
def test_unknown_provider_is_wrong_usage(shell: Shell) -> None:
    code, findings, err = shell.run("opnai")
    assert (code, findings) == (2, {})
    assert "unknown provider 'opnai': did you mean openai" in err


@pytest.mark.os
def test_bundle_holds_no_secret(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    shell.configure(
        '[hosts.lab]\nwire = "openai_chat"\nbase_url = "http://internal.example:1/v1"\nkey = "LAB_KEY"\n'
        f'headers = {{ x-team = "secret-team" }}\n[agents.mine]\nsystem = "private words"\ndescription = "{KEY}"\n'
    )
    _, _, err = shell.run("--bundle", "ollama")
    (file,) = (shell.folder / "project").glob("engine-doctor-*.json")
    assert f"Wrote {file}. Read it before you send it.\n" in err
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    for hidden in (KEY, str(shell.folder), "internal.example", "secret-team", "private words"):
        assert hidden not in text
    document = json.loads(text)
    assert document["configuration"]["hosts"]["lab"]["base_url"] == "[hidden]"
    assert document["findings"]


@pytest.mark.os
def test_store(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    assert check_store(str(path))[-1].text == f"{path} does not exist yet"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(f"text {number}" * 50,) for number in range(200)])
    connection.close()
    assert (check_store(str(path))[-1].state, check_store(":memory:")[-1].text) == ("ok", "nothing is saved")
    path.write_bytes(path.read_bytes()[:100] + b"\x00" * 5_000 + path.read_bytes()[5_100:])
    damaged = check_store(str(path))[-1]
    assert (damaged.state, damaged.next) == ("fail", f"engine sessions repair --store {path}")


@pytest.mark.os
def test_state_is_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert check_state(folder) == [CheckResult("state", "ok", f"{folder} does not exist yet")]
    folder.mkdir()
    folder.chmod(0o755)
    assert check_state(folder) == [CheckResult("state", "ok", str(folder))]
    folder.chmod(0o775)
    (found,) = check_state(folder)
    assert (found.state, found.next) == ("fail", f"chmod go-w {folder}")
    (tmp_path / "file").touch()
    assert check_state(tmp_path / "file" / "engine")[0].text == f"{tmp_path / 'file'} is not a directory"


@pytest.mark.os
@pytest.mark.usefixtures("not_root")
def test_what_can_not_be_written_fails(tmp_path: Path) -> None:
    folder, path = tmp_path / "state", tmp_path / "data" / "sessions.db"
    for each in (folder, path.parent):
        each.mkdir()
    sqlite3.connect(path).close()
    for each in (folder, path.parent):
        each.chmod(0o500)
    (state,), store = check_state(folder), check_store(str(path))[-1]
    assert [one.state for one in (state, store)] == ["fail", "fail"]
    assert [one.next for one in (state, store)] == [f"chmod u+rwX {folder}", f"chmod u+rwX {path.parent}"]
    assert "can be listed and exported" in store.text


async def test_slow_check_is_a_warning(autojump_clock: trio.testing.MockClock) -> None:
    async def slow() -> CheckResults:
        await trio.sleep_forever()

    async def quick() -> CheckResults:
        await trio.lowlevel.checkpoint()
        return [CheckResult("quick", "ok", "done")]

    findings = await run_checks({"slow": slow, "quick": quick}, 4.0)
    assert findings == [
        CheckResult("slow", "warn", "not finished after 4 s", "engine doctor"),
        CheckResult("quick", "ok", "done"),
    ]


@pytest.mark.os
async def test_sandbox_that_is_off() -> None:
    (found,) = await check_sandbox(Config(sandbox=Sandbox(backend="off")))
    assert (found.state, found.next) == ("warn", "engine config unset sandbox.backend")


def test_terminal_and_clipboard() -> None:
    assert [one.name for one in check_terminal({})] == ["terminal"]
    assert all(one.name == "clipboard" for one in check_clipboard({}))


def test_language_servers_are_looked_for(shell: Shell) -> None:
    shell.configure(
        '[language_servers.here]\ncommand = ["sh"]\npatterns = ["*.sh"]\n'
        '[language_servers.gone]\ncommand = ["no-such-server"]\npatterns = ["*.py"]\n'
    )
    _, findings, _ = shell.run()
    (here,) = findings["language server here"]
    assert (here.state, here.text.endswith("/sh, for *.sh")) == ("ok", True)
    (gone,) = findings["language server gone"]
    assert (gone.state, gone.text) == ("warn", "there is no program no-such-server: files are edited without it")
    assert gone.next == "engine config explain language_servers.gone.command"
