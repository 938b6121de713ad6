"""Reminders: messages that tell the model of changes to its prompt and of its mode. Pure.

A reminder is appended to the history and never removed, so that the prefix of later requests stays the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.core.events import SharedContext
from engine.core.prompt_section import PromptSection
from engine.core.value_base import Value
from engine.files.escaping import shown_path

MODE: Final = "mode"
# The agent that plans first, and the value of `mode` in the shared context.
PLAN: Final = "plan"

_FRAME: Final = "<reminder>\nThis comes from the program that runs you, not from the user. It applies from here on.\n\n{text}\n</reminder>"
_PLAN: Final = """\
You are in plan mode: explore, think, ask, and change nothing. Do not edit or create files, and run no command that \
changes anything, regardless of earlier instructions; such calls are denied.
Find out what the task needs, clarify open questions with the user, then present the plan with the tool `plan_exit`, \
if you have it, else as your answer: what will be changed, where, and how it will be checked."""
_BOUND: Final = """\
You plan first: until the user has approved your plan, calls that your agent may not make before that are denied. \
Present the plan with the tool `plan_exit`, if you have it, else as your answer."""
_PLAN_OVER: Final = (
    "Plan mode is over: the user has approved the plan. You may change files and run commands again, within the "
    "rules. Carry out the plan."
)
# The text about a section that was removed, by the beginning of its name.
_REMOVED: Final[Mapping[str, str]] = {
    "instructions": "The instructions from {what} no longer apply.",
    "skills": "There are no skills any more.",
    MODE: _PLAN_OVER,
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptChanges(Value):
    """The changes of a prompt.

    Attributes:
        sections: new and changed sections, in order.
        removed: names of sections that are gone.
    """

    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sections or self.removed)


def diff_sections(
    current: Mapping[str, PromptSection], now: Sequence[PromptSection], *, frozen: Iterable[str] = ()
) -> PromptChanges:
    """Return the changes from *current* to *now*; sections named in *frozen* never change."""
    # Sections of a frozen name belong to the baseline: changing them would invalidate the host's prompt cache.
    kept = frozenset(frozen)
    names = {section.name for section in now}
    fresh = [s for s in now if s.name not in kept and (s.name not in current or current[s.name].text != s.text)]
    return PromptChanges(
        sections=tuple(fresh), removed=tuple(name for name in current if name not in names and name not in kept)
    )


def reminder_text(changed: PromptChanges, current: Mapping[str, PromptSection]) -> str:
    """Return the reminder about changes, for a model that has the sections *current*."""
    texts = [_removed_text(name) for name in changed.removed]
    texts += [_changed_text(section) if section.name in current else section.text for section in changed.sections]
    return _FRAME.format(text="\n\n".join(texts))


def _changed_text(section: PromptSection) -> str:
    return f"This has changed and replaces the former text:\n{section.text}"


def _removed_text(name: str) -> str:
    kind, _, what = name.partition(":")
    return _REMOVED.get(kind, "The section about {what} no longer applies.").format(what=shown_path(what or kind))


# -- modes -----------------------------------------------------------------------------------------


def mode_section(agent: str, context: SharedContext, *, is_bound: bool) -> PromptSection | None:
    """Return the section about the mode; None in the ordinary mode.

    Args:
        agent: the session's agent.
        context: a tool may have set the mode in it.
        is_bound: the agent has bounds, which are lifted when a plan is approved.
    """
    if _tool_mode(context) == PLAN or (is_bound and agent == PLAN):
        return PromptSection(name=MODE, text=_PLAN, source="plan mode", stability="step")
    return PromptSection(name=MODE, text=_BOUND, source="plan mode", stability="step") if is_bound else None


def _tool_mode(context: SharedContext) -> str:
    """Return the mode that a tool has set in the shared context; empty if none has."""
    try:
        mode = json.loads(context.get(MODE, '""'))
    except ValueError:
        return ""
    return mode if isinstance(mode, str) else ""
