"""What the file tools share: names of files."""

import os
from pathlib import Path

import pytest

from engine.files.text_files import pattern_of, resolve


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("a.py", "a.py"),
        ("./sub/../a.py", "a.py"),
        ("sub/new", "sub/new"),
        (".", "."),
        ("out/x", "{outside}/x"),
        ("../outside/x", "{outside}/x"),
        ("{cwd}/sub/x", "sub/x"),
        ("/etc/hosts", "/etc/hosts"),
        ("loop", "loop"),
    ],
)
def test_rules_judge_the_real_path(tmp_path: Path, path: str, pattern: str) -> None:
    cwd, outside = tmp_path / "cwd", tmp_path / "outside"
    (cwd / "sub").mkdir(parents=True)
    outside.mkdir()
    (cwd / "out").symlink_to(outside)
    (cwd / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("cwd")
    for seen_from in (cwd, tmp_path / "link"):
        resolved = resolve(str(seen_from), path.format(cwd=cwd))
        assert pattern_of(str(seen_from), resolved) == pattern.format(outside=os.path.realpath(outside))
