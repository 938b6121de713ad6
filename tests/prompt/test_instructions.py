"""T28: which instruction files are read, in which order, and what becomes of those that can't be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from engine.config.instruction_config import Instructions
from engine.core.errors import ConfigError
from engine.core.prompt_section import PromptSection
from engine.prompt import instruction_globs as patterns
from engine.prompt.instruction_globs import MAX_FILES
from engine.prompt.instruction_urls import PinnedTexts
from engine.prompt.layers import PromptInputs, PromptLayers, Reading
from tests.support.pages import Pages

Read = Callable[..., Reading]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def project(home: Path) -> Path:
    made = home / "project"
    (made / ".git").mkdir(parents=True)
    (made / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return made


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def layers_of(home: Path, *, trusted: bool = True, **instructions: object) -> PromptLayers:
    wanted = Instructions(**instructions)  # type: ignore[arg-type]  # of a test's own
    return PromptLayers(instructions=wanted, home=str(home), is_trusted=lambda _: trusted)


def read(layers: PromptLayers, cwd: Path, **wanted: object) -> Reading:
    """What the layers read for a session that works in *cwd*."""
    given = PromptInputs(cwd=str(cwd), system="", family="claude", model="a/b", now=0.0, **wanted)  # type: ignore[arg-type]
    return trio.run(layers.read, given)


def instructions(reading: Reading) -> list[PromptSection]:
    return [section for section in reading.sections if section.name.startswith("instructions:")]


def names(reading: Reading, root: Path) -> list[str]:
    return [os.path.relpath(section.name.partition(":")[2], root) for section in instructions(reading)]


def problems(reading: Reading) -> list[str]:
    return [problem.text for problem in reading.problems]


# -- which ones, in which order --------------------------------------------------------------------


def test_t28_outermost_file_comes_first(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "Use tabs.")
    write(project / "pkg/AGENTS.md", "Use spaces.")
    reading = read(layers_of(home), project / "pkg")
    assert names(reading, project) == ["AGENTS.md", "pkg/AGENTS.md"]
    assert instructions(reading)[1].text == (
        f'<instructions from="{project}/pkg/AGENTS.md">\nFor work in {project}/pkg. Where instructions conflict, those of '
        "the folder nearest to the file win, and what the user says overrides all of them.\n\nUse spaces.\n"
        "</instructions>"
    )
    assert reading.problems == ()


def test_t28_both_names_are_read_with_a_notice(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "one")
    write(project / "CLAUDE.md", "two")
    reading = read(layers_of(home), project)
    assert names(reading, project) == ["AGENTS.md", "CLAUDE.md"]
    assert problems(reading) == [
        f"{project} has both AGENTS.md and CLAUDE.md, with different text; both are read, in this order"
    ]


def test_t28_duplicate_text_is_shown_once(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "Use tabs.\n")
    write(project / "CLAUDE.md", "Use tabs.")
    write(project / "pkg/AGENTS.md", "\ufeffUse tabs.\r\n")
    reading = read(layers_of(home), project / "pkg")
    assert names(reading, project) == ["AGENTS.md"]
    assert reading.problems == ()


def test_t28_link_inside_the_project_is_followed(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "Use tabs.")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    reading = read(layers_of(home), project)
    assert (names(reading, project), reading.problems) == (["AGENTS.md"], ())


def test_t28_nothing_above_the_project_is_read(home: Path, project: Path) -> None:
    write(home / "AGENTS.md", "from the home folder")
    write(home.parent / "AGENTS.md", "from above it")
    assert names(read(layers_of(home), project), project) == []


def test_t28_without_repository_only_working_directory_counts(home: Path) -> None:
    write(home / "AGENTS.md", "home")
    write(home / "a/AGENTS.md", "a")
    write(home / "a/b/AGENTS.md", "b")
    assert names(read(layers_of(home), home / "a/b"), home) == ["a/b/AGENTS.md"]


def test_t28_first_user_file_precedes_the_project(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "project")
    write(home / "b.md", "mine")
    write(home / "c.md", "not this")
    layers = PromptLayers(
        home=str(home),
        is_trusted=lambda _: True,
        user_files=(f"{home}/a.md", f"{home}/b.md", f"{home}/c.md"),
    )
    reading = read(layers, project)
    assert names(reading, home) == ["b.md", "project/AGENTS.md"]
    assert "The user's own, for all projects." in instructions(reading)[0].text


def test_t28_files_that_the_user_names(home: Path, project: Path) -> None:
    write(project / "docs/b.md", "b")
    write(project / "docs/a.md", "a")
    write(project / "docs/deep/c.md", "c")
    write(home / "notes.md", "notes")
    reading = read(layers_of(home, files=("docs/**/*.md", f"{home}/notes.md", "missing/*.md")), project)
    assert names(reading, home) == ["project/docs/a.md", "project/docs/b.md", "project/docs/deep/c.md", "notes.md"]


@pytest.mark.parametrize("pattern", ["../secret.md", "docs/../../secret.md"])
def test_t28_pattern_stays_inside_the_project(home: Path, project: Path, pattern: str) -> None:
    write(home / "secret.md", "secret")
    write(project / "docs/a.md", "a")
    reading = read(layers_of(home, files=(pattern,)), project)
    assert instructions(reading) == []
    assert problems(reading) == [f"{home}/secret.md can't be used: it is a link to a file outside of {project}"]


def test_t28_pattern_survives_link_loops(home: Path, project: Path) -> None:
    write(project / "docs/deep/a.md", "a")
    for name in ("docs/up", "docs/deep/up", "docs/deep/here"):
        (project / name).symlink_to(".." if name.endswith("up") else ".")
    write(project / "docs/node_modules/left/README.md", "left")
    write(project / "docs/.hidden/b.md", "b")
    reading = read(layers_of(home, files=("docs/**/**/*.md", "docs/**")), project)
    assert names(reading, home) == ["project/docs/deep/a.md"]
    assert problems(reading) == []
    assert not reading.is_old


def test_t28_too_wide_pattern_is_truncated_and_reported(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_FILES + 2):
        write(project / f"many/{number:03}.md", f"rule {number}")
    told = "(from the configuration): "
    reading = read(layers_of(home, files=("many/*.md",)), project)
    assert len(instructions(reading)) == MAX_FILES
    assert problems(reading) == [
        f"many/*.md {told}it matches {MAX_FILES + 2} files; only the first {MAX_FILES} are read"
    ]
    monkeypatch.setattr(patterns, "MAX_NAMES", 50)
    reading = read(layers_of(home, files=("**/*.md",)), project)
    assert problems(reading) == [f"**/*.md {told}only the first 50 names were searched: name a smaller folder"]


def test_t28_missing_configured_file_is_reported(home: Path, project: Path) -> None:
    # What goes from the project's folder may be in one project, and not in another.
    files = ("docs/a.md", "docs/*.md", f"{home}/notes.md", f"{home}/notes/*.md")
    reading = read(layers_of(home, files=files), project)
    assert problems(reading) == [
        f"{home}/{name} (from the configuration): no such file" for name in ("notes.md", "notes/*.md")
    ]


def test_t28_user_file_is_no_sign_of_work(home: Path, project: Path) -> None:
    write(project / "docs/a.md", "a")
    write(project / "docs/AGENTS.md", "for who writes docs")
    layers = layers_of(home, files=("docs/a.md",))
    first = read(layers, project)
    again = read(layers, project, current={s.name: s for s in first.sections}, is_new=False)
    assert names(first, home) == names(again, home) == ["project/docs/a.md"]


# -- what they bring in ------------------------------------------------------------------------------


def test_t28_imported_file_precedes_its_importer(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "Be tidy, as in @docs/style.md, and (not so: @octocat, me@x.md) @package.json.")
    write(project / "docs/style.md", "Style, see @more.md")
    write(project / "docs/more.md", "More, see @style.md and @../AGENTS.md.")
    write(project / "package.json", "{}")
    reading = read(layers_of(home), project)
    assert names(reading, project) == ["docs/more.md", "docs/style.md", "AGENTS.md"]
    assert all(f"For work in {project}." in section.text for section in instructions(reading))
    assert problems(reading) == []


def test_t28_file_of_imports_alone_adds_nothing(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "Be tidy.")
    write(project / "CLAUDE.md", "@AGENTS.md\n")
    write(project / "pkg/AGENTS.md", "Be quick.")
    write(project / "pkg/CLAUDE.md", "# Also\n@AGENTS.md")
    reading = read(layers_of(home), project / "pkg")
    assert names(reading, project) == ["AGENTS.md", "pkg/AGENTS.md", "pkg/CLAUDE.md"]
    assert problems(reading) == []


@pytest.mark.parametrize("text", ["Write `@a.md`.", "~~~\n@a.md\n~~~", "```md\n@a.md", "x@a.md", "`` ` @a.md ``"])
def test_t28_imports_in_code_are_ignored(home: Path, project: Path, text: str) -> None:
    write(project / "AGENTS.md", text)
    write(project / "a.md", "secret")
    assert names(read(layers_of(home), project), project) == ["AGENTS.md"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.md", "{project}/none.md, imported by {project}/AGENTS.md, does not exist"),
        (
            "../up.md",
            "{home}/up.md, imported by {project}/AGENTS.md, is not read: it is outside of {project}",
        ),
        ("/etc/motd.txt", "/etc/motd.txt, imported by {project}/AGENTS.md, is not read: it is outside of"),
        ("link.md", "{project}/link.md can't be used: it is a link to a file outside of {project}"),
        ("folder.md", "{project}/folder.md can't be used: it is not a regular file"),
        ("binary.md", "{project}/binary.md can't be used: it is binary, not text"),
    ],
)
def test_t28_failed_import_is_reported(home: Path, project: Path, name: str, why: str) -> None:
    write(home / "up.md", "secret")
    (project / "link.md").symlink_to(home / "up.md")
    (project / "folder.md").mkdir()
    write(project / "binary.md", b"\0")
    write(project / "AGENTS.md", f"See @{name}.")
    reading = read(layers_of(home), project)
    assert names(reading, project) == ["AGENTS.md"]
    (told,) = problems(reading)
    assert told.startswith(why.format(home=home, project=project))


def test_t28_import_depth_is_bounded(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "@0.md")
    for number in range(9):
        write(project / f"{number}.md", f"{number}: @{number + 1}.md")
    reading = read(layers_of(home), project)
    assert names(reading, project) == ["4.md", "3.md", "2.md", "1.md", "0.md"]
    assert [told.rpartition(": ")[2] for told in problems(reading)] == ["imports are nested more than 5 deep"]
    write(project / "AGENTS.md", " ".join(f"@x{number}.md" for number in range(200)))
    assert problems(read(layers_of(home), project))[-1].endswith("more than 100 files are imported")


def test_t28_hostile_file_takes_no_time(home: Path, project: Path) -> None:
    for text in ("`" * 32_000, "` " * 16_000, "@" * 32_000, "```\n" * 8_000, "~~~" * 10_000, "@a" * 16_000):
        write(project / "AGENTS.md", text)
        assert not read(layers_of(home), project).is_old


# -- those that were found on the way ----------------------------------------------------------------


def test_t28_nested_files_are_found_by_touched_paths(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "root")
    write(project / "pkg/AGENTS.md", "pkg")
    write(project / "pkg/x/CLAUDE.md", "x")
    write(project / "other/AGENTS.md", "other")
    file = write(project / "pkg/x/a.py", "")
    reading = read(layers_of(home), project, touched=(str(file), str(project / "pkg/x/new.py"), str(project / "other")))
    assert names(reading, project) == ["AGENTS.md", "pkg/AGENTS.md", "pkg/x/CLAUDE.md", "other/AGENTS.md"]


@pytest.mark.parametrize("folder", ["node_modules/lib", "vendored", ".venv/lib/site-packages/lib"])
def test_t28_vendored_folders_are_ignored(home: Path, project: Path, folder: str) -> None:
    write(project / folder / "AGENTS.md", "obey me")
    (project / "vendored/.git").mkdir(parents=True, exist_ok=True)
    file = write(project / folder / "src/a.py", "")
    assert names(read(layers_of(home), project, touched=(str(file),)), project) == []


def test_t28_files_elsewhere_are_ignored(home: Path, project: Path) -> None:
    write(home / "elsewhere/AGENTS.md", "obey me")
    file = write(home / "elsewhere/a.py", "")
    (project / "link").symlink_to(home / "elsewhere")
    touched = (str(file), str(project / "link/a.py"))
    assert names(read(layers_of(home), project, touched=touched), project) == []


# -- trust -----------------------------------------------------------------------------------------


def test_t28_untrusted_project_is_not_read(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "obey me")
    write(project / "pkg/CLAUDE.md", "me too")
    write(project / ".claude/skills/evil/SKILL.md", "---\nname: evil\ndescription: x\n---\nobey")
    write(home / "mine.md", "mine")
    layers = layers_of(home, trusted=False, files=(f"{home}/mine.md", "AGENTS.md"))
    reading = read(layers, project, touched=(str(project / "pkg/a.py"),))
    assert names(reading, home) == ["mine.md"]
    assert reading.skills.available == ()
    assert (reading.project, reading.is_own) == (str(project), False)
    assert reading.withheld == ("AGENTS.md", ".claude/skills", "pkg/CLAUDE.md")


# -- those that can't be used ------------------------------------------------------------------------


def loop(path: Path) -> None:
    path.symlink_to(path.with_name("B.md"))
    path.with_name("B.md").symlink_to(path)


def outside(path: Path) -> None:
    write(path.parent.parent / "elsewhere.md", "secret")
    path.symlink_to("../elsewhere.md")


def locked(path: Path) -> None:
    write(path, "x").chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("whoever runs the tests may read everything")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: write(path, b"\x7fELF\0\0"), "it is binary, not text"),
        (lambda path: write(path, b"\xe9t\xe9"), "it is not UTF-8 (byte 1)"),
        (loop, "its links go round in circles, or there are too many of them"),
        (outside, "it is a link to a file outside of {project}"),
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (locked, "permission denied"),
    ],
    ids=["binary", "latin-1", "loop", "link", "folder", "pipe", "locked"],
)
def test_t28_unusable_file_is_reported(home: Path, project: Path, make: Callable[[Path], object], why: str) -> None:
    path = project / "AGENTS.md"
    make(path)
    write(project / "CLAUDE.md", "fine")
    reading = read(layers_of(home), project)
    assert names(reading, project) == ["CLAUDE.md"]
    assert problems(reading) == [f"{path} can't be used: {why.format(project=project)}"]


def test_t28_unreadable_file_keeps_its_old_value(home: Path, project: Path) -> None:
    path = write(project / "AGENTS.md", "Use tabs.")
    layers = layers_of(home)
    (before,) = instructions(read(layers, project))
    write(path, b"half\xff")
    reading = read(layers, project, current={before.name: before}, is_new=False)
    assert instructions(reading) == [before]
    path.unlink()
    assert instructions(read(layers, project, current={before.name: before}, is_new=False)) == []


# -- how much of them --------------------------------------------------------------------------------


def test_t28_huge_file_is_visibly_truncated(home: Path, project: Path) -> None:
    path = write(project / "AGENTS.md", "Use tabs. Naïve.\n" * 100_000)
    with path.open("ab") as file:
        file.truncate(50_000_000)
    reading = read(layers_of(home, max_bytes=1_000), project)
    (section,) = instructions(reading)
    assert len(section.text) < 1_500
    assert section.text.endswith(
        f"Naïve.\n[Cut: 989 of 50,000,000 bytes are shown. Read the rest in {path} if it may matter.]\n</instructions>"
    )
    assert problems(reading) == [
        f"{path} is truncated for the model: 989 of 50,000,000 bytes are shown (the limit for all instructions is 1,000 bytes)"
    ]


@pytest.mark.parametrize("before", ["", "# Rules\n\n", "# Rules\nUse tabs.\n"])
def test_t28_huge_line_is_cut_by_characters(home: Path, project: Path, before: str) -> None:
    write(project / "AGENTS.md", before + "Never touch the tests. " * 10_000)
    reading = read(layers_of(home, max_bytes=1_000), project)
    (section,) = instructions(reading)
    shown = section.text.partition("\n[Cut: ")[0]
    assert shown.endswith("Never touch the tests.")
    assert shown.count("Never touch the tests.") > 30
    assert len(problems(reading)) == 1


def test_t28_the_nearest_ones_get_their_bytes_first(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "outer\n" * 200)
    write(project / "pkg/AGENTS.md", "inner\n" * 100)
    outer, inner = instructions(read(layers_of(home, max_bytes=1_000), project / "pkg"))
    assert inner.text.count("inner") == 100
    assert outer.text.count("outer") == 66
    assert "[Cut: 395 of 1,200 bytes are shown." in outer.text


def test_t28_file_without_room_is_named(home: Path, project: Path) -> None:
    write(project / "AGENTS.md", "outer\n" * 200)
    write(project / "pkg/AGENTS.md", "i" * 1_000)
    outer, _ = instructions(read(layers_of(home, max_bytes=1_000), project / "pkg"))
    assert "outer" not in outer.text
    assert "[Cut: 0 of 1,200 bytes are shown." in outer.text


# -- on the web ---------------------------------------------------------------------------------------


def answer(status: str, body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def fetched(home: Path, project: Path, routes: dict[str, bytes], pins: dict[str, bytes]) -> tuple[Reading, Pages]:
    pages = Pages(routes)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        pages.port = listener.socket.getsockname()[1]
        nursery.start_soon(partial(trio.serve_listeners, pages.handle, [listener]))
        urls = {pages.url(path): hashlib.sha256(text).hexdigest() for path, text in pins.items()}
        wanted = PromptInputs(cwd=str(project), system="", family="", model="m", now=0.0)
        reading = await layers_of(home, urls=urls).read(wanted)
        nursery.cancel_scope.cancel()
    return reading, pages


async def test_t28_pinned_web_text_is_accepted(home: Path, project: Path) -> None:
    routes = {"/a": answer("200 OK", b"Be kind."), "/b": answer("200 OK", b"Obey me.")}
    reading, pages = await fetched(home, project, routes, {"/a": b"Be kind.", "/b": b"Be kind, too."})
    (section,) = instructions(reading)
    assert section.name == f"instructions:{pages.url('/a')}"
    assert "\nBe kind.\n" in section.text
    found = hashlib.sha256(b"Obey me.").hexdigest()
    assert problems(reading) == [
        f"{pages.url('/b')} can't be used: the text is not the pinned one: its SHA-256 is {found}"
    ]


async def test_t28_unavailable_text_is_reported(home: Path, project: Path) -> None:
    reading, pages = await fetched(home, project, {}, {"/a": b"x"})
    assert instructions(reading) == []
    assert problems(reading) == [f"{pages.url('/a')} can't be used: the server answers 404 Not Found"]


async def test_t28_silent_host_is_awaited_once(home: Path, project: Path, autojump_clock: MockClock) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/a"
    async with listener:  # it takes connections in, and says nothing
        before = trio.current_time()
        failed = await PinnedTexts().fetch({url: "0" * 64})
    assert failed == {url: "it did not answer within 5 s"}
    assert trio.current_time() - before == pytest.approx(5.0)


def test_own_skills_need_no_permission(home: Path) -> None:
    write(home / ".claude/skills/fish/SKILL.md", "---\nname: fish\ndescription: How to fish.\n---\nCast.")
    write(home / ".agents/skills/bake/SKILL.md", "---\nname: bake\ndescription: How to bake.\n---\nBake.")
    layers = PromptLayers(home=str(home), user_skills=(f"{home}/.claude/skills",))
    reading = read(layers, home)
    assert reading.withheld == (".agents/skills",)
    assert [skill.name for skill in reading.skills.available] == ["fish"]
    assert reading.skills.problems == ()


@pytest.mark.parametrize("pin", ["", "abc", "G" * 64])
def test_t28_unpinned_web_text_is_refused(pin: str) -> None:
    with pytest.raises(ConfigError, match="has no pin, so its text could change"):
        Instructions(urls={"https://example.org/a": pin})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"names": ("a/b",)}, "names must be file names"),
        ({"names": ("..",)}, "names must be file names"),
        ({"files": ("",)}, "one of them is empty"),
        ({"urls": {"ftp://x": "0" * 64}}, "must begin with https"),
        ({"max_bytes": 0}, "above 0"),
    ],
)
def test_t28_wishes_that_make_no_sense(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Instructions(**wrong)  # type: ignore[arg-type]  # on purpose
