"""`PromptLayers`: what a host wants the prompt to be made of, and the reading of it.

The layers, in their order: how to work (the host's own words, or those for the model's
family), the environment, instructions, skills, sections of the host's own, the mode. A
session keeps them as they were when it began; see `engine.nursery.request_prefix` for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from engine.config.instruction_config import Instructions
from engine.core.errors import ConfigError, EngineError
from engine.core.exception_groups import describe
from engine.core.prompt_section import PromptSection
from engine.core.threads import to_thread, to_thread_within
from engine.files.escaping import shown_path
from engine.files.real_path import is_within
from engine.prompt.environment import environment_sections
from engine.prompt.family_text import base_section
from engine.prompt.instruction_urls import PinnedTexts
from engine.prompt.instructions import (
    PREFIX,
    InstructionReader,
    Named,
    Problem,
    named_candidates,
    project_candidates,
    touched_candidates,
    users_candidates,
)
from engine.prompt.reminders import MODE
from engine.prompt.skills import Shelf, Skills, find_skills
from engine.prompt.workspace import SKILLS, Place

Source = Callable[[str], str | None]
EXTRA: Final = "extra:"
# Reading takes a few milliseconds. A network mount that is gone takes for ever, and a turn must not.
SECONDS: Final = 5.0
_SHOWN: Final = 8


@attrs.frozen(kw_only=True)
class Wanted:
    """What sections are to be read for.

    Attributes:
        cwd: the working directory.
        system: the host's own prompt; empty: that for the family.
        family: the model's, as the catalogue has it.
        model: its name.
        now: seconds since the epoch.
        project: the project whose own files may be read; empty: none.
        told: what the model knows already.
        touched: files and folders that tools have worked on since.
        with_instructions: whether instructions are shown at all: not to all sub-agents.
        is_new: it is a new baseline: texts on the web are fetched, patterns looked for.
        has_moved: what the model knows is of another folder.
    """

    cwd: str
    system: str
    family: str
    model: str
    now: float
    project: str = ""
    told: Mapping[str, PromptSection] = attrs.field(factory=dict[str, PromptSection])
    touched: tuple[str, ...] = ()
    with_instructions: bool = True
    is_new: bool = True
    has_moved: bool = False


@attrs.frozen(kw_only=True)
class Reading:
    """What was read.

    Attributes:
        project: the folder of the project; empty: there is none.
        is_own: its own files may be read, and were.
        withheld: what it brings along for an agent, as seen from its folder, where that may not be read.
        sections: in their order, but for the skills, which come after those of `ahead`.
        ahead: how many of the sections come before the skills.
        skills: what was found.
        problems: what the user should know of the instructions.
        is_old: nothing could be read, so this is what the model knows, the skills among it.
    """

    project: str
    is_own: bool
    withheld: tuple[str, ...]
    sections: tuple[PromptSection, ...]
    ahead: int
    skills: Skills
    problems: tuple[Problem, ...] = ()
    is_old: bool = False

    @property
    def brings(self) -> str:
        """What is withheld, for a person."""
        names = ", ".join(shown_path(name) for name in self.withheld[:_SHOWN])
        more = len(self.withheld) - _SHOWN
        return f"{names} and {more} more" if more > 0 else names


def _nobody(_: str) -> bool:
    return False


@attrs.define(eq=False)
class _Attempt:
    """A reading that took too long; its thread may be at it still."""

    is_over: bool = False


@attrs.define(eq=False, kw_only=True)
class PromptLayers:
    """What the prompt of an engine's sessions is made of. Given to `open_engine(prompt=…)`.

    A session's prompt is read before its first request and stays as it was then. What
    changes after that is told in a message.

    Attributes:
        instructions: which files hold instructions; None: none are read.
        user_files: the user's own instructions; the first one that is there counts. `~` is the home folder.
        user_skills: folders with the user's own skills.
        sources: further sections, by name: functions of the working directory which return a text, or None, and may
            block. One that fails keeps its old value.
        is_trusted: whether a project's own files may be read, by its folder; it may block, and raise `EngineError`.
        trust: remember that they may; None: it can't be remembered, and nobody is asked to.
        home: the user's home folder: no project begins above it.
        seconds: what can't be read within so many seconds keeps its old value: a network mount may be gone.
    """

    instructions: Instructions | None = attrs.field(factory=Instructions)
    user_files: tuple[str, ...] = ()
    user_skills: tuple[str, ...] = ()
    sources: Mapping[str, Source] = attrs.field(factory=dict[str, Source])
    is_trusted: Callable[[str], bool] = _nobody
    trust: Callable[[str], object] | None = None
    home: str = attrs.field(factory=lambda: os.path.expanduser("~"))  # noqa: PTH111 - a str
    seconds: float = SECONDS
    _pinned: PinnedTexts = attrs.field(factory=PinnedTexts, init=False)
    _readable: set[str] = attrs.field(factory=set[str], init=False)
    _said: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)
    _asked: set[str] = attrs.field(factory=set[str], init=False)
    _named: dict[Place, Named] = attrs.field(factory=dict[Place, Named], init=False)
    _late: dict[str, _Attempt] = attrs.field(factory=dict[str, _Attempt], init=False)

    def __attrs_post_init__(self) -> None:
        if not all(callable(each) for each in (self.is_trusted, *self.sources.values())):
            raise ConfigError("is_trusted and the sources of a prompt are functions of a folder")
        if not self.seconds > 0:
            raise ConfigError(f"seconds must be above 0, not {self.seconds}")

    # -- for a turn ------------------------------------------------------------------------

    async def remember(self, project: str) -> str:
        """Trust a project for good; return why that could not be written down. A checkpoint."""
        if self.trust is None:
            return ""
        try:
            # It is short, and must not be left half done.
            await to_thread(self.trust, project, abandon_on_cancel=False)
        except EngineError as error:
            return str(error)
        return ""

    def is_first(self, project: str) -> bool:
        """Tell whether nobody has said yet if the project's own files may be read. Not a checkpoint."""
        return project not in self._asked

    def answered(self, project: str) -> None:
        """Somebody has been asked about the project: that is enough as long as the engine lives. Not a checkpoint."""
        self._asked.add(project)

    def is_news(self, session: str, text: str) -> bool:
        """Tell whether *text* is told to a session for the first time. Not a checkpoint."""
        is_first = (session, text) not in self._said
        self._said.add((session, text))
        return is_first

    def may_read(self, project: str) -> None:
        """Let the project's own files be read as long as the engine lives. Not a checkpoint."""
        self._readable.add(project)

    async def read(self, wanted: Wanted) -> Reading:
        """Return what the prompt would be now. A checkpoint; if cancelled, the thread that reads is abandoned."""
        failed: dict[str, str] = {}
        if wanted.is_new and wanted.with_instructions and self.instructions is not None:
            failed = await self._pinned.fetch(self.instructions.urls)
        late = self._late.get(wanted.cwd)
        if late is not None and not late.is_over:  # who waits for it now would wait in vain, and use up a thread
            await trio.lowlevel.checkpoint()
            return self._known(wanted)
        attempt = _Attempt()
        try:
            return await to_thread_within(self.seconds, self._attempt, attempt, wanted, failed)
        except trio.TooSlowError:
            self._late[wanted.cwd] = attempt
            return self._known(wanted)

    # -- for tools -------------------------------------------------------------------------

    def skills_at(self, cwd: str) -> Skills:
        """Return the skills that can be loaded in a working directory: what `skill_tool` is given. It blocks."""
        place = Place.of(cwd, self.home)
        return self._skills(place, place.project if self._may_read(place.project) else "")

    def may_have_skills(self, cwd: str) -> bool:
        """Tell whether there are skills there, or there will be once the project is trusted. It blocks."""
        place = Place.of(cwd, self.home)
        return bool(self._skills(place, place.project).found)

    def _known(self, wanted: Wanted) -> Reading:
        """Return what the model knows, as far as it holds, for what can't be read now."""
        known = () if wanted.has_moved else [one for one in wanted.told.values() if one.name not in {"base", MODE}]
        sections = (base_section(wanted.system, wanted.family), *known)
        said = f"what a prompt is made of could not be read within {self.seconds:g} s, so what was known before stands"
        return Reading(
            project=wanted.project,
            is_own=bool(wanted.project) and not wanted.has_moved,
            withheld=(),
            sections=sections,
            ahead=len(sections),
            skills=Skills(),
            problems=(Problem(kind="unusable", text=said),),
            is_old=True,
        )

    # -- in a thread -----------------------------------------------------------------------

    def _attempt(self, attempt: _Attempt, wanted: Wanted, failed: Mapping[str, str]) -> Reading:
        try:
            return self._read(wanted, failed)
        finally:
            attempt.is_over = True

    def _may_read(self, project: str) -> bool:
        try:
            return bool(project) and (project in self._readable or self.is_trusted(project))
        except EngineError:  # a file that makes no sense trusts nobody
            return False

    def _read(self, wanted: Wanted, failed: Mapping[str, str]) -> Reading:
        place = Place.of(wanted.cwd, self.home)
        is_own = bool(place.project) and (place.project == wanted.project or self._may_read(place.project))
        sections = [base_section(wanted.system, wanted.family)]
        sections += environment_sections(place, model=wanted.model, now=wanted.now)
        problems: list[Problem] = []
        if self.instructions is not None and wanted.with_instructions:
            reader = InstructionReader(wanted=self.instructions, told=wanted.told)
            self._read_instructions(reader, wanted, place, failed, is_own=is_own)
            sections += reader.sections
            problems += reader.problems
        ahead = len(sections)
        for name, source in self.sources.items():
            self._ask(name, source, wanted, sections, problems)
        return Reading(
            project=place.project,
            is_own=is_own,
            withheld=() if is_own else self._withheld(place, wanted),
            sections=tuple(sections),
            ahead=ahead,
            skills=self._skills(place, place.project if is_own else ""),
            problems=tuple(problems),
        )

    def _withheld(self, place: Place, wanted: Wanted) -> tuple[str, ...]:
        files = self.instructions if wanted.with_instructions else None
        # In the home folder the user's own skills lie where a project's would.
        users = {os.path.realpath(os.path.expanduser(folder)) for folder in self.user_skills}  # noqa: PTH111 - a str
        brought = place.brings(() if files is None else files.names)
        found = [name for name in brought if f"{place.project.rstrip('/')}/{name}" not in users]
        if files is not None and place.project:
            named = [each for each in self._named[place].candidates if each.within]
            there = [*named, *touched_candidates(files, place, wanted.touched)]
            found += [each.path[len(place.project) :].lstrip("/") for each in there if os.path.lexists(each.path)]
        return tuple(dict.fromkeys(found))

    def _read_instructions(
        self, reader: InstructionReader, wanted: Wanted, place: Place, failed: Mapping[str, str], *, is_own: bool
    ) -> None:
        files = reader.wanted
        for url in files.urls:
            if url in failed:
                reader.keep(PREFIX + url, f"{url} can't be used: {failed[url]}")
            elif url not in self._pinned.known(files.urls) and PREFIX + url in wanted.told:
                reader.sections.append(wanted.told[PREFIX + url])  # known from before a restart
        if wanted.is_new or place not in self._named:
            self._named[place] = named_candidates(files, place)
        reader.problems += self._named[place].problems
        named = [each for each in self._named[place].candidates if is_own or not each.within]
        pinned = list(self._pinned.known(files.urls).items())
        chain = list(project_candidates(files, place)) if is_own else []
        reader.read_baseline([*users_candidates(self.user_files), *named, *chain], pinned)
        known = [name.removeprefix(PREFIX) for name in wanted.told if name.startswith(f"{PREFIX}/")]
        # One that the user has named is no sign that its folder is worked in.
        met = [path for path in known if path.rpartition("/")[2] in files.names]
        if is_own:
            reader.read_nested(touched_candidates(files, place, [*met, *wanted.touched]))
        elif not wanted.is_new:  # somebody has let them be read, for as long as another engine lived
            reader.sections += [wanted.told[PREFIX + path] for path in known if is_within(path, place.project)]

    def _ask(
        self, name: str, source: Source, wanted: Wanted, sections: list[PromptSection], problems: list[Problem]
    ) -> None:
        try:
            text = source(wanted.cwd)
            if text is not None:
                sections.append(PromptSection(name=EXTRA + name, text=_checked(text), source=name))
        except Exception as error:  # noqa: BLE001  # the host's code: the model goes on with what it knows
            problems.append(Problem(kind="unusable", text=f"the section {name} can't be had: {describe(error)}"))
            if EXTRA + name in wanted.told:
                sections.append(wanted.told[EXTRA + name])

    def _skills(self, place: Place, project: str) -> Skills:
        # The user's come first: a project must not put something else in place of one of them.
        users = [Shelf(folder, within=self.home) for folder in self.user_skills]
        own = [] if not project else place.own_folders(SKILLS)
        return find_skills([*users, *(Shelf(folder, within=project) for folder in own)])


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"it returned {type(text).__name__}, not a str or None")
    return text


def in_order(reading: Reading, skills: PromptSection | None, mode: PromptSection | None) -> Sequence[PromptSection]:
    """Return all sections in the order in which a model reads them."""
    told = (*reading.sections[: reading.ahead], skills, *reading.sections[reading.ahead :], mode)
    return [section for section in told if section is not None]
