"""The tests of the tests: each planted fault must be found, and the unharmed package must pass."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from tests.properties.mutants import MUTANTS, plant

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path(engine.__file__).parent


def _play(tree: Path, scenario: str, every: int = 2) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.properties.mutants", scenario, str(every)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def _copy(tree: Path) -> Path:
    # With what Python has compiled: a process would spend most of its time on that. The module with the fault is newer.
    shutil.copytree(PACKAGE, tree / "engine")
    shutil.copytree(REPOSITORY / "tests" / "properties", tree / "tests" / "properties")
    (tree / "tests" / "__init__.py").touch()
    return tree / "engine"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    plant(mutant, _copy(tmp_path))
    played = [_play(tmp_path, scenario) for scenario in mutant.scenarios]
    assert any(run.returncode == 1 for run in played), [run.stdout + run.stderr for run in played]
    # It was found by a broken promise, not by falling over.
    assert all(run.returncode in {0, 1} and "Traceback" not in run.stderr for run in played), played


@pytest.mark.parametrize("scenario", sorted({name for mutant in MUTANTS.values() for name in mutant.scenarios}))
def test_the_unharmed_package_passes_what_finds_the_faults(scenario: str, tmp_path: Path, is_full: bool) -> None:
    _copy(tmp_path)
    # That the scenario keeps its promises at each point is what `test_cancel_everywhere` shows, of the package itself.
    played = _play(tmp_path, scenario, 2 if is_full else 60)
    assert played.returncode == 0, (played.stdout, played.stderr)
