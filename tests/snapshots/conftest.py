"""Projects to take snapshots of: real folders, real git, a home of their own."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from engine.core.snapshot_types import Change, Put
from engine.snapshots.project_snapshots import ProjectSnapshots

State = dict[str, tuple[str, bytes]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home / name))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@attrs.frozen
class Project:
    """A folder, and snapshots of it."""

    root: Path
    snapshots: ProjectSnapshots

    @property
    def real(self) -> str:
        """Its real path."""
        return os.path.realpath(self.root)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    def git(self, *arguments: str) -> str:
        """Run the user's own git in it."""
        who = ["-c", "user.name=u", "-c", "user.email=u@example.org", "-c", "protocol.file.allow=always"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    async def tree(self, within: float = 60.0) -> str:
        taken = await self.snapshots.take(str(self.root), owner="ses_1", within=within)
        assert taken.tree is not None, taken.remarks
        return taken.tree

    async def changes(self, old: str, new: str) -> dict[str, str]:
        """Return what became of each path: `+` new, `-` gone, `M` another content, `T` another kind."""
        return {self.name(change): _how(change) for change in await self.snapshots.diff(old, new, owner="ses_1")}

    def name(self, change: Change) -> str:
        return os.path.relpath(change.path, os.path.realpath(self.root))

    async def go_back(self, old: str, new: str) -> None:
        """Put everything back that differs."""
        puts = [
            Put(change.path, change.after, change.before)
            for change in await self.snapshots.diff(old, new, owner="ses_1")
        ]
        await self.snapshots.put(new, puts, cwd=str(self.root))


def _how(change: Change) -> str:
    if change.is_left_out:
        return "left out"
    if change.before is None or change.after is None:
        return "+" if change.before is None else "-"
    return "M" if change.before.mode == change.after.mode else "T"


def state_of(folder: Path) -> State:
    """Return all that is in a folder, byte by byte, with what the times of files can't tell."""
    found: State = {}
    for above, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(above) / name
            mode = path.lstat().st_mode
            data = (
                os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else b""
            )
            found[os.path.relpath(path, folder)] = (oct(mode), data)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    return Project(root, ProjectSnapshots(folder=tmp_path / "kept"))


@pytest.fixture
def repository(project: Project) -> Project:
    """A project in the user's own git, with a commit."""
    project.write({"a.txt": "a\n", "b/c.txt": "c\n", ".gitignore": "*.o\n/build/\n"})
    project.git("init", "-q")
    project.git("add", ".")
    project.git("commit", "-qm", "first")
    return project
