"""Every file in docs/examples runs, offline, and exits with 0. Beside one, `<name>.out` is what it must print."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.forked import fork_server, run_script

REPOSITORY = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((REPOSITORY / "docs" / "examples").glob("*.py"))


def _offline_environment(home: Path) -> dict[str, str]:
    """This machine's environment without anything an example must not need: keys, settings, a way out."""
    unwanted = ("ENGINE_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "AWS_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(unwanted) and not name.endswith("_API_KEY")
    }
    nowhere = "http://127.0.0.1:9"  # the discard port: whatever is not loopback fails at once
    proxies = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), nowhere
    )
    loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
    return kept | proxies | loopback | {"HOME": str(home), "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "error"}


def test_there_are_examples() -> None:
    assert EXAMPLES, "docs/examples is empty: the tutorial has nothing that is known to run"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with fork_server(tmp_path_factory.mktemp("forks"), "-W", "error") as path:
        yield path


def _run(example: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it as a user does."""
    return subprocess.run(
        [sys.executable, str(example)],
        cwd=folder,
        env=_offline_environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path, forks: str, *, is_full: bool) -> None:
    # By default in a forked process, which need not import the engine.
    result = (
        _run(example, tmp_path)
        if is_full
        else run_script(forks, example, cwd=tmp_path, env=_offline_environment(tmp_path))
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    printed = example.with_suffix(".out")
    if printed.exists():
        assert result.stdout == printed.read_text(encoding="utf-8")
