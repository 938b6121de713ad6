"""Skills: folders with a SKILL.md that tells a model how to do something. Everything here blocks.

Each folder contains one subfolder per skill, named after the skill. A skill that can't be used is reported and does
not affect the others; one with a harmless mistake is used, with a warning. `skill_fields` reads what its front matter says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from engine.core.lazy import regex
from engine.core.prompt_section import PromptSection
from engine.core.value_base import Value
from engine.files.escaping import inert
from engine.files.real_path import is_within
from engine.prompt.skill_fields import optional_fields

if TYPE_CHECKING:
    from engine.files.front_matter import Document

FILE: Final = "SKILL.md"
SECTION: Final = "skills"
TOOL: Final = "skill"
# About 4,000 tokens: the list is a part of every request.
MAX_SECTION_CHARS: Final = 16_000
MAX_SKILLS: Final = 200
MAX_BYTES: Final = 100_000
MAX_DESCRIPTION_CHARS: Final = 1_024
# Files of a skill that its text may refer to; the model lists the folder if there are more.
MAX_FILES: Final = 50
# Bounds for a folder that turns out to be something else, such as a home folder.
_MAX_ENTRIES: Final = 2_000
_MAX_DEPTH: Final = 3
_INTRO: Final = (
    "Skills: instructions of this user or this project for kinds of work. Load one with the tool `skill` as soon as "
    "the task fits its description, before you begin."
)
# From the open format for skills. The name is also that of the folder.
_NAME: Final = regex(r"[a-z0-9]+(-[a-z0-9]+)*")


class SkillError(Exception):
    """A skill can't be used; the message says why."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Skill(Value):
    """A skill.

    Attributes:
        name: its name; of a plugin's skill, `plugin:name`.
        description: its purpose, in one line.
        folder: its folder, links resolved.
        license: its license, or the name of a file that has it.
        compatibility: what it needs of its environment.
        metadata: what its author adds, for other programs.
        allowed_tools: the tools that its author expects it to use, such as `Bash(git:*)`. They grant nothing.
        others: the fields that the format does not know; of a list or a map, its YAML.
        warnings: harmless mistakes in it.
    """

    name: str
    description: str
    folder: Path
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()
    others: Mapping[str, str] = attrs.field(factory=dict[str, str])
    warnings: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Skills(Value):
    """The skills of some folders.

    Attributes:
        available: the skills, sorted by name.
        problems: path and error of each folder that can't be used.
    """

    available: tuple[Skill, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> Skill | None:
        """Return the skill of that name."""
        return next((skill for skill in self.available if skill.name == name), None)

    def problem(self, name: str) -> str:
        """Return why the skill in a folder of that name can't be used; empty if it can."""
        return next((why for path, why in self.problems if Path(path).name == name), "")


@attrs.frozen(eq=False, repr=False)
class SkillFolder(Value):
    """A folder of skills.

    Attributes:
        folder: its path; `~` is the home folder.
        within: links in it may lead into this folder; empty: only into the folders that are searched.
        plugin: the plugin that it belongs to, which is a part of its skills' names; empty: none.
    """

    folder: str | os.PathLike[str]
    within: str = ""
    plugin: str = ""


def find_skills(folders: Iterable[str | os.PathLike[str] | SkillFolder]) -> Skills:
    """Return the skills in these folders; the earlier folder wins. It blocks. Problems are reported, not raised."""
    problems: list[tuple[str, str]] = []
    skill_folders = [each if isinstance(each, SkillFolder) else SkillFolder(each) for each in folders]
    roots = [Path(each.folder).expanduser() for each in skill_folders]
    searched = [os.path.realpath(root) for root in roots]
    skills: dict[str, Skill] = {}
    for each, root in zip(skill_folders, roots, strict=True):
        allowed = [*searched, os.path.realpath(each.within)] if each.within else searched
        for path in _candidates(root, problems):
            try:
                _add(skills, _load_skill(path, allowed, each.plugin))
            except (SkillError, OSError) as error:
                problems.append((str(path), _error_text(error)))
    return Skills(available=tuple(sorted(skills.values(), key=lambda skill: skill.name)), problems=tuple(problems))


def _add(skills: dict[str, Skill], skill: Skill) -> None:
    """Add *skill*. Raises `SkillError` if its name is in use, or there are too many."""
    other = skills.get(skill.name)
    if other is None and len(skills) == MAX_SKILLS:
        raise SkillError(f"there are more than {MAX_SKILLS} skills")
    # The same skill may be there twice by a link: some users share one between several agents' folders.
    if other is not None and other.folder != skill.folder:
        raise SkillError(f"{other.folder} has the same name")
    skills[skill.name] = skill


def skill_list(skills: Iterable[Skill], room: int) -> str:
    """Return the list of skills for the model, one line each; beyond *room* characters, only the names."""
    lines: list[str] = []
    for skill in skills:
        line = f"- {skill.name}: {skill.description}"
        room -= len(line)
        lines.append(line if room > 0 else f"- {skill.name}")
    return "\n".join(lines)


def skill_section(skills: Iterable[Skill]) -> PromptSection | None:
    """Return the prompt section that lists *skills*; None if there are none."""
    lines = inert(skill_list(skills, MAX_SECTION_CHARS))
    return PromptSection(name=SECTION, text=f"{_INTRO}\n{lines}", source="folders of skills") if lines else None


def read_skill(skill: Skill) -> str:
    """Return the text of a skill. Raises `SkillError`. It blocks."""
    try:
        document = _read(skill.folder)
    except (SkillError, OSError) as error:
        raise SkillError(_error_text(error)) from error
    if not document.body:
        raise SkillError(f"its {FILE} has no text")
    return document.body


def skill_files(skill: Skill) -> list[str]:
    """Return the first of the other files of a skill, relative to its folder. It blocks."""
    # One more than is shown tells the caller that the list is incomplete.
    names = sorted(name for name, _ in zip(_walk(skill.folder, "", 1), range(_MAX_ENTRIES), strict=False))
    return [name for name in names if name != FILE][: MAX_FILES + 1]


def _candidates(root: Path, problems: list[tuple[str, str]]) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []  # most of the usual folders do not exist
    except (OSError, ValueError) as error:
        problems.append((str(root), _error_text(error)))
        return []
    return [root / name for name in sorted(names) if not name.startswith(".") and os.path.lexists(root / name / FILE)]


def is_skill_name(name: str) -> bool:
    """Return whether the format allows that name."""
    return len(name) <= 64 and _NAME.fullmatch(name) is not None


def _load_skill(path: Path, inside: Sequence[str], plugin: str = "") -> Skill:
    real = Path(os.path.realpath(path))
    # Otherwise a project could present any folder of the user's as a skill, and have its files read.
    if not any(is_within(str(real), each) for each in inside) or os.path.islink(real / FILE):  # noqa: PTH114 - quick
        raise SkillError("it is a link to another folder: configure the folder that it is really in")
    document = _read(real)
    name, description = document.fields.get("name", ""), " ".join(document.fields.get("description", "").split())
    if not is_skill_name(name):
        raise SkillError(f"its name must be at most 64 lower-case letters, digits and single dashes, not {name[:80]!r}")
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise SkillError(f"its description must have 1 to {MAX_DESCRIPTION_CHARS:,} characters")
    optional, warnings = optional_fields(document)
    # The format wants the two to be equal; many skills in the wild have just been copied into another folder.
    if name != path.name:
        warnings = (f"its name is {name}, but the name of its folder differs", *warnings)
    return Skill(
        name=f"{plugin}:{name}" if plugin else name,
        description=description,
        folder=real,
        license=optional.license,
        compatibility=optional.compatibility,
        metadata=optional.metadata,
        allowed_tools=optional.allowed_tools,
        others=optional.others,
        warnings=warnings,
    )


def _read(folder: Path) -> Document:
    # Non-blocking: the path may be a pipe without a writer. No link: links were resolved before.
    from engine.files.front_matter import FrontMatterError, parse_document

    descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SkillError(f"its {FILE} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SkillError(f"its {FILE} is larger than {MAX_BYTES:,} bytes")
    try:
        return parse_document(data.decode())
    except UnicodeDecodeError as error:
        raise SkillError(f"its {FILE} is not UTF-8 (byte {error.start:,})") from error
    except FrontMatterError as error:
        raise SkillError(f"{FILE}: {error}") from error


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


def _error_text(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
