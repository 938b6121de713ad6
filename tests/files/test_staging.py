"""Temporary files next to the files that they replace: hidden from git, and removed after a kill."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.files.real_folder import RealFolder
from engine.files.staging import StagingFolder, remove_leftovers

# Edits, or puts back, a file for ever, until it is killed.
EDITS = """
import sys
from pathlib import Path
from engine.tools.edit.atomic_write import FileChange, commit
folder = Path(sys.argv[1])
print("ready", flush=True)
before = None
while True:
    for number in range(4):
        changes = [FileChange(shown=n, path=folder / n, before=before, after=b"%d" % number) for n in "abcdefgh"]
        commit(changes)
        before = b"%d" % number
"""
RESTORES = """
import sys
from pathlib import Path
from engine.core.snapshot_types import FILE, Put, TreeEntry
from engine.snapshots.restore import RestoreJob, blob_id
folder = Path(sys.argv[1])
print("ready", flush=True)
before = None
while True:
    for number in range(4):
        data = b"%d" % number
        want = TreeEntry(FILE, blob_id(data))
        job = RestoreJob([Put(str(folder / f"d{n % 7}/{n}"), before, want) for n in range(40)], str, (str(folder),))
        job.stage({want.id: data}, lambda: None)
        job.make(lambda: None)
        job.clean_up()
        before = want
"""
FORMATS = """
import sys
from pathlib import Path
from engine.files.staging import make_copy_folder, remove_copy_folder
print("ready", flush=True)
while True:
    folder = make_copy_folder(Path(sys.argv[1]))
    (folder / "a.py").write_bytes(b"pass")
    (folder / "cache").mkdir()
    (folder / "cache" / "b").write_bytes(b"")
    remove_copy_folder(folder)
"""

NEXT = "from engine.files.staging import remove_leftovers; remove_leftovers()"


def leftovers(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if ".tmp" in path.name]


@pytest.mark.os
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.parametrize("program", [EDITS, RESTORES, FORMATS], ids=["edits", "restores", "formats"])
def test_killed_program_leaves_nothing(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, program: str) -> None:
    # Lists of its own: engines of other tests would remove what is left, too.
    own = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("lists"))}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    found = 0
    for round_ in itertools.count():
        if round_ >= 12 and found:  # it was killed in the middle
            break
        with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, env=own) as child:
            assert child.stdout is not None
            child.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.02 + 0.003 * (round_ % 12))
            child.send_signal(signal.SIGKILL)
            child.wait()
        found += len(leftovers(tmp_path))
        listed = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=tmp_path, check=True, capture_output=True
        )
        assert b".tmp" not in listed.stdout
        subprocess.run([sys.executable, "-c", NEXT], check=True, env=own)
        assert leftovers(tmp_path) == []
        for path in tmp_path.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_living_process_keeps_its_files(tmp_path: Path) -> None:
    above = RealFolder.above(tmp_path / "x")
    staging = StagingFolder.make(above, str(tmp_path))
    name = staging.new_name()
    os.close(staging.inner.open(name, os.O_WRONLY | os.O_CREAT))
    remove_leftovers()
    assert (tmp_path / staging.path_of(name)).exists()
    staging.remove()
    assert list(tmp_path.iterdir()) == []
    above.close()


def test_what_is_kept_for_the_user_stays(tmp_path: Path) -> None:
    program = """
import os, sys
from engine.files.real_folder import RealFolder
from engine.files.staging import StagingFolder
staging = StagingFolder.make(RealFolder.above(sys.argv[1] + "/x"), sys.argv[1])
name = staging.new_name()
os.close(staging.inner.open(name, os.O_WRONLY | os.O_CREAT))
staging.keep(name)
staging.remove()
print(staging.path_of(name), flush=True)
os._exit(9)
"""
    kept = subprocess.run([sys.executable, "-c", program, tmp_path], check=False, capture_output=True, text=True)
    remove_leftovers()
    assert (tmp_path / kept.stdout.strip()).is_file()


def test_others_files_are_not_touched(tmp_path: Path) -> None:
    """A list removes nothing but folders that begin with its own token."""
    (tmp_path / ".0123456789abcdef.tmp").mkdir()
    program = """
import sys, json, os
from engine.files import staging
staging.temporary_token(sys.argv[1])
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    remove_leftovers()
    assert [path.name for path in tmp_path.iterdir()] == [".0123456789abcdef.tmp"]
