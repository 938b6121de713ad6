"""The fold of what is recorded of a prompt: what requests begin with, and what the model knows of it."""

from __future__ import annotations

import attrs
import pytest

from engine.core.errors import JournalCorrupt
from engine.core.events import HistoryReplaced, NudgeAdded, PromptSet, PromptUpdated, TurnRedone, TurnUndone
from engine.core.ids import MessageId, PartId, TurnId
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.core.prompt_section import PromptSection
from engine.journal.fold import fold
from engine.journal.state import SessionState

USER = UserMessage(id=MessageId("said"), parts=(TextPart(id=PartId("p"), text="go"),))


def section(name: str, said: str = "x") -> PromptSection:
    return PromptSection(name=name, text=said)


def reminded(number: int) -> UserMessage:
    return attrs.evolve(USER, id=MessageId(f"reminder{number}"), origin="engine")


START = PromptSet(sections=(section("base"), section("date", "today")), cwd="/x", project="/p")
NEXT_DAY = PromptUpdated(message=reminded(1), sections=(section("date", "tomorrow"), section("skills")))
GONE = PromptUpdated(message=reminded(2), removed=("skills",))


def told(state: SessionState) -> dict[str, str]:
    assert state.prompt is not None
    return {name: one.text for name, one in state.prompt.section_texts.items()}


def test_state_knows_prompt_and_updates() -> None:
    state = fold([NudgeAdded(message=USER), START, NEXT_DAY])
    assert state.prompt is not None
    assert (state.prompt.text, state.prompt.cwd, state.prompt.project) == ("x\n\ntoday", "/x", "/p")
    assert told(state) == {"base": "x", "date": "tomorrow", "skills": "x"}
    assert state.transcript == Transcript([USER, reminded(1)])
    assert told(fold([GONE], state)) == {"base": "x", "date": "tomorrow"}


def test_undone_message_undoes_its_update() -> None:
    state = fold([NudgeAdded(message=USER), START, NEXT_DAY])
    undone = fold([TurnUndone(undone=TurnId("t"), keep=1)], state)
    assert told(undone) == {"base": "x", "date": "today"}
    assert told(fold([TurnRedone(redone=TurnId("t"))], undone)) == told(state)
    pruned = fold([HistoryReplaced(kind="prune", messages=(USER, reminded(1)))], state)
    assert (told(pruned), pruned.prompt and pruned.prompt.is_outdated) == (told(state), False)


def test_compaction_needs_a_new_baseline() -> None:
    beside = PromptUpdated(
        message=reminded(3), sections=(section("instructions:/x/AGENTS.md"), section("date", "later"))
    )
    state = fold([NudgeAdded(message=USER), START, NEXT_DAY, beside])
    compacted = fold([HistoryReplaced(kind="compact", messages=(USER, reminded(3)))], state)
    assert compacted.prompt is not None
    assert compacted.prompt.is_outdated
    assert told(compacted) == {"base": "x", "date": "later", "instructions:/x/AGENTS.md": "x"}
    fresh = PromptSet(sections=(section("base"), section("date", "now")), cwd="/x", reason="compacted")
    renewed = fold([fresh], compacted)
    assert renewed.prompt is not None
    assert not renewed.prompt.is_outdated
    assert told(renewed) == {"base": "x", "date": "now", "instructions:/x/AGENTS.md": "x"}


def test_unset_prompt_is_not_updated() -> None:
    with pytest.raises(JournalCorrupt, match="was updated before it was set"):
        fold([NEXT_DAY])
