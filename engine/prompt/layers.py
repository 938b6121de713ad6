"""`PromptLayers`: the configuration of the system prompt, and the reading of its layers.

The layers, in order: how to work (the host's text, or the one for the model's
family), the environment, instructions, skills, sections of the host, the mode. A
session keeps the layers that it started with; see `engine.nursery.request_prefix`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from engine.config.instruction_config import Instructions
from engine.config.plugin_config import PluginFolders
from engine.core.errors import ConfigError, EngineError
from engine.core.exception_groups import describe
from engine.core.prompt_section import PromptSection
from engine.core.threads import to_thread, to_thread_within
from engine.core.value_base import Value
from engine.files.escaping import shown_path
from engine.files.real_path import is_within
from engine.prompt.environment import environment_sections
from engine.prompt.family_text import base_section
from engine.prompt.instruction_urls import PinnedTexts
from engine.prompt.instructions import (
    PREFIX,
    InstructionReader,
    NamedFiles,
    Problem,
    named_candidates,
    project_candidates,
    touched_candidates,
    user_candidates,
)
from engine.prompt.reminders import MODE
from engine.prompt.skills import SkillFolder, Skills, find_skills
from engine.prompt.workspace import SKILLS, Workspace

Source = Callable[[str], str | None]
EXTRA: Final = "extra:"
# Reading takes a few milliseconds, but on a dead network mount it never ends, and a turn must not wait for it.
SECONDS: Final = 5.0
# Names shown in the question whether to trust the project.
_SHOWN: Final = 8


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptInputs(Value):
    """The inputs of a reading.

    Attributes:
        cwd: the working directory.
        system: the host's system prompt; empty: the one for the family.
        family: the model's family in the catalogue.
        model: the model's name.
        now: seconds since the epoch.
        project: the project whose own files may be read; empty: none.
        current: the sections that the model has now, by name.
        touched: files and folders that tools have touched since.
        with_instructions: include instructions; some sub-agents get none.
        is_new: start a new baseline: fetch texts from the web and expand patterns.
        has_moved: the current sections belong to another folder.
    """

    cwd: str
    system: str
    family: str
    model: str
    now: float
    project: str = ""
    current: Mapping[str, PromptSection] = attrs.field(factory=dict[str, PromptSection])
    touched: tuple[str, ...] = ()
    with_instructions: bool = True
    is_new: bool = True
    has_moved: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Reading(Value):
    """The result of a reading.

    Attributes:
        project: the project's folder; empty if there is none.
        is_own: the project's own files may be read, and were.
        withheld: the project's files that address agents and may not be read, relative to its folder.
        sections: in order, without the skills.
        skills_index: where the skills go among the sections.
        skills: the skills.
        problems: what to report to the user.
        is_old: nothing could be read; these are the model's current sections, including the skills.
    """

    project: str
    is_own: bool
    withheld: tuple[str, ...]
    sections: tuple[PromptSection, ...]
    skills_index: int
    skills: Skills
    problems: tuple[Problem, ...] = ()
    is_old: bool = False

    @property
    def withheld_text(self) -> str:
        """The withheld files as text."""
        names = ", ".join(shown_path(name) for name in self.withheld[:_SHOWN])
        more = len(self.withheld) - _SHOWN
        return f"{names} and {more} more" if more > 0 else names


def _nobody(_: str) -> bool:
    return False


@attrs.define(eq=False, repr=False)
class _Attempt:
    """A reading; if it timed out, its thread may still be running."""

    is_over: bool = False


@attrs.define(kw_only=True, eq=False, repr=False)
class PromptLayers:
    """The layers of the system prompt, for `open_engine(prompt=…)`.

    A session's prompt is read before its first request and then stays the same.
    Later changes are added to the conversation as reminders.

    Attributes:
        instructions: which files hold instructions; None: none are read.
        user_files: the user's own instructions; the first file that exists is used. `~` is the home folder.
        user_skills: folders with the user's own skills.
        plugins: the user's plugins, which may have skills.
        sources: further sections, by name: functions of the working directory that return a text or None, and may
            block. If one fails, its section stays as it is.
        is_trusted: whether a project's own files may be read, by its folder; it may block, and raise `EngineError`.
        trust: stores that a project is trusted; None: that can't be stored, and the user is not asked.
        home: the user's home folder: no project begins above it.
        seconds: the time limit of a reading; sections that can't be read in time stay as they are.
    """

    instructions: Instructions | None = attrs.field(factory=Instructions)
    user_files: tuple[str, ...] = ()
    user_skills: tuple[str, ...] = ()
    plugins: tuple[PluginFolders, ...] = ()
    sources: Mapping[str, Source] = attrs.field(factory=dict[str, Source])
    is_trusted: Callable[[str], bool] = _nobody
    trust: Callable[[str], object] | None = None
    home: str = attrs.field(factory=lambda: os.path.expanduser("~"))  # noqa: PTH111 - a str
    seconds: float = SECONDS
    _pinned: PinnedTexts = attrs.field(factory=PinnedTexts, init=False)
    _readable: set[str] = attrs.field(factory=set[str], init=False)
    _reported: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)
    _answered_projects: set[str] = attrs.field(factory=set[str], init=False)
    _named_files: dict[Workspace, NamedFiles] = attrs.field(factory=dict[Workspace, NamedFiles], init=False)
    _slow_attempts: dict[str, _Attempt] = attrs.field(factory=dict[str, _Attempt], init=False)

    def __attrs_post_init__(self) -> None:
        if not all(callable(each) for each in (self.is_trusted, *self.sources.values())):
            raise ConfigError("is_trusted and the sources of a prompt are functions of a folder")
        if not self.seconds > 0:
            raise ConfigError(f"seconds must be above 0, not {self.seconds}")

    # -- for a turn ------------------------------------------------------------------------

    async def remember(self, project: str) -> str:
        """Trust a project permanently; return the error if that can't be stored. A checkpoint."""
        if self.trust is None:
            return ""
        try:
            # Not abandoned on cancel: it is short, and a half-written file would trust nothing.
            await to_thread(self.trust, project, abandon_on_cancel=False)
        except EngineError as error:
            return str(error)
        return ""

    def needs_question(self, project: str) -> bool:
        """Return whether the user still has to be asked to trust the project. Not a checkpoint."""
        return project not in self._answered_projects

    def mark_answered(self, project: str) -> None:
        """Record that the user was asked about the project: once per engine. Not a checkpoint."""
        self._answered_projects.add(project)

    def is_first_report(self, session: str, text: str) -> bool:
        """Return whether *text* is reported to a session for the first time. Not a checkpoint."""
        is_first = (session, text) not in self._reported
        self._reported.add((session, text))
        return is_first

    def allow_reading(self, project: str) -> None:
        """Allow reading the project's own files as long as the engine lives. Not a checkpoint."""
        self._readable.add(project)

    async def read(self, inputs: PromptInputs) -> Reading:
        """Read the layers. A checkpoint; if cancelled, the reading thread is abandoned."""
        failed: dict[str, str] = {}
        # Only for a new baseline: later readings happen before each step, and must not wait for the network.
        if inputs.is_new and inputs.with_instructions and self.instructions is not None:
            failed = await self._pinned.fetch(self.instructions.urls)
        late = self._slow_attempts.get(inputs.cwd)
        if late is not None and not late.is_over:  # another attempt would only block one more thread
            await trio.lowlevel.checkpoint()
            return self._unchanged(inputs)
        attempt = _Attempt()
        try:
            return await to_thread_within(self.seconds, self._attempt, attempt, inputs, failed)
        except trio.TooSlowError:
            self._slow_attempts[inputs.cwd] = attempt
            return self._unchanged(inputs)

    # -- for tools -------------------------------------------------------------------------

    def skills_at(self, cwd: str) -> Skills:
        """Return the skills for a working directory, for `skill_tool`. It blocks."""
        workspace = Workspace.of(cwd, self.home)
        return self._skills(workspace, workspace.project if self._may_read(workspace.project) else "")

    def may_have_skills(self, cwd: str) -> bool:
        """Return whether there are skills, or would be if the project were trusted. It blocks."""
        workspace = Workspace.of(cwd, self.home)
        return bool(self._skills(workspace, workspace.project).available)

    def _unchanged(self, inputs: PromptInputs) -> Reading:
        """Return the model's current sections, for when nothing can be read."""
        # The base needs no file, and the mode is added by the caller.
        sections_left = (
            () if inputs.has_moved else [one for one in inputs.current.values() if one.name not in {"base", MODE}]
        )
        sections = (base_section(inputs.system, inputs.family), *sections_left)
        message = f"the prompt's files could not be read within {self.seconds:g} s; the current sections are kept"
        return Reading(
            project=inputs.project,
            is_own=bool(inputs.project) and not inputs.has_moved,
            withheld=(),
            sections=sections,
            skills_index=len(sections),
            skills=Skills(),
            problems=(Problem(kind="unusable", text=message),),
            is_old=True,
        )

    # -- in a thread -----------------------------------------------------------------------

    def _attempt(self, attempt: _Attempt, inputs: PromptInputs, failed: Mapping[str, str]) -> Reading:
        try:
            return self._read(inputs, failed)
        finally:
            attempt.is_over = True

    def _may_read(self, project: str) -> bool:
        try:
            return bool(project) and (project in self._readable or self.is_trusted(project))
        except EngineError:  # an invalid trust file trusts no project
            return False

    def _read(self, inputs: PromptInputs, failed: Mapping[str, str]) -> Reading:
        workspace = Workspace.of(inputs.cwd, self.home)
        # A project that was trusted when the session began stays readable: its sections are in the history already.
        is_own = bool(workspace.project) and (workspace.project == inputs.project or self._may_read(workspace.project))
        sections = [base_section(inputs.system, inputs.family)]
        sections += environment_sections(workspace, model=inputs.model, now=inputs.now)
        problems: list[Problem] = []
        if self.instructions is not None and inputs.with_instructions:
            reader = InstructionReader(config=self.instructions, current=inputs.current)
            self._read_instructions(reader, inputs, workspace, failed, is_own=is_own)
            sections += reader.sections
            problems += reader.problems
        ahead = len(sections)
        for name, source in self.sources.items():
            self._read_source(name, source, inputs, sections, problems)
        return Reading(
            project=workspace.project,
            is_own=is_own,
            withheld=() if is_own else self._withheld(workspace, inputs),
            sections=tuple(sections),
            skills_index=ahead,
            skills=self._skills(workspace, workspace.project if is_own else ""),
            problems=tuple(problems),
        )

    def _withheld(self, workspace: Workspace, inputs: PromptInputs) -> tuple[str, ...]:
        files = self.instructions if inputs.with_instructions else None
        # If the project is the home folder, the user's own skills are where a project's would be.
        users = {os.path.realpath(os.path.expanduser(folder)) for folder in self.user_skills}  # noqa: PTH111 - a str
        agent_files = workspace.agent_files(() if files is None else files.names)
        withheld = [name for name in agent_files if f"{workspace.project.rstrip('/')}/{name}" not in users]
        if files is not None and workspace.project:
            # Files outside of the project are the user's own, and need no trust.
            named = [each for each in self._named_files[workspace].candidates if each.within]
            more_files = [*named, *touched_candidates(files, workspace, inputs.touched)]
            withheld += [
                each.path[len(workspace.project) :].lstrip("/") for each in more_files if os.path.lexists(each.path)
            ]
        return tuple(dict.fromkeys(withheld))

    def _read_instructions(
        self,
        reader: InstructionReader,
        inputs: PromptInputs,
        workspace: Workspace,
        failed: Mapping[str, str],
        *,
        is_own: bool,
    ) -> None:
        self._keep_uncached(reader, failed)
        if inputs.is_new or workspace not in self._named_files:
            self._named_files[workspace] = named_candidates(reader.config, workspace)
        named_files = self._named_files[workspace]
        reader.problems += named_files.problems
        named = [each for each in named_files.candidates if is_own or not each.within]
        in_project = list(project_candidates(reader.config, workspace)) if is_own else []
        pinned = list(self._pinned.cached(reader.config.urls).items())
        reader.read_baseline([*user_candidates(self.user_files), *named, *in_project], pinned)
        self._read_nested(reader, inputs, workspace, is_own=is_own)

    def _read_nested(
        self, reader: InstructionReader, inputs: PromptInputs, workspace: Workspace, *, is_own: bool
    ) -> None:
        """Read the instructions of folders that were touched; in a folder that isn't trusted, keep the current ones."""
        paths = [name.removeprefix(PREFIX) for name in inputs.current if name.startswith(f"{PREFIX}/")]
        if is_own:
            # An instruction file named in the configuration does not mean that a tool has touched its folder.
            nested = [path for path in paths if path.rpartition("/")[2] in reader.config.names]
            reader.read_nested(touched_candidates(reader.config, workspace, [*nested, *inputs.touched]))
        elif not inputs.is_new:  # the project was trusted in an earlier engine; the model has these sections
            reader.sections += [inputs.current[PREFIX + path] for path in paths if is_within(path, workspace.project)]

    def _keep_uncached(self, reader: InstructionReader, failed: Mapping[str, str]) -> None:
        """Keep the current sections of texts that are not cached: those that failed, or all after a restart."""
        cached = self._pinned.cached(reader.config.urls)
        for url in reader.config.urls:
            if url in failed:
                reader.keep_current(PREFIX + url, f"{url} can't be used: {failed[url]}")
            elif url not in cached and PREFIX + url in reader.current:
                reader.sections.append(reader.current[PREFIX + url])

    def _read_source(
        self, name: str, source: Source, inputs: PromptInputs, sections: list[PromptSection], problems: list[Problem]
    ) -> None:
        try:
            text = source(inputs.cwd)
            if text is not None:
                sections.append(PromptSection(name=EXTRA + name, text=_require_text(text), source=name))
        except BaseException as error:  # noqa: BLE001, ASYNC103  # the host's code, in a thread: keep the current section
            problems.append(Problem(kind="unusable", text=f"the section {name} can't be read: {describe(error)}"))
            if EXTRA + name in inputs.current:
                sections.append(inputs.current[EXTRA + name])

    def _skills(self, workspace: Workspace, project: str) -> Skills:
        # The user's come first: a project must not replace a skill that the user calls by name.
        users = [SkillFolder(folder, within=self.home) for folder in self.user_skills]
        plugins = [SkillFolder(folder, plugin=one.name) for one in self.plugins for folder in one.skills]
        own = [] if not project else workspace.own_folders(SKILLS)
        return find_skills([*users, *plugins, *(SkillFolder(folder, within=project) for folder in own)])


def _require_text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"it returned {type(text).__name__}, not a str or None")
    return text


def ordered_sections(
    reading: Reading, skills: PromptSection | None, mode: PromptSection | None
) -> Sequence[PromptSection]:
    """Return all sections in the order of the prompt."""
    sections = (*reading.sections[: reading.skills_index], skills, *reading.sections[reading.skills_index :], mode)
    return [section for section in sections if section is not None]
