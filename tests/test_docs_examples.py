"""Every file in docs/examples runs, offline, and exits with 0. Beside one, `<name>.out` is what it must print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env=_offline_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    printed = example.with_suffix(".out")
    if printed.exists():
        assert result.stdout == printed.read_text(encoding="utf-8")
