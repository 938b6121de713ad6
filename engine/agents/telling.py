"""What a model is told of how a sub-agent ended."""

from __future__ import annotations

from typing import Final

from engine.agents.result import AgentResult

MAX_CHARS: Final = 20_000
_MAX_FILES: Final = 50

REPORT: Final = """\
<sub-agent-report task_id="{task_id}" agent="{agent}" status="{status}">
{text}
</sub-agent-report>
This comes from a sub-agent that you started in the background, not from the user. Use it as far as it helps what you are \
doing; if nothing is left to do, tell the user in short what came of it."""


def told(agent: str, result: AgentResult) -> str:
    """Return what came of a sub-agent's work, and how to go on with it."""
    said = result.text.strip()
    steps = f"{result.steps:,} {'step' if result.steps == 1 else 'steps'}"
    if result.status == "completed":
        head = said or "(The sub-agent ended without a word.)"
    else:
        rest = f"What it had said:\n{said}" if said else "It had said nothing."
        head = f"The sub-agent {agent} did not complete its task ({result.error}, after {steps}). {rest}"
    note = f"[{agent}, task_id {result.session_id}: {result.status} after {steps}. {_changed(result)}]"
    return f"{head}\n\n{note}"


def report(agent: str, session_id: str, status: str, text: str) -> str:
    """Return what a model is told of a sub-agent that has ended in the background."""
    cut = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n[cut here: ask it for the rest, by its task_id]"
    # What it says must not end the frame that tells whose words these are.
    framed = cut.replace("</sub-agent-report", "<\\/sub-agent-report")
    return REPORT.format(task_id=session_id, agent=agent, status=status, text=framed)


def _changed(result: AgentResult) -> str:
    files = ", ".join(result.changed[:_MAX_FILES])
    more = len(result.changed) - _MAX_FILES
    named = f"{files} and {more:,} more" if more > 0 else files
    if result.changes_known:
        return f"It changed {named}." if named else "It changed no files."
    if named:
        return f"It changed {named}, and ran what may have changed others."
    return "It ran what may have changed files."
