"""Searches through folders: they show files that nobody has named."""

from pathlib import Path

import pytest

from engine.permission.paths.path_access import analyse_paths
from engine.permission.shell.scan import scan


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("grep -r x .", [".env", "sub/server.key"]),
        ("grep -rn x", [".env", "sub/server.key"]),
        ("grep --recur x", [".env", "sub/server.key"]),
        ("cd sub && egrep -rx x", ["sub/server.key"]),
        ("grep x -r sub", ["sub/server.key"]),
        ("rg x", ["sub/server.key"]),
        ("rg --hidden x", [".env", "sub/server.key"]),
        ("rg -uu x .", [".env", "sub/server.key"]),
        ("rg -. x .", [".env", "sub/server.key"]),
        ("true | diff -r . sub", [".env", "sub/server.key"]),
        ("rg --files", []),
        ("grep x a.txt", []),
        ("rg x a.txt", []),
        ("ls -R .", []),
        ("grep -r x none", []),
    ],
)
def test_secrets_that_a_search_would_show(tmp_path: Path, command: str, shown: list[str]) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", ".env", ".env.example", "sub/server.key", "sub/b.txt"):
        (tmp_path / name).write_text("x")
    project = str(tmp_path.resolve())
    analysis = analyse_paths(scan(command, cwd=project, home="/h"), cwd=project, project=project)
    files = {one.target.path for one in analysis.accesses if one.use is not None and Path(one.target.path).is_file()}
    assert sorted(files - {f"{project}/a.txt"}) == [f"{project}/{name}" for name in shown]
    assert analysis.opaque == ()


def test_search_budget_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    for number in range(30):
        (tmp_path / "project" / f"{number}.key").write_text("x")
    project = str((tmp_path / "project").resolve())
    analysis = analyse_paths(scan("grep -r x .", cwd=project, home="/h"), cwd=project, project=project)
    assert len(analysis.accesses) < 30
    assert analysis.opaque == (f"{project}/. contains too many files to tell what grep shows",)
    above = analyse_paths(scan("grep -r x ..", cwd=project, home="/h"), cwd=project, project=project)
    assert [one.target.inside for one in above.accesses if one.use is not None] == [False]
    assert above.opaque == ()
