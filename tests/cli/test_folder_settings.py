"""`engine serve` and `engine acp` in several projects: the folder of a session decides about its settings."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.permission_flags import permission_choice
from engine.cli.folder_settings import FolderSettings
from tests.cli.conftest import Quick, Start, environment_for
from tests.cli.processes import REPOSITORY
from tests.cli.test_acp import Agent, agent

pytestmark = [pytest.mark.os, pytest.mark.slow]

STRICT = '[permissions]\nprofile = "read-only"\n'
FORMATTED = '[formatters.sed]\ncommand = ["sed", "-i", "s/TWO/three/"]\npatterns = ["*.txt"]\n'
AS_WRITTEN = "one\nTWO\n"


@pytest.fixture(autouse=True)
def runtime() -> Iterator[str]:
    """A folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The user's own configuration: files may be edited, and commands run."""
    file = tmp_path / "user.toml"
    file.write_text('[permissions]\nprofile = "auto-edit"\nrules = ["allow bash *"]\n')
    return str(file)


@pytest.fixture
def folders(tmp_path: Path, quick: Quick) -> dict[str, Path]:
    """Three projects; the last one is not trusted."""
    folders: dict[str, Path] = {}
    for name, text in (("strict", STRICT), ("formatted", FORMATTED), ("untrusted", STRICT + FORMATTED)):
        folder = folders[name] = tmp_path / name
        (folder / ".engine").mkdir(parents=True)
        (folder / ".engine" / "config.toml").write_text(text)
        if name != "untrusted":
            assert quick("permissions", "--cwd", str(folder), "trust").code == 0
    return folders


def written(folder: Path) -> str | None:
    file = folder / "a.txt"
    return file.read_text() if file.exists() else None


# What a prompt that writes a file leaves in each folder.
EXPECTED = {"strict": None, "formatted": "one\nthree\n", "untrusted": AS_WRITTEN}


@pytest.mark.parametrize("start", ["strict", "untrusted"])
def test_server_uses_settings_of_each_folder(
    engine: Start, runtime: str, config: str, folders: dict[str, Path], start: str
) -> None:
    # Where it is started decides about no other folder.
    command = engine("serve", "--cwd", str(folders[start]), ENGINE_CONFIG=config, XDG_RUNTIME_DIR=runtime)
    command.read_until("Ctrl-C ends it.")
    address = re.search(r"serves at (http://\S+) and at ", command.output)
    token = re.search(r"The token is in (\S+)\.", command.output)
    assert address is not None
    assert token is not None
    headers = {"Authorization": f"Bearer {Path(token[1]).read_text().strip()}"}
    with httpx.Client(base_url=address[1], headers=headers, timeout=60) as http:

        def call(method: str, **params: Any) -> dict[str, Any]:
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return dict(http.post("/v1/rpc", json=request).json())

        for name, content in EXPECTED.items():
            made = http.post("/v1/sessions", json={"cwd": str(folders[name]), "key": name}).json()
            session_id = made["row"]["id"]
            turn = http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "write", "key": f"{name} 2"}).json()
            waited = call("wait", session_id=session_id, turn_id=turn["turn_id"], timeout=60)
            assert waited["result"]["result"]["stop_reason"] == "completed"
            assert written(folders[name]) == content
            # A client makes no more of it than the folder allows.
            answer = call("session.configure", session_id=session_id, profile="full")
            refused = "'read-only' denies" in str(answer.get("error"))
            assert (refused, "result" in answer) == (name == "strict", name != "strict")


def test_editor_sees_settings_of_each_folder(host: str, tmp_path: Path, config: str, folders: dict[str, Path]) -> None:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment_for(host, tmp_path), "ENGINE_CONFIG": config}
    modes: dict[str, str] = {}
    with agent(env, tmp_path) as editor:
        editor.call("initialize", protocolVersion=1)
        for name, content in EXPECTED.items():
            made = editor.call("session/new", cwd=str(folders[name]), mcpServers=[])
            modes[name] = made["modes"]["currentModeId"]
            ended = _prompt(editor, made["sessionId"], "write")
            assert ended["stopReason"] == "end_turn"
            assert written(folders[name]) == content
    assert modes == {"strict": "read-only", "formatted": "auto-edit", "untrusted": "auto-edit"}


def _prompt(editor: Agent, session_id: str, text: str) -> dict[str, Any]:
    return editor.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])


@pytest.mark.parametrize(("flags", "backends"), [(["--trust"], ["landlock", "off"]), ([], ["off", "off"])])
def test_sandbox_is_that_of_a_trusted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], backends: list[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    user = tmp_path / "user.toml"
    user.write_text('[sandbox]\nbackend = "off"\n')
    folders = [tmp_path / "boxed", tmp_path / "other"]
    for folder in folders:
        (folder / ".engine").mkdir(parents=True)
    (folders[0] / ".engine" / "config.toml").write_text('[sandbox]\nbackend = "landlock"\n')
    args = parse_arguments("acp", ["--config", str(user), *flags])
    settings = FolderSettings(args, permission_choice(args))
    sandboxes = [settings.setup(str(folder)).config.sandbox for folder in folders]
    assert [None if sandbox is None else sandbox.backend for sandbox in sandboxes] == backends
