"""The prefix of requests: set once and kept byte for byte; later changes of it go into messages (T10, T27, T28).

A baseline is read before the first request of a session. It is read again when the history was compacted, and at the
beginning of a turn that works in another folder or with another system prompt of the host's. In between, each round reads
the current state and appends what differs as a message, since a changed prefix would cost the host's cache. Reading is
done in threads; its result is appended in one synchronous stretch, so a cancel leaves all of it or nothing.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

from trio.lowlevel import enable_ki_protection

from engine.core.events import Choice, PromptSet, PromptUpdated
from engine.core.foreign_calls import call_foreign_now
from engine.core.ids import CallId
from engine.core.permission_types import PermissionQuery, PermissionScope, RequiredRight
from engine.journal.state import PromptState
from engine.nursery.hook_points import ask_person
from engine.nursery.inbox import engine_message
from engine.permission.permission_scope import active_scopes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.core.prompt_section import PromptSection
    from engine.nursery.running_turn import TurnRun
    from engine.prompt.layers import PromptLayers, Reading

Reason = Literal["start", "compacted", "moved", "system"]
TRUST: Final = Choice(label="Trust it", description="from now on; its rules, agents and commands count as well")
ONCE: Final = Choice(label="This time", description="as long as this program runs")
NO: Final = Choice(label="No", description="it is worked on without them")
_YES: Final = frozenset({TRUST.label.casefold(), ONCE.label.casefold(), "yes", "y"})
# Paths that one round looks at; the rest waits for the next round. Each costs a walk up to the project's root.
_TOUCHED_MOST: Final = 200


def system_text(run: TurnRun) -> str:
    """Return the system prompt of the next request. Not a checkpoint."""
    prompt = run.journal.log.state.prompt
    return run.inputs.settings.system if run.inputs.services.prompt is None or prompt is None else prompt.text


async def prepare_prompt(run: TurnRun) -> None:
    """Renew the prefix of the next request if it must be renewed, or else append what has changed.

    A checkpoint if the engine has prompt layers. If cancelled, nothing is appended; the question whether a project's
    files may be read is withdrawn.
    """
    layers = run.inputs.services.prompt
    if layers is None:
        return
    reason = _renewal(run)
    reading = await _read(run, layers, reason)
    if reading.withheld and await _may_be_read(run, layers, reading):
        # Read once more, now that it may be: an untrusted project's files must not have been in memory before.
        reading = await _read(run, layers, reason)
    _apply(run, reading, reason)


def _renewal(run: TurnRun) -> Reason | None:
    """Return why a new baseline is needed; None: the old one stands. Not a checkpoint."""
    prompt = run.journal.log.state.prompt
    if prompt is None:
        return "start"
    if prompt.is_outdated:
        return "compacted"
    if run.state.is_prompted:  # within a turn the prefix stays the same, even if a tool changes the folder
        return None
    if prompt.cwd != run.cwd:
        return "moved"
    base = prompt.sections[0] if prompt.sections else None
    has_host_s = base is not None and base.stability == "static" and base.source == _HOST
    before = base.text if base is not None and has_host_s else ""
    return "system" if before != run.inputs.settings.system else None


_HOST: Final = "the settings"


async def _read(run: TurnRun, layers: PromptLayers, reason: Reason | None) -> Reading:
    # Imported here: most engines have no layers.
    from engine.prompt.layers import PromptInputs

    state = run.journal.log.state
    # The session's first model: if another stands in for it in one turn, that is not worth a new prefix.
    info = run.deps.models[0].info
    files = layers.instructions
    request = PromptInputs(
        cwd=run.cwd,
        system=run.inputs.settings.system,
        family=info.family,
        model=info.name,
        now=run.deps.clock.now(),
        project="" if state.prompt is None else state.prompt.project,
        current={} if state.prompt is None else state.prompt.section_texts,
        touched=_touched(run, reason)[:_TOUCHED_MOST],
        with_instructions=not run.inputs.is_child or (files is not None and files.sub_agents),
        is_new=reason is not None,
        has_moved=reason == "moved",
    )
    return await layers.read(request)


def _touched(run: TurnRun, reason: Reason | None) -> tuple[str, ...]:
    """Return the paths that tools have worked on, whose folders may have instructions of their own. Not a checkpoint."""
    if reason != "compacted":
        return tuple(run.inputs.services.touched)
    # Imported here: hardly any round follows a summary.
    from engine.compaction.verbatim_parts import collect_pins

    # The instructions of their folders went with the history, and must be known before they are worked on again.
    files = collect_pins(run.journal.log.state.transcript[:]).files
    return tuple(
        dict.fromkeys([*run.inputs.services.touched, *(str(PurePath(run.cwd) / file.path) for file in reversed(files))])
    )


# -- what a project brings along ------------------------------------------------------------------


async def _may_be_read(run: TurnRun, layers: PromptLayers, reading: Reading) -> bool:
    """Ask once whether a project's own files may be read; without a user, only report it. A checkpoint if it asks.

    If cancelled, the question is withdrawn, and asked again in the next turn.
    """
    project = reading.project
    if run.inputs.is_child or not layers.needs_question(project):
        return False
    if run.inputs.settings.headless != "wait":
        text = f"{project} is not trusted, so this was not read: {reading.withheld_text}. `engine permissions trust` says that it may be"
        if _is_news(run, text):
            run.notice("warning", "project_not_trusted", text)
        return False
    question = (
        f"The project in {project} brings along instructions for the agent ({reading.withheld_text}). Their author would "
        "speak to the model in your name. May they be read?"
    )
    choices = (TRUST, ONCE, NO) if layers.trust is not None else (ONCE, NO)
    outcome, answers = await ask_person(run, question, choices)
    # Whatever the answer was: asking again in each round would make the user give in.
    layers.mark_answered(project)
    answer = answers[0].strip().casefold() if len(answers) == 1 else ""
    if outcome != "answered" or answer not in _YES:
        return False
    layers.allow_reading(project)
    if answer == TRUST.label.casefold():
        problem = await layers.remember(project)
        if problem:
            run.notice("warning", "trust_not_saved", f"{project} is trusted only as long as this runs: {problem}")
    return True


# -- what comes of it ------------------------------------------------------------------------------


@enable_ki_protection
def _apply(run: TurnRun, reading: Reading, reason: Reason | None) -> None:
    """Append what was read to the record. Not a checkpoint."""
    # Imported here: most engines have no layers.
    from engine.prompt.reminders import diff_sections, reminder_text

    sections = _sections(run, reading)
    _report_problems(run, reading)
    run.state.is_prompted = True
    if not reading.is_old:
        # Only what was looked at: calls may have added others while the threads were reading.
        for path in list(run.inputs.services.touched)[:_TOUCHED_MOST]:
            del run.inputs.services.touched[path]
    # Before the differences: they are counted from this baseline.
    if reason is not None:
        project = reading.project if reading.is_own else ""
        run.journal.append(PromptSet(sections=tuple(sections), cwd=run.cwd, project=project, reason=reason))
    prompt = run.journal.log.state.prompt
    if not isinstance(prompt, PromptState):  # the record is closed: the turn has ended meanwhile
        return
    # The first section is the family's base prompt: a fallback model goes on with that of the first model.
    changed = diff_sections(prompt.section_texts, sections, frozen=[section.name for section in prompt.sections[:1]])
    if changed:
        message = engine_message(run.deps.ids, reminder_text(changed, prompt.section_texts))
        run.journal.append(PromptUpdated(message=message, sections=changed.sections, removed=changed.removed))


def _sections(run: TurnRun, reading: Reading) -> Sequence[PromptSection]:
    # Imported here: most engines have no layers.
    from engine.prompt.layers import ordered_sections
    from engine.prompt.reminders import mode_section
    from engine.prompt.skills import TOOL, skill_section

    state = run.journal.log.state
    chain = active_scopes(run.inputs.chain, state.context)
    is_bound = any(link.is_bound and link.session_id == run.session_id for link in chain)
    is_offered = run.registry.get(TOOL) is not None and TOOL not in run.hidden
    skills = (
        [skill for skill in reading.skills.available if not _is_denied(run, chain, skill.name)] if is_offered else []
    )
    mode = mode_section(state.agent, state.context, is_bound=is_bound)
    return ordered_sections(reading, skill_section(skills), mode)


def _is_denied(run: TurnRun, chain: tuple[PermissionScope, ...], skill: str) -> bool:
    """Return whether the rules deny a skill; then the prompt does not list it. Not a checkpoint."""
    query = PermissionQuery(
        chain=chain,
        call_id=CallId(""),
        cwd=run.cwd,
        tool="skill",
        read_only=True,
        permission="skill",
        rights=(RequiredRight(permission="skill", pattern=skill, reads_only=True),),
    )
    return call_foreign_now("`judge` of the approver", run.deps.approver.judge, query).verdict == "deny"


def _report_problems(run: TurnRun, reading: Reading) -> None:
    for problem in reading.problems:
        if problem.kind == "both":
            if _is_news(run, problem.text):
                run.notice("info", "instructions_twice", problem.text)
        elif _is_news(run, problem.text):
            run.notice("warning", "instructions_not_whole", problem.text)
    for path, why in reading.skills.problems:
        text = f"the skill {path} can't be used: {why}"
        if _is_news(run, text):
            run.notice("warning", "skill_unusable", text)
    for skill in reading.skills.available:
        for warning in skill.warnings:
            if _is_news(run, text := f"the skill {skill.folder}: {warning}"):
                run.notice("info", "skill_warning", text)


def _is_news(run: TurnRun, text: str) -> bool:
    """Return whether this engine has not reported that to the session yet. Not a checkpoint."""
    assert run.inputs.services.prompt is not None
    return run.inputs.services.prompt.is_first_report(run.journal.log.path[0], text)


# -- what tools touch ------------------------------------------------------------------------------


def touch(run: TurnRun, paths: Sequence[str]) -> None:
    """Note the files and folders that a call works on, since their folders may have instructions. Not a checkpoint."""
    if run.inputs.services.prompt is not None:
        run.inputs.services.touched.update(dict.fromkeys(paths))
