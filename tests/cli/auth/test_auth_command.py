"""`engine auth`: keys are stored unseen, listed by their last characters, tested, removed and imported."""

from __future__ import annotations

import io
import json
import os
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import attrs
import pytest

from engine.cli.main import main

pytestmark = pytest.mark.os

KEY = "sk-typed-1234567890-4242"


@attrs.frozen
class Shell:
    """Runs `engine auth` in this process, with folders of its own."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    @property
    def file(self) -> Path:
        return self.folder / "data/engine/auth.json"

    def run(self, line: str, typed: str = "") -> tuple[int, str, str]:
        self.patch.setattr("sys.stdin", io.StringIO(typed))
        code = main(["auth", *shlex.split(line)])
        shown = self.capture.readouterr()
        assert KEY not in shown.out + shown.err
        return code, shown.out, shown.err


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in os.environ:
        if name.endswith(("_KEY", "_TOKEN", "_PAT")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("ENGINE_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Shell(tmp_path, capsys, monkeypatch)


def test_add_list_remove(shell: Shell) -> None:
    assert shell.run("list") == (0, "No keys.\nNext: engine auth add HOST\n", "")
    assert shell.run("add openai", f"{KEY}\n") == (0, f"Stored the key of openai (ends 4242) in {shell.file}\n", "")
    assert shell.file.stat().st_mode & 0o777 == 0o600
    assert shell.run("list") == (0, f"openai  auth file {shell.file}  ends 4242  added today\n", "")
    (row,) = json.loads(shell.run("list --json")[1])
    assert (row["host"], row["source"], row["ends"]) == ("openai", "auth file", "4242")
    shell.patch.setenv("OPENAI_API_KEY", "sk-variable-1234567890")
    assert shell.run("list")[1].splitlines()[0] == "openai       $OPENAI_API_KEY  ends 7890"
    assert shell.run("add openai", f"{KEY}\n")[2] == "OPENAI_API_KEY is set, and counts before the stored key.\n"
    assert shell.run("remove openai") == (0, "Removed the stored key of openai\n", "")
    assert shell.run("remove openai")[0] == 2


@pytest.mark.parametrize(
    ("line", "typed", "message"),
    [
        ("add opnai", KEY, "unknown provider 'opnai': did you mean openai"),
        ("add openai", "", "no key was entered"),
        ("add openai", "two words\n", "what you entered contains a character that no key has"),
        (f"add openai {KEY}", "", "a key is not an argument: other users could see it"),
        ("test opnai", "", "unknown provider 'opnai'"),
    ],
)
def test_wrong_input_stores_nothing(shell: Shell, line: str, typed: str, message: str) -> None:
    code, out, err = shell.run(line, typed)
    assert (code, out) == (2, "")
    assert message in err
    assert "two words" not in err
    assert not shell.file.exists()


def test_wide_file_is_reported_before_the_key_is_read(shell: Shell) -> None:
    shell.run("add openai", KEY)
    shell.file.chmod(0o644)
    code, _, err = shell.run("add xai", KEY)
    assert (code, f"Next: chmod 600 {shell.file}" in err) == (2, True)
    assert "can be read by others" in shell.run("list")[1]


def test_import_copies_only_when_asked(shell: Shell) -> None:
    (shell.folder / ".bashrc").write_text(
        f"export OPENAI_API_KEY={KEY} # mine\nexport XAI_API_KEY=$(pass xai)\n"
        f"MISTRAL_API_KEY='{KEY}'\nOTHER_API_KEY=sk-other\nexport GROQ_API_KEY=\"$SECRET\"\n"
    )
    code, out, err = shell.run("import")
    place = shell.folder / ".bashrc"
    assert (code, err) == (0, "Next: engine auth import --copy\n")
    assert out.splitlines() == [
        f"OPENAI_API_KEY for openai in {place}:1 (ends 4242)",
        f"MISTRAL_API_KEY for mistral in {place}:3 (ends 4242)",
    ]
    assert not shell.file.exists()
    assert shell.run("import --copy openai")[1] == f"Stored OPENAI_API_KEY for openai from {place}:1 (ends 4242)\n"
    assert [row["host"] for row in json.loads(shell.file.read_text())["keys"]] == ["openai"]


class Provider(BaseHTTPRequestHandler):
    """A provider that knows one key; at /public, it lists its models to everybody."""

    def do_GET(self) -> None:
        is_known = self.headers["authorization"] == f"Bearer {KEY}" or self.path.startswith("/public")
        status = 404 if self.path.startswith("/none") else 200 if is_known else 401
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"data": []}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class calls it
        """Print nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("path", "key", "code", "message"),
    [
        ("", KEY, 0, "lab: the provider accepts the key from auth file {file} (ends 4242)"),
        ("", "sk-wrong-1234567890", 1, "lab: the provider rejected the key from auth file {file} (ends 7890) (401)"),
        ("/public", KEY, 0, "its list needs no key: the key from auth file {file} (ends 4242) was not tested"),
        ("/none", KEY, 0, "was not tested: status 404"),
    ],
)
def test_test_asks_the_provider(shell: Shell, url: str, path: str, key: str, code: int, message: str) -> None:
    (shell.folder / "config/engine").mkdir(parents=True)
    text = f'[hosts.lab]\nwire = "openai_chat"\nbase_url = "{url}{path}"\nauth = "bearer"\n'
    (shell.folder / "config/engine/config.toml").write_text(text)
    assert shell.run("test lab")[0] == 6
    assert shell.run("add lab", key)[0] == 0
    for line in ("test lab", "test"):
        result, out, err = shell.run(line)
        assert (result, message.format(file=shell.file) in out + err) == (code, True)


def test_unreachable_provider_fails(shell: Shell) -> None:
    (shell.folder / "config/engine").mkdir(parents=True)
    text = '[hosts.lab]\nwire = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\nauth = "bearer"\n'
    (shell.folder / "config/engine/config.toml").write_text(text)
    shell.run("add lab", KEY)
    code, out, err = shell.run("test lab")
    assert (code, out) == (1, "")
    assert err == (
        f"lab: Nothing listens at 127.0.0.1:9 (base URL from {shell.folder}/config/engine/config.toml:3)\n"
        "Next: start the server\nor: engine models\n"
    )


def test_keyring_holds_the_key(shell: Shell) -> None:
    keyring = pytest.importorskip("keyring", reason="the extra keyring is not installed")
    kept: dict[tuple[str, str], str] = {}
    methods = {
        "priority": 1,
        "get_password": lambda _, service, user: kept.get((service, user)),
        "set_password": lambda _, service, user, key: kept.__setitem__((service, user), key),
        "delete_password": lambda _, service, user: kept.pop((service, user)),
    }
    keyring.set_keyring(type("Memory", (import_module("keyring.backend").KeyringBackend,), methods)())
    assert shell.run("add openai --keyring", KEY)[:2] == (0, "Stored the key of openai (ends 4242) in the keyring\n")
    assert kept == {("engine", "openai"): KEY}
    assert KEY not in shell.file.read_text()
    assert shell.run("list")[1] == "openai  keyring  added today\n"
    assert shell.run("remove openai")[0] == 0
    assert kept == {}
