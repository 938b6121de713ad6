"""The adapter for Harbor, run against a stand-in for Harbor whose containers are folders: the commands are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.forked import forking_engine
from tests.cli.processes import REPOSITORY
from tests.export.atif_format import check_trajectory

pytestmark = pytest.mark.os

# What the adapter uses of Harbor, and nothing else.
HARBOR = """
import asyncio, json, os, pathlib, subprocess, sys, types

logs = pathlib.Path(os.environ["LOGS"])

class Base:
    def __init__(self, logs_dir, model_name=None, version=None):
        self.logs_dir, self.model_name, self._version = logs_dir, model_name, version
    async def exec_as_agent(self, environment, command, env=None):
        result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        if result.returncode:
            raise RuntimeError(f"exit code {result.returncode}")
    exec_as_root = exec_as_agent

class Environment:
    async def upload_file(self, source, target):
        pathlib.Path(target).write_bytes(pathlib.Path(source).read_bytes())

names = {
    "harbor.agents.installed.base": {"BaseInstalledAgent": Base, "with_prompt_template": lambda run: run},
    "harbor.agents.capabilities": {"AgentCapabilities": types.SimpleNamespace},
    "harbor.environments.base": {"BaseEnvironment": Environment},
    "harbor.models.agent.context": {"AgentContext": types.SimpleNamespace},
    "harbor.models.trial.paths": {"EnvironmentPaths": types.SimpleNamespace(agent_dir=logs)},
}
for name, members in names.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)

from engine_agent import EngineAgent

context = types.SimpleNamespace()
agent = EngineAgent(logs, **json.loads(sys.argv[1]))
asyncio.run(getattr(agent, sys.argv[2])(*([sys.argv[3]] if sys.argv[3:] else []), Environment(), *([context] if sys.argv[3:] else [])))
agent.populate_context_post_run(context)
print(json.dumps(vars(context)))
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What is installed in the container: nothing of it comes from the network."""
    folder = tmp_path / "home" / ".local" / "bin"
    folder.mkdir(parents=True)
    for name in ("curl", "apt-get", "apk"):
        install(folder, name, "exit 99")
    return folder


def install(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def adapter(
    tmp_path: Path, *arguments: str, host: str = "", **options: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a method of the adapter in a task's folder; return how that ended, and the folder of logs."""
    logs, work = tmp_path / "logs of it", tmp_path / "app"
    for folder in (logs, work):
        folder.mkdir()
    env = {
        "PATH": f"{tmp_path}/home/.local/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'docs' / 'harbor'}",
        "LOGS": str(logs),
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": host,
    }
    command = [sys.executable, "-c", HARBOR, json.dumps(options), *arguments]
    return subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=100, check=False), logs


def run(tmp_path: Path, programs: Path, host: str, task: str) -> tuple[dict[str, Any], Path]:
    (tmp_path / "forks").mkdir()
    with forking_engine(tmp_path / "forks") as script:
        (programs / "engine").write_text(script)
        (programs / "engine").chmod(0o755)
        result, logs = adapter(
            tmp_path, "run", task, host=host, model_name="anthropic/claude-sonnet-5-5", flags="--max-cost 1"
        )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]), logs


def test_task_leaves_its_trajectory_and_usage(tmp_path: Path, programs: Path, host: str) -> None:
    context, logs = run(tmp_path, programs, host, "write 'it'; $(false)")
    assert (tmp_path / "app" / "b.txt").read_text() == "one\nTWO\n"
    document = json.loads((logs / "trajectory.json").read_text())
    check_trajectory(document)
    assert next(step["message"] for step in document["steps"] if step["source"] == "user") == "write 'it'; $(false)"
    assert (context["n_input_tokens"], context["n_output_tokens"], context["n_cache_tokens"]) == (2_000, 100, 0)
    assert document["final_metrics"]["total_prompt_tokens"] == 2_000
    assert context["metadata"]["stop_reason"] == "completed"


def test_agent_that_stops_is_no_fault_of_the_run(tmp_path: Path, programs: Path, host: str) -> None:
    install(programs, "engine", 'case "$1" in run) exit 4;; esac')
    result, _ = adapter(tmp_path, "run", "task")
    assert (result.returncode, result.stdout) == (0, "{}\n")


@pytest.mark.parametrize("code", [2, 6, 7, 8, 70])
def test_failed_surroundings_are_reported(tmp_path: Path, programs: Path, code: int) -> None:
    install(programs, "engine", f'case "$1" in run) exit {code};; esac')
    result, _ = adapter(tmp_path, "run", "task")
    assert f"exit code {code}" in result.stderr


@pytest.mark.parametrize(("options", "package"), [({"version": "1.2"}, "nursery-engine==1.2"), ({}, "nursery-engine")])
def test_published_package_is_installed(tmp_path: Path, programs: Path, options: dict[str, str], package: str) -> None:
    install(programs, "uv", 'echo "$@"')
    result, _ = adapter(tmp_path, "install", **options)
    assert result.stdout.splitlines()[0] == f"tool install --python 3.12 {package}"


def test_wheel_is_uploaded_and_installed(tmp_path: Path, programs: Path) -> None:
    install(programs, "uv", 'cat "$5"')
    wheel = tmp_path / f"{tmp_path.name}.whl"
    wheel.write_text("the wheel\n")
    result, _ = adapter(tmp_path, "install", wheel=str(wheel))
    Path("/tmp", wheel.name).unlink()
    assert result.stdout.splitlines()[0] == "the wheel"
