"""The flags that select the configuration: `--set`, `-c` next to `--continue`, `--profile-file`."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.config_flags import load_user_config, split_continue
from engine.config.rule_layers import RuleLayers
from engine.config.sandbox_config import Sandbox
from engine.config.telemetry_config import TelemetryConfig
from engine.core.errors import ConfigError

pytestmark = pytest.mark.os


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ENGINE_CONFIG", raising=False)
    (tmp_path / "engine/profiles").mkdir(parents=True)
    (tmp_path / "engine/profiles/work.toml").write_text('[defaults]\nmodel = "a/work"\ntitles = "a/work"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["models", "run", "serve"])
def test_settings_are_stronger_than_files(folder: Path, command: str) -> None:
    words = ["--profile-file", "work", "--set", "defaults.model=a/set", *(["task"] if command == "run" else [])]
    config = load_user_config(parse_arguments(command, words))
    assert (config.defaults.model, config.defaults.titles) == ("a/set", "a/work")


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["-c", "defaults.agent=plan", "task"], ["--set", "defaults.agent=plan", "task"]),
        (["-c", "go on"], ["-c", "go on"]),
        (["-c", "a=b"], ["-c", "a=b"]),
        (["task", "-c"], ["task", "-c"]),
        (["-c", "set x.y=z in the file"], ["-c", "set x.y=z in the file"]),
    ],
)
def test_c_is_set_before_a_key_and_continue_elsewhere(words: list[str], result: list[str]) -> None:
    assert split_continue(words) == result


def test_warnings_name_variables_and_ignored_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE_MODLE", "x")
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".engine").mkdir()
    (project / ".engine/config.toml").write_text('[hosts.x]\nlike = "vllm"\n')
    load_user_config(parse_arguments("agents", ["--cwd", str(project)]))
    load_user_config(parse_arguments("agents", ["--cwd", str(project), "--trust"]))
    lines = capfd.readouterr().err.splitlines()
    file = project / ".engine/config.toml"
    assert [line for line in lines if line.startswith("Ignored")] == [
        f"Ignored {file}, but for rules that deny or ask: project not trusted. Next: engine permissions trust",
        f"Ignored hosts.x ({file}:1): a project's file can't say where requests and keys go",
    ]
    assert sum("unknown variable ENGINE_MODLE: did you mean ENGINE_MODEL" in line for line in lines) == 2


def test_project_can_not_export_traces(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".engine").mkdir()
    file = project / ".engine/config.toml"
    file.write_text('[telemetry]\nenabled = true\nendpoint = "http://example.com"\ncontent = true\n')
    config = load_user_config(parse_arguments("agents", ["--cwd", str(project), "--trust"]))
    assert config.telemetry == TelemetryConfig()
    reason = "a project's file can't say where traces go, or what is in them"
    ignored = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Ignored telemetry")]
    assert [line.endswith(reason) for line in ignored] == [True] * 3


def test_flags_do_not_change_what_the_administrator_fixed(folder: Path) -> None:
    from engine.cli.flags.permission_flags import permission_choice
    from engine.config.config import Config

    fixed = RuleLayers(fixed=frozenset({"sandbox.backend"}))
    config = Config(sandbox=Sandbox(backend="bwrap"), rule_layers=fixed)
    choice = permission_choice(parse_arguments("run", ["task", "--sandbox", "off"]))
    with pytest.raises(ConfigError, match=r"fixes sandbox\.backend to 'bwrap'"):
        choice.box(config)
    same = permission_choice(parse_arguments("run", ["task", "--sandbox", "bwrap"]))
    box = same.box(config)
    assert box is not None
    assert box.backend == "bwrap"
