"""`engine config`: what it shows, and what it changes."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import attrs
import pytest

from engine.cli.main import main

pytestmark = pytest.mark.os


@attrs.frozen
class Shell:
    """Runs `engine config` in this process, in a folder with its own configuration."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    @property
    def file(self) -> Path:
        return self.folder / "engine/config.toml"

    def run(self, line: str) -> tuple[int, str, str]:
        code = main(["config", *shlex.split(line)])
        shown = self.capture.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in ("ENGINE_CONFIG", "ENGINE_MODEL", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return Shell(tmp_path, capsys)


def test_set_get_explain_unset(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.run("set defaults.model a/b") == (0, f'defaults.model = "a/b" in {shell.file}\n', "")
    assert shell.file.read_text() == 'version = 1\n\n[defaults]\nmodel = "a/b"\n'
    assert shell.file.stat().st_mode & 0o777 == 0o600
    assert shell.run("get defaults.model") == (0, "a/b\n", "")
    assert shell.run("get defaults.model --json") == (0, '"a/b"\n', "")
    monkeypatch.setenv("ENGINE_MODEL", "c/d")
    explained = f'defaults.model = "c/d"\n    from $ENGINE_MODEL\n    overrides "a/b" from {shell.file}:4\n'
    assert shell.run("explain defaults.model") == (
        0,
        f"{explained}    default: not set\n    meaning: the model.\n",
        "",
    )
    assert shell.run("list") == (0, explained, "")
    assert json.loads(shell.run("list --json")[1]) == [
        {
            "key": "defaults.model",
            "value": "c/d",
            "source": "$ENGINE_MODEL",
            "overrides": [{"value": "a/b", "source": f"{shell.file}:4"}],
        }
    ]
    monkeypatch.delenv("ENGINE_MODEL")
    assert shell.run("unset defaults.model")[0] == 0
    assert shell.file.read_text().strip() == "version = 1"
    assert shell.run("list") == (0, "Everything has its default.\nNext: engine config set KEY VALUE\n", "")


def test_get_prints_a_default(shell: Shell) -> None:
    assert shell.run("get permissions.profile") == (0, "ask\n", "")
    assert shell.run("get compaction.auto") == (0, "true\n", "")
    code, out, err = shell.run("get defaults.model")
    assert (code, out) == (1, "")
    assert err == "engine config: defaults.model is not set\nNext: engine config explain defaults.model\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "set defaults.modle x",
            "unknown key defaults.modle: did you mean defaults.model?\nNext: engine config explain defaults.model",
        ),
        ("set model x", "unknown key model: did you mean defaults.model?"),
        ("set defaults.model gpt", "engine config: defaults.model is not changed: a model's name must have"),
        (
            "set defaults.max_steps -1",
            "engine config: defaults.max_steps is not changed: max_steps must be a number above 0",
        ),
        ("set compaction.auto perhaps", "compaction"),
        ("set defaults.agent nobody", "unknown agent 'nobody'"),
        ("unset defaults.model", "defaults.model is not set in this file"),
        ("set --project defaults.model a/b", "can't be set for a project: only your own configuration can set it"),
        ("explain nothing.at.all", "unknown key nothing.at.all"),
        ("set hosts.openai.key sk-canary-2718281828", "keys belong in environment variables"),
    ],
)
def test_wrong_changes_leave_the_file(shell: Shell, line: str, message: str) -> None:
    code, out, err = shell.run(line)
    assert (code, out) == (2, "")
    assert message in err
    assert "2718281828" not in err
    assert not shell.file.exists()


def test_project_file(shell: Shell) -> None:
    own = shell.folder / "project/.engine/config.toml"
    assert shell.run("set --project permissions.profile read-only")[0] == 0
    assert "Ignored" in shell.run("get permissions.profile")[2]
    assert shell.run("get permissions.profile --trust") == (0, "read-only\n", "")
    code, out, _ = shell.run("path")
    assert code == 0
    assert f"project       {own}  (project not trusted: only rules that deny or ask count)\n" in out
    assert f"user          {shell.file}  (missing)\n" in out
    assert [line.split()[0] for line in out.splitlines()] == ["required", "project", "project", "user", "system"]


def test_check_reports_every_file(shell: Shell) -> None:
    assert shell.run("check --cwd .")[::2] == (0, "")
    shell.file.parent.mkdir(exist_ok=True)
    shell.file.write_text('[defaults]\nmodle = "a/b"\n')
    error = (
        f"engine config: {shell.file}:2: unknown key defaults.modle: did you mean model?\nNext: engine config edit\n"
    )
    assert shell.run("check") == (1, "", error)
    shell.file.write_text("version = 3\n")
    assert "this engine reads version 1" in shell.run("check")[2]


def test_migrate_keeps_a_copy(shell: Shell) -> None:
    assert shell.run("migrate")[0] == 2
    shell.file.parent.mkdir(exist_ok=True)
    shell.file.write_text("# mine\n[compaction]\nauto = false # so far\n")
    code, out, _ = shell.run("migrate")
    copy = shell.file.with_name("config.toml.old-1")
    assert (code, str(copy) in out) == (0, True)
    assert shell.file.read_text() == f"version = 1\n{copy.read_text()}"
    assert "nothing to do" in shell.run("migrate")[1]


def editor(shell: Shell, monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> None:
    script = shell.folder / "editor.py"
    script.write_text(f"import pathlib, sys\npathlib.Path(sys.argv[1]).write_text({text!r})\nsys.exit({code})\n")
    monkeypatch.setenv("EDITOR", f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")


def test_edit_saves_only_a_valid_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    editor(shell, monkeypatch, '[defaults]\nmodel = "a/b"\n')
    assert shell.run("edit") == (0, f"{shell.file} is saved\n", "")
    assert shell.run("edit") == (0, f"{shell.file} is unchanged\n", "")
    before = shell.file.read_text()
    editor(shell, monkeypatch, "[defaults]\nmodle = 3\n")
    code, out, err = shell.run("edit")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"{shell.file}:2: unknown key defaults.modle: did you mean model?",
        f"{shell.file} is as it was",
    ]
    editor(shell, monkeypatch, "", code=3)
    assert "failed with exit code 3" in shell.run("edit")[2]
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert "can't run no-such-editor: No such file or directory\nNext: " in shell.run("edit")[2]
    assert shell.file.read_text() == before


def test_profile_file_and_settings_count(shell: Shell) -> None:
    (shell.folder / "engine/profiles").mkdir(parents=True)
    (shell.folder / "engine/profiles/work.toml").write_text("[compaction]\ntail = 5\n")
    code, out, _ = shell.run("explain compaction.tail --profile-file work --set compaction.tail=6")
    assert (code, out.splitlines()[:2]) == (0, ["compaction.tail = 6", "    from -c compaction.tail"])
    assert "profile file" in shell.run("path --profile-file work")[1]
    other = shell.folder / "other.toml"
    other.write_text("[compaction]\ntail = 7\n")
    assert shell.run(f"get compaction.tail --config {other}")[1] == "7\n"


def test_default_editor_needs_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    code, _, error = shell.run("edit")
    assert code == 2
    assert error == "engine config: there is no terminal for the editor vi\nNext: engine config set KEY VALUE\n"
