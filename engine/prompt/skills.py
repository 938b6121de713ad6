"""Skills: folders with a SKILL.md that tells a model how to do something.

Each folder of the list holds skills, one folder each, named as the skill is. A skill
that can't be used does not keep the others from being used: it is reported. All of it
blocks, so it runs where a program is put together, or in a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.files.front_matter import Document, FrontMatterError, parse_document
from engine.files.real_path import is_within

FILE: Final = "SKILL.md"
MAX_SKILLS: Final = 200
MAX_BYTES: Final = 100_000
MAX_DESCRIPTION_CHARS: Final = 1_024
MAX_FILES: Final = 50
_MAX_ENTRIES: Final = 2_000
_MAX_DEPTH: Final = 3
# As the open format for skills has it: it is also the folder's name, so nothing else can be one.
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class SkillError(Exception):
    """A skill can't be used; the text says why."""


@attrs.frozen(kw_only=True)
class Skill:
    """A skill that was found.

    Attributes:
        name: what it is called by.
        description: what it is for, in one line.
        folder: where it is, links resolved.
    """

    name: str
    description: str
    folder: Path


@attrs.frozen(kw_only=True)
class Skills:
    """What was found.

    Attributes:
        found: the skills, sorted by name.
        problems: why others can't be used, by the path of their folder.
    """

    found: tuple[Skill, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> Skill | None:
        """Return the skill of that name."""
        return next((skill for skill in self.found if skill.name == name), None)

    def problem(self, name: str) -> str:
        """Return why the skill in a folder of that name can't be used; empty if there is none."""
        return next((why for path, why in self.problems if Path(path).name == name), "")


@attrs.frozen
class Shelf:
    """A folder of skills.

    Attributes:
        folder: where it is; `~` is the home folder.
        within: a folder that links in it may lead to; empty: to the folders that are looked into, and nowhere else.
    """

    folder: str | os.PathLike[str]
    within: str = ""


def find_skills(folders: Iterable[str | os.PathLike[str] | Shelf]) -> Skills:
    """Return the skills in these folders; of two of one name, the one in the earlier folder. It blocks, and never fails."""
    found: dict[str, Skill] = {}
    problems: list[tuple[str, str]] = []
    shelves = [each if isinstance(each, Shelf) else Shelf(each) for each in folders]
    roots = [Path(shelf.folder).expanduser() for shelf in shelves]
    inside = [os.path.realpath(root) for root in roots]
    for shelf, root in zip(shelves, roots, strict=True):
        allowed = [*inside, os.path.realpath(shelf.within)] if shelf.within else inside
        for path in _candidates(root, problems):
            try:
                skill = _look_at(path, allowed)
                other = found.get(skill.name)
                if other is not None and other.folder == skill.folder:
                    continue  # the same one, by a link: some put one into the folders of several programs
                if other is not None:
                    raise SkillError(f"{other.folder} has that name already")
                if len(found) == MAX_SKILLS:
                    raise SkillError(f"there are {MAX_SKILLS} skills already")
                found[skill.name] = skill
            except (SkillError, OSError) as error:
                problems.append((str(path), _words(error)))
    return Skills(found=tuple(sorted(found.values(), key=lambda skill: skill.name)), problems=tuple(problems))


def listed(skills: Iterable[Skill], room: int) -> str:
    """Return the skills as a model reads them, a line each; once the *room* is used up, their names only."""
    lines: list[str] = []
    for skill in skills:
        line = f"- {skill.name}: {skill.description}"
        room -= len(line)
        lines.append(line if room > 0 else f"- {skill.name}")
    return "\n".join(lines)


def read_skill(skill: Skill) -> str:
    """Return what a skill says. Raises `SkillError`. It blocks."""
    try:
        document = _read(skill.folder)
    except (SkillError, OSError) as error:
        raise SkillError(_words(error)) from error
    if not document.body:
        raise SkillError(f"its {FILE} says nothing")
    return document.body


def files_of(skill: Skill) -> list[str]:
    """Return the other files of a skill, as seen from its folder, the first few of them. It blocks."""
    found = sorted(name for name, _ in zip(_walk(skill.folder, "", 1), range(_MAX_ENTRIES), strict=False))
    return [name for name in found if name != FILE][: MAX_FILES + 1]


def _candidates(root: Path, problems: list[tuple[str, str]]) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []  # a list of the usual places names many that are not there
    except (OSError, ValueError) as error:
        problems.append((str(root), _words(error)))
        return []
    return [root / name for name in sorted(names) if not name.startswith(".") and os.path.lexists(root / name / FILE)]


def _look_at(path: Path, inside: Sequence[str]) -> Skill:
    real = Path(os.path.realpath(path))
    if not any(is_within(str(real), each) for each in inside) or os.path.islink(real / FILE):  # noqa: PTH114 - quick
        raise SkillError("it leads out of its folder by a link: name the folder that it really is in")
    fields = _read(real).fields
    name, description = fields.get("name", ""), " ".join(fields.get("description", "").split())
    if not _NAME.fullmatch(name) or len(name) > 64:
        raise SkillError(f"its name must be up to 64 small letters, digits and single dashes, not {name[:80]!r}")
    if name != path.name:
        raise SkillError(f"its name is {name}, so its folder must be called that")
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise SkillError(f"its description must be a text of at most {MAX_DESCRIPTION_CHARS:,} characters")
    return Skill(name=name, description=description, folder=real)


def _read(folder: Path) -> Document:
    # Not blocking: a pipe of that name may have nobody at its other end. No link: it was looked where it leads.
    descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SkillError(f"its {FILE} is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SkillError(f"its {FILE} is larger than {MAX_BYTES:,} bytes")
    try:
        return parse_document(data.decode())
    except UnicodeDecodeError as error:
        raise SkillError(f"its {FILE} is not UTF-8 (byte {error.start:,})") from error
    except FrontMatterError as error:
        raise SkillError(f"of its {FILE}: {error}") from error


def _walk(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            listed = [entry for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except OSError:
        return
    for entry in listed:
        if entry.name.startswith(".") or not entry.name.isprintable() or entry.is_symlink():
            continue
        if entry.is_dir() and depth < _MAX_DEPTH:
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/", depth + 1)
        elif entry.is_file():
            yield prefix + entry.name


def _words(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
