"""The tests that the threat model names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_threat_model_names_tests_that_exist() -> None:
    named = _TEST.findall((ROOT / "docs/explanation/threat-model.md").read_text())
    assert len(named) > 20
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []
