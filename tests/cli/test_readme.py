"""What README.md promises on its first screen."""

import re
from pathlib import Path

import pytest
import trio

from engine.testing.http_server import ScriptedServer
from engine.testing.script import call, done, text
from tests.cli import embedding
from tests.cli.processes import REPOSITORY

README = REPOSITORY / "README.md"


@pytest.mark.os
async def test_readme_code_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = [
        [*text("I'll run them.\n"), *call("bash", {"command": "touch ran"}, id="c1"), *done("calls")],
        [*text("They pass.\n"), *done()],
    ]
    server = ScriptedServer(answers)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    async with trio.open_nursery() as nursery:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", await nursery.start(server.serve))
        await embedding.main()
        nursery.cancel_scope.cancel()
    assert capsys.readouterr().out.startswith("I'll run them.\nThey pass.\ncompleted Usage(")
    assert (tmp_path / "ran").exists()


def test_readme_commands_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def test_readme_is_short_and_has_a_picture() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    (picture,) = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", text)
    assert (REPOSITORY / picture).is_file()
