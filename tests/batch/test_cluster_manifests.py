"""The manifests of the guide for clusters: what can be checked without a cluster."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.test_docs_commands import calls_of, parse

EXAMPLES = REPOSITORY / "docs" / "examples"


def container() -> dict[str, Any]:
    (document,) = yaml.safe_load_all((EXAMPLES / "kubernetes_job.yaml").read_text())
    (only,) = document["spec"]["template"]["spec"]["containers"]
    return dict(only)


def run_with_engine(script: str, folder: Path, **env: str) -> list[str]:
    """Run a script of shell whose `engine` writes its arguments; return them."""
    program = folder / "engine"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    result = subprocess.run(
        ["bash", "-euc", script], env={"PATH": path, **env}, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


def test_the_job_gives_each_index_its_shard(tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLES / "kubernetes_job.yaml").read_text())
    count = document["spec"]["completions"]
    (script,) = container()["args"]
    for index in (0, count - 1):
        arguments = run_with_engine(script, tmp_path, JOB_COMPLETION_INDEX=str(index))
        assert arguments[arguments.index("--shard") + 1] == f"{index + 1}/{count}"
        parse(arguments)


def test_exit_codes_that_end_an_index_name_its_container() -> None:
    document = yaml.safe_load((EXAMPLES / "kubernetes_job.yaml").read_text())
    codes = [rule["onExitCodes"] for rule in document["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert [(rule["containerName"], rule["values"]) for rule in codes] == [(container()["name"], [1, 2])]


@pytest.mark.parametrize("number", [1, 8])
def test_the_array_gives_each_task_its_shard(tmp_path: Path, number: int) -> None:
    script = (EXAMPLES / "slurm_array.sh").read_text()
    (last,) = re.findall(r"^#SBATCH --array=1-(\d+)$", script, flags=re.MULTILINE)
    env = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": last}
    arguments = run_with_engine(script, tmp_path, **env)
    assert arguments[arguments.index("--shard") + 1] == f"{number}/{last}"
    parse(arguments)
    assert list(calls_of(script.splitlines()[-1].removeprefix("exec ")))
