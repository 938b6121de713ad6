"""What the model is told in between, in a message that stays: a change of the prompt, the mode it works in.

Pure. A reminder is put behind what was said before and never taken away, so requests go on as they began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.core.events import SharedContext
from engine.core.prompt_section import PromptSection
from engine.files.escaping import shown_path

MODE: Final = "mode"
# The agent that plans first, and what a tool calls that mode in the shared context.
PLAN: Final = "plan"

_FRAME: Final = (
    "<reminder>\nThe program that runs you says this, not the user. It holds from here on.\n\n{text}\n</reminder>"
)
_PLAN: Final = """\
You are in plan mode: look, think, ask, and change nothing. No file is edited or made, no command is run that changes \
anything, whatever you were told before; calls that would are denied.
Find out what the task needs, settle open questions with the user, then put the plan to the user with the tool \
`plan_exit`, if you have it, else as your answer: what will be changed, where, and how it will be checked."""
_BOUND: Final = """\
You plan first: until the user has approved a plan of yours, calls that your agent may not make before are denied. Put \
the plan to the user with the tool `plan_exit`, if you have it, else as your answer."""
_PLAN_OVER: Final = (
    "Plan mode is over: the user has approved the plan. You may change files and run commands again, as the rules "
    "allow. Carry the plan out."
)
# What is said of a section that holds no longer, by the beginning of its name.
_GONE: Final[Mapping[str, str]] = {
    "instructions": "The instructions from {what} hold no longer.",
    "skills": "There are no skills any more.",
    MODE: _PLAN_OVER,
}


@attrs.frozen(kw_only=True)
class Changes:
    """What is different of the prompt.

    Attributes:
        sections: those that are new or say something else, in their order.
        removed: names of those that are gone.
    """

    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sections or self.removed)


def changes(told: Mapping[str, PromptSection], now: Sequence[PromptSection], *, frozen: Iterable[str] = ()) -> Changes:
    """Return what the model has to be told, which knows *told*; sections named in *frozen* never change."""
    kept = frozenset(frozen)
    names = {section.name for section in now}
    fresh = [s for s in now if s.name not in kept and (s.name not in told or told[s.name].text != s.text)]
    return Changes(
        sections=tuple(fresh), removed=tuple(name for name in told if name not in names and name not in kept)
    )


def reminder(changed: Changes, told: Mapping[str, PromptSection]) -> str:
    """Return the message that tells of changes to a model which knows *told*."""
    texts = [_gone(name) for name in changed.removed]
    texts += [_again(section) if section.name in told else section.text for section in changed.sections]
    return _FRAME.format(text="\n\n".join(texts))


def _again(section: PromptSection) -> str:
    return f"This has changed; it takes the place of what was said of it before:\n{section.text}"


def _gone(name: str) -> str:
    kind, _, what = name.partition(":")
    return _GONE.get(kind, "What was said of {what} holds no longer.").format(what=shown_path(what or kind))


# -- modes -----------------------------------------------------------------------------------------


def mode_section(agent: str, context: SharedContext, *, is_bound: bool) -> PromptSection | None:
    """Return what a model is told of the mode it works in; None: nothing, it is the usual one.

    Args:
        agent: the session's way of working.
        context: in which a tool may have put the mode.
        is_bound: the agent has bounds, which end when a plan is approved.
    """
    if _said(context) == PLAN or (is_bound and agent == PLAN):
        return PromptSection(name=MODE, text=_PLAN, source="plan mode", stability="step")
    return PromptSection(name=MODE, text=_BOUND, source="plan mode", stability="step") if is_bound else None


def _said(context: SharedContext) -> str:
    """Return the mode that a tool has put into the shared context; empty if none did."""
    try:
        said = json.loads(context.get(MODE, '""'))
    except ValueError:
        return ""
    return said if isinstance(said, str) else ""
