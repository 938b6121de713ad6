"""`engine tools`, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from engine.cli.default_tools import default_tools
from tests.cli.forked import run_engine
from tests.cli.processes import REPOSITORY

pytestmark = pytest.mark.os


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CONFIG_HOME": "/nowhere", **env}
    return run_engine("tools", *arguments, cwd=REPOSITORY, env=environment)


@pytest.fixture(autouse=True)
def no_skills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the skills of whoever runs these tests nothing is seen."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")


def test_every_tool_is_in_the_list() -> None:
    ran = run()
    assert ran.returncode == 0
    told = [line.split()[0] for line in ran.stdout.splitlines() if line[:2] == "  " and line[2:3] != " "]
    assert told == sorted(tool.name for tool in default_tools())
    assert all(len(line) <= 100 for line in ran.stdout.splitlines())


def test_the_list_is_what_a_run_offers(tmp_path: Path) -> None:
    """(A session of `engine run` gets what this function returns.)"""
    folder = tmp_path / "engine" / "skills" / "bake-bread"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: bake-bread\ndescription: How to bake.\n---\nKnead.\n")
    names = {document["name"] for document in json.loads(run("--json").stdout)}
    assert {"task", "read"} <= names
    assert "skill" not in names
    ran = run("skill", XDG_CONFIG_HOME=str(tmp_path))
    assert "- bake-bread: How to bake." in ran.stdout
    assert "- explore: for finding something" in run("task").stdout


def test_invalid_service_is_reported() -> None:
    ran = run(ENGINE_WEB_SEARCH="nope")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert (
        ran.stderr
        == "engine tools: ENGINE_WEB_SEARCH must be one of brave, tavily, exa, searxng, not 'nope'\nNext: engine help tools\n"
    )


def test_tools_of_plugins_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "engine" / "tools"
    folder.mkdir(parents=True)
    (folder / "greet.py").write_text(
        "import attrs, engine\n@attrs.frozen\nclass Greet:\n    'Greet a person.'\n    name: str\n"
        "@engine.tool\nasync def greet(args: Greet, ctx: engine.ToolContext) -> str:\n    return args.name\n"
    )
    (folder / "broken.py").write_text("nonsense(")
    ran = run(XDG_CONFIG_HOME=str(tmp_path))
    assert "\n  greet_greet" in ran.stdout
    assert f"the tool file {folder / 'broken.py'}: SyntaxError" in ran.stderr
    assert run("greet_greet", XDG_CONFIG_HOME=str(tmp_path)).stdout.startswith("greet_greet: ")


def test_details_of_one_tool() -> None:
    ran = run("read")
    assert ran.returncode == 0
    assert ran.stdout.startswith("read")
    assert '"path"' in ran.stdout


def test_as_json_it_is_what_the_model_gets() -> None:
    documents = json.loads(run("--json").stdout)
    assert {d["name"]: (d["description"], d["schema"], d["read_only"]) for d in documents} == {
        tool.name: (tool.description, json.loads(tool.schema.schema), tool.read_only) for tool in default_tools()
    }


def test_tools_offered_to_a_model() -> None:
    for model in ("openai/gpt-5", "anthropic/claude-sonnet-4-5"):
        own_name = model.partition("/")[2]
        documents = json.loads(run("--json", "--model", model).stdout)
        assert [d["name"] for d in documents] == [tool.name for tool in default_tools() if tool.offered(own_name)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rread"], "engine tools: unknown tool 'rread': did you mean read?"),
        (["--nonsense"], "unknown flag: --nonsense"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
