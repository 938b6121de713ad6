"""Files of what the user has decided: whole or untouched, whoever comes between."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from engine.core.errors import ConfigError, StoreError
from engine.core.ids import CallId, SessionId
from engine.permission.grants.grant_file import GrantFile
from engine.permission.grants.grants import Grant, GrantOrigin
from engine.permission.grants.state_file import MAX_BYTES, Entries, StateFile
from engine.permission.grants.trust import Trust
from tests.support.processes import python_process


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "state" / "things.json", "things", lock_seconds=0.2)


def adding(value: object) -> Callable[[Entries], Entries]:
    return lambda entries: [*entries, value]


def others(file: StateFile) -> list[str]:
    """Return what else is in the folder."""
    return sorted(path.name for path in file.path.parent.iterdir() if path != file.path)


# -- the file ---------------------------------------------------------------------------


def test_written_values_are_read_back(file: StateFile) -> None:
    assert file.read() == []
    assert file.update(adding("a")) == ["a"]
    assert file.update(adding("\udc80 é")) == ["a", "\udc80 é"]
    assert file.read() == ["a", "\udc80 é"]
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert others(file) == ["things.json.lock"]


def test_failing_change_changes_nothing(file: StateFile) -> None:
    file.update(adding("a"))
    before = file.path.read_bytes()

    def failing(entries: Entries) -> Entries:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match=r"^no$"):
        file.update(failing)
    with pytest.raises(TypeError):
        file.update(adding(object()))
    assert file.path.read_bytes() == before
    assert others(file) == ["things.json.lock"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"\xff", "it is not valid JSON"),
        (b"[" * 100_000, "it is not valid JSON"),
        (b"[]", "it has no version 1, or no list 'things'"),
        (b'{"things": []}', "it has no version 1"),
        (b'{"version": 1, "things": {}}', "no list 'things'"),
        (b'{"version": 0, "things": []}', "it has no version 1"),
        (b'{"version": 2, "things": []}', "was written by a newer engine (version 2)"),
        (b" " * (MAX_BYTES + 1), "it is larger than"),
    ],
)
def test_invalid_files_are_left_alone(file: StateFile, data: bytes, words: str) -> None:
    file.update(adding("a"))
    file.path.write_bytes(data)
    for use in (file.read, lambda: file.update(adding("b"))):
        with pytest.raises(ConfigError) as error:
            use()
        assert words in str(error.value)
        assert str(file.path) in str(error.value)
        assert file.path.read_bytes() == data


@pytest.mark.parametrize(("target", "mode"), [("file", 0o620), ("file", 0o602), ("folder", 0o720), ("folder", 0o777)])
def test_files_writable_by_others_are_ignored(file: StateFile, target: str, mode: int) -> None:
    file.update(adding("a"))
    (file.path if target == "file" else file.path.parent).chmod(mode)
    for use in (file.read, lambda: file.update(adding("b"))):
        with pytest.raises(ConfigError, match="can be changed by others"):
            use()


def test_foreign_file_is_ignored(file: StateFile, not_root: None) -> None:
    file.update(adding("a"))
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.seteuid(0)
    os.chown(file.path, 1, 1)
    with pytest.raises(ConfigError, match="can be changed by others"):
        file.read()


def test_non_file_is_ignored(file: StateFile) -> None:
    file.path.parent.mkdir(mode=0o700)
    os.mkfifo(file.path, 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        file.read()
    file.path.unlink()
    file.path.mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        file.read()


def test_link_to_the_file_is_kept(file: StateFile, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.mkdir(mode=0o700)
    file.path.parent.mkdir(mode=0o700)
    file.path.symlink_to(real / "kept.json")
    file.update(adding("a"))
    assert file.path.is_symlink()
    assert json.loads((real / "kept.json").read_bytes()) == {"version": 1, "things": ["a"]}


def test_leftovers_of_a_killed_process_are_removed(file: StateFile) -> None:
    file.update(adding("a"))
    file.path.with_name(".things.json.0123").write_text("half")
    file.update(adding("b"))
    assert others(file) == ["things.json.lock"]


def test_a_folder_that_may_not_be_used(file: StateFile, not_root: None) -> None:
    file.update(adding("a"))
    file.path.parent.chmod(0o500)
    with pytest.raises(StoreError, match=r"can't write .*: Permission denied"):
        file.update(adding("b"))
    assert file.read() == ["a"]
    file.path.parent.chmod(0)
    with pytest.raises(StoreError, match=r"can't read .*: Permission denied"):
        file.read()
    file.path.parent.chmod(0o700)


# -- a full disk ------------------------------------------------------------------------


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.os
def test_a_full_disk_leaves_the_file_unchanged(full_disk: Path) -> None:
    file = StateFile(full_disk / "things.json", "things")
    file.update(adding("a"))
    before = file.path.read_bytes()
    with pytest.raises(StoreError, match="No space left on device"):
        file.update(adding("x" * 100_000))
    assert file.path.read_bytes() == before
    assert others(file) == ["things.json.lock"]
    assert file.update(adding("b")) == ["a", "b"]


@pytest.mark.os
def test_a_partial_write_leaves_the_file_unchanged(file: StateFile) -> None:
    file.update(adding("a"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(StoreError, match="File too large"):
            file.update(adding("x" * 10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read() == ["a"]
    assert others(file) == ["things.json.lock"]


# -- others at the same time ------------------------------------------------------------


def test_another_process_that_never_ends_its_change(file: StateFile) -> None:
    file.update(adding("a"))
    lock = os.open(f"{file.path}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert file.read() == ["a"]
        with pytest.raises(StoreError, match="another process has been changing it for too long"):
            file.update(adding("b"))
    finally:
        os.close(lock)
    assert file.update(adding("b")) == ["a", "b"]


PROGRAM = """
import sys
from pathlib import Path
from engine.permission.grants.state_file import StateFile
file = StateFile(Path(sys.argv[1]), "things", lock_seconds=60)
for number in range(25):
    file.update(lambda entries: [*entries, f"{sys.argv[2]} {number}"])
