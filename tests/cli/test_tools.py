"""`engine tools`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.tools.builtin.all import builtin_tools
from tests.cli.processes import REPOSITORY


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine", "tools", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_every_tool_is_in_the_list() -> None:
    ran = run()
    assert ran.returncode == 0
    told = [line.split()[0] for line in ran.stdout.splitlines() if line[:2] == "  " and line[2:3] != " "]
    assert told == sorted(tool.name for tool in builtin_tools())
    assert all(len(line) <= 100 for line in ran.stdout.splitlines())


def test_one_whole() -> None:
    ran = run("read")
    assert ran.returncode == 0
    assert ran.stdout.startswith("read")
    assert '"path"' in ran.stdout


def test_as_json_it_is_what_the_model_gets() -> None:
    documents = json.loads(run("--json").stdout)
    assert {d["name"]: (d["description"], d["schema"], d["read_only"]) for d in documents} == {
        tool.name: (tool.description, json.loads(tool.schema.schema), tool.read_only) for tool in builtin_tools()
    }


def test_those_that_are_offered_to_a_model() -> None:
    for model in ("openai/gpt-5", "anthropic/claude-sonnet-4-5"):
        own_name = model.partition("/")[2]
        documents = json.loads(run("--json", "--model", model).stdout)
        assert [d["name"] for d in documents] == [tool.name for tool in builtin_tools() if tool.offered(own_name)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rread"], "engine tools: there is no tool 'rread': did you mean read?"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
