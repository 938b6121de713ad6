"""Texts for the model about how a sub-agent or a background job ended."""

from __future__ import annotations

import json
from typing import Final

from engine.agents.agent_result import AgentResult
from engine.files.escaping import inert, shown_path
from engine.journal.state import BackgroundWork

# About 5,000 tokens: more would crowd out the caller's own work. It can ask the sub-agent for the rest.
MAX_CHARS: Final = 20_000
_MAX_FILES: Final = 50

REPORT: Final = """\
<sub-agent-report task_id="{task_id}" agent="{agent}" status="{status}">
{text}
</sub-agent-report>
This comes from a sub-agent that you started in the background, not from the user. Use it as far as it helps what you are \
doing; if nothing is left to do, summarise the outcome for the user."""


LOST: Final = """\
It was interrupted: the engine's process ended while it worked, and what it did last is not known. To go on with it, call \
task with its task_id."""
JOB: Final = """\
<background-job-report name="{name}">
The background job {name} ended with the engine's process that ran it; how far it got is not known, and its output is gone. \
Its command was:
{command}
</background-job-report>
This comes from the engine, not from the user. Start the command again only if it is still needed."""
_MAX_COMMAND: Final = 2_000


def render_lost(work: BackgroundWork) -> tuple[str, str]:
    """Return the texts for the model and for the user about background work that a crash interrupted."""
    if work.kind == "agent":
        text = render_report(work.name, work.work_id, "interrupted", LOST)
        return text, f"The sub-agent {work.name} ({work.work_id}) was interrupted: the engine that ran it ended"
    command = work.detail if len(work.detail) <= _MAX_COMMAND else f"{work.detail[:_MAX_COMMAND]}…"
    return JOB.format(
        name=shown_path(work.name), command=inert(command)
    ), f"The background job {work.name} ended with the engine that ran it"


def render_result(agent: str, result: AgentResult) -> str:
    """Return a sub-agent's result for the model, with how to continue it."""
    text = result.text.strip()
    if result.status == "completed":
        head = text or "(The sub-agent ended without a message.)"
    else:
        rest = f"Its last message:\n{text}" if text else "It sent no message."
        head = f"The sub-agent {agent} did not complete its task ({result.error}, after {_steps(result)}). {rest}"
    return f"{head}\n\n{_footer(agent, result)}"


def render_cancelled(agent: str, result: AgentResult) -> str:
    """Return the result of a sub-agent whose call was cancelled, and, if *agent* has a name, how to continue it."""
    text = _shortened(result.text)
    is_over = result.status == "completed"
    head = f"Cancelled {'just as' if is_over else 'before'} it had finished."
    if text:
        head += f" {'Its message' if is_over else 'Its last message'}:\n{text}"
    return f"{head}\n\n{_footer(agent, result)}" if agent else head


def result_facts(agent: str, result: AgentResult) -> str:
    """Return how a sub-agent ended, as JSON for clients."""
    noun = "request" if result.steps == 1 else "requests"
    facts = {
        "summary": f"{agent}: {result.status}, {result.steps:,} {noun}",
        "agent": agent,
        "task_id": result.session_id,
        "status": result.status,
        "stop_reason": result.stop_reason,
        "error": result.error,
        "steps": result.steps,
        "tokens": result.usage.total,
        "cost": result.cost,
        "changed": list(result.changed),
        "changes_known": result.changes_known,
    }
    return json.dumps(facts)


def render_report(agent: str, session_id: str, status: str, text: str) -> str:
    """Return the report for the model on a sub-agent that ended in the background."""
    # The sub-agent's text must not end the frame: what follows would look like the engine's words.
    framed = inert(_shortened(text))
    return REPORT.format(task_id=shown_path(session_id), agent=shown_path(agent), status=status, text=framed)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n[cut here: ask it for the rest, by its task_id]"


def _footer(agent: str, result: AgentResult) -> str:
    return f"[{agent}, task_id {result.session_id}: {result.status} after {_steps(result)}. {_changed(result)}]"


def _steps(result: AgentResult) -> str:
    return f"{result.steps:,} {'step' if result.steps == 1 else 'steps'}"


def _changed(result: AgentResult) -> str:
    files = ", ".join(result.changed[:_MAX_FILES])
    more = len(result.changed) - _MAX_FILES
    named = f"{files} and {more:,} more" if more > 0 else files
    if result.changes_known:
        return f"It changed {named}." if named else "It changed no files."
    if named:
        return f"It changed {named}, and ran what may have changed others."
    return "It ran what may have changed files."