"""


@pytest.mark.os
def test_concurrent_processes_lose_nothing(file: StateFile) -> None:
    seen = 0
    with ExitStack() as stack:
        processes = [stack.enter_context(python_process("-c", PROGRAM, str(file.path), str(one))) for one in range(4)]
        while any(process.poll() is None for process in processes):
            size = len(file.read())
            assert size >= seen  # whole at any time, and never less than before
            seen = size
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(map(str, file.read())) == sorted(f"{one} {number}" for one in range(4) for number in range(25))
    assert others(file) == ["things.json.lock"]


def test_concurrent_threads_lose_nothing(file: StateFile) -> None:
    patient = attrs.evolve(file, lock_seconds=60.0)
    threads = [threading.Thread(target=patient.update, args=(adding(number),)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, file.read())) == sorted(map(str, range(20)))


@pytest.mark.os
def test_a_killed_process_leaves_the_file_whole(file: StateFile) -> None:
    program = PROGRAM.replace("range(25)", "range(10 ** 9)")
    for _ in range(5):
        before = file.read()
        with python_process("-c", program, str(file.path), "x"):
            while len(file.read()) < len(before) + 5:
                pass
        assert file.read()[: len(before)] == before
    assert file.update(adding("end"))[-1] == "end"


# -- grants -----------------------------------------------------------------------------

ORIGIN = GrantOrigin(session_id=SessionId("s"), call_id=CallId("c"), tool="bash", granted=100.0, by="keyboard")
GRANT = Grant(id="g1", permission="bash", pattern="git \udc80 *", scope="project", project="/p", origin=ORIGIN)
LIMITED = attrs.evolve(GRANT, id="g2", until=500.0)


def test_grants_are_kept(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    assert file.load() == ()
    assert file.add(GRANT, 0) == (GRANT,)
    assert file.add(LIMITED, 0) == (GRANT, LIMITED)
    assert GrantFile(file.path).load() == (GRANT, LIMITED)
    assert file.add(attrs.evolve(GRANT, id="g3"), 500.0) == (GRANT, attrs.evolve(GRANT, id="g3"))
    assert file.revoke("g1") == (attrs.evolve(GRANT, id="g3"),)
    with pytest.raises(ConfigError, match="there is no grant 'g1' in"):
        file.revoke("g1")
    with pytest.raises(ConfigError, match="there is a grant g3 already"):
        file.add(attrs.evolve(GRANT, id="g3"), 0)
    assert file.load() == (attrs.evolve(GRANT, id="g3"),)


def test_a_grant_for_a_session_is_not_kept(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "grants.json")
    with pytest.raises(ConfigError, match="a grant for a session is not stored"):
        file.add(attrs.evolve(GRANT, scope="session", session_id=SessionId("s")), 0)
    assert not file.path.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"permission": None}, "permission must be a text"),
        ({"pattern": ""}, "has an id, a permission and a pattern"),
        ({"until": "later"}, "until must be a number"),
        ({"until": True}, "until must be a number"),
        ({"project": "p"}, "absolute path"),
        ({"agent": "plan"}, "it must have id, origin, pattern, permission, project, until, and nothing else"),
        ({"origin": {}}, "it must have by, call_id, granted, session_id, tool, and nothing else"),
        ({"origin": None}, "it must have by"),
        ({"id": "g2"}, "there are two grants g2"),
    ],
)
def test_one_invalid_grant_invalidates_the_file(tmp_path: Path, change: dict[str, object], words: str) -> None:
    file = GrantFile(tmp_path / "grants.json")
    file.add(GRANT, 0)
    file.add(LIMITED, 0)
    document = json.loads(file.path.read_bytes())
    document["grants"][0] |= change
    file.path.write_text(json.dumps(document))
    before = file.path.read_bytes()
    for use in (file.load, lambda: file.add(attrs.evolve(GRANT, id="g3"), 0), lambda: file.revoke("g2")):
        with pytest.raises(ConfigError) as error:
            use()
        assert words in str(error.value)
        assert "it is ignored" in str(error.value)
    assert file.path.read_bytes() == before


# -- trust ------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def trust(tmp_path: Path, home: Path) -> Trust:
    return Trust(tmp_path / "state" / "trust.json", home)


def folder(*parts: str | Path, git: bool = False) -> Path:
    path = Path(*parts)
    path.mkdir(parents=True)
    if git:
        (path / ".git").mkdir()
    return path


def test_trusted_folder_can_be_distrusted(trust: Trust, home: Path) -> None:
    project, link = folder(home, "app", git=True), home / "link"
    link.symlink_to(project)
    assert not trust.is_trusted(project)
    assert trust.trust(link) == str(project)
    assert trust.trust(project) == str(project)
    assert trust.trusted() == (str(project),)
    assert trust.is_trusted(project)
    assert trust.is_trusted(link)
    assert trust.distrust(link) == str(project)
    assert not trust.is_trusted(project)
    with pytest.raises(ConfigError, match=r"app is not trusted$"):
        trust.distrust(project)


def test_trust_extends_within_the_same_repository(trust: Trust, home: Path) -> None:
    project = folder(home, "app", git=True)
    inside, module = folder(project, "src", "deep"), folder(project, "vendor", "lib")
    (module / ".git").write_text("gitdir: ../../.git/modules/lib")
    trust.trust(project)
    assert trust.is_trusted(inside)
    assert trust.is_trusted(project / "not there yet")
    assert not trust.is_trusted(module)
    assert not trust.is_trusted(folder(module, "src"))
    assert not trust.is_trusted(folder(home, "apple"))
    assert not trust.is_trusted(home)
    with pytest.raises(ConfigError, match=r"src/deep is trusted because of .*/app$"):
        trust.distrust(inside)


def test_part_of_a_repository_can_be_trusted(trust: Trust, home: Path) -> None:
    project = folder(home, "app", git=True)
    part = folder(project, "src")
    trust.trust(part)
    assert trust.is_trusted(folder(part, "deep"))
    assert not trust.is_trusted(project)


def test_without_a_repository_trust_is_one_folder(trust: Trust, home: Path) -> None:
    downloads = folder(home, "downloads")
    trust.trust(downloads)
    assert trust.is_trusted(downloads)
    assert not trust.is_trusted(folder(downloads, "archive"))
    assert not trust.is_trusted(folder(downloads, "clone", git=True))


def test_a_home_repository_does_not_extend_trust(trust: Trust, home: Path) -> None:
    (home / ".git").mkdir()
    downloads = folder(home, "downloads")
    trust.trust(downloads)
    assert not trust.is_trusted(folder(downloads, "archive"))


def test_home_folder_is_never_trusted(trust: Trust, home: Path) -> None:
    for everything in ("/", home, home.parent):
        with pytest.raises(ConfigError, match="can't be trusted: it contains your home directory"):
            trust.trust(everything)
    assert not trust.path.exists()
    StateFile(trust.path, "folders").update(lambda _: ["/", str(home)])
    assert not trust.is_trusted("/")
    assert not trust.is_trusted(home)
    assert not trust.is_trusted(folder(home, "app"))


def test_links_out_of_a_trusted_folder_are_untrusted(trust: Trust, home: Path) -> None:
    project, outside = folder(home, "app", git=True), folder(home, "evil")
    (project / "link").symlink_to(outside)
    trust.trust(project)
    assert not trust.is_trusted(project / "link")


def test_only_folders_are_trusted(trust: Trust, home: Path) -> None:
    (home / "file").touch()
    for path in (home / "file", home / "nothing"):
        with pytest.raises(ConfigError, match="not a directory"):
            trust.trust(path)


def test_invalid_trust_file_trusts_nothing(trust: Trust, home: Path) -> None:
    project = folder(home, "app")
    trust.trust(project)
    trust.path.write_text(json.dumps({"version": 1, "folders": [str(project), 7]}))
    for use in (trust.is_trusted, trust.trust, trust.distrust):
        with pytest.raises(ConfigError, match="not all of its folders are absolute paths"):
            use(project)


def test_folder_name_that_is_no_text(trust: Trust, home: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(home) + b"/\xff\n"))
    odd.mkdir()
    trust.trust(odd)
    assert trust.is_trusted(odd)
