"""What an engine knows of the window in a session that another engine has left."""

from __future__ import annotations

from pathlib import Path

import attrs

import engine
from engine.core.context_report import ContextReport
from engine.core.events import CompactionEnded, CompactionStarted
from engine.core.messages import Message, Transcript, Usage
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.histories import INFO, answers, saying, says, summary, words

# The host counts three tokens where the engine's estimate is one.
COUNTED = Usage(input=12_000, output=60)


async def left(store: Path) -> tuple[str, ContextReport, Transcript]:
    """Let an engine have one turn in a session, and close it."""
    model = ScriptedProvider([saying("Done.", COUNTED)], info=INFO)
    async with engine.open_engine(model=model, store=store) as eng:
        session = await eng.create_session(cwd="/opt")
        await session.run(words(4_000))
        return session.id, session.context.report(), session.state.transcript


async def test_t7_host_counts_survive_restart(tmp_path: Path) -> None:
    session_id, before, transcript = await left(tmp_path / "s.db")
    assert (before.is_counted, 12_000 < before.tokens < 12_200) == (True, True)
    model = ScriptedProvider([saying(summary()), saying("Here.")], info=INFO)
    async with engine.open_engine(model=model, store=tmp_path / "s.db") as eng:
        session = await eng.open_session(session_id)
        assert session.state.transcript == transcript
        assert session.context.report() == before
        # As the host counts, it is the window's end; as anybody would estimate it, there is room for twice as much.
        await session.run(words(2_000))
        seen = [type(e) for e in session.events() if isinstance(e, (CompactionStarted, CompactionEnded))]
        assert seen == [CompactionStarted, CompactionEnded]


async def test_t7_host_counts_do_not_fit_another_history(tmp_path: Path) -> None:
    session_id, _, _ = await left(tmp_path / "s.db")
    info = attrs.evolve(INFO, context=200_000)
    model = ScriptedProvider([saying(words(9_000), COUNTED), saying(summary())], info=info)
    async with engine.open_engine(model=model, store=tmp_path / "s.db") as eng:
        session = await eng.open_session(session_id)
        await session.run(words(9_000))
        assert session.context.report().is_counted
        assert (await session.context.compact()).stop_reason == "completed"
        assert session.context.report().is_counted is False
        await session.context.undo_compaction()
        assert session.context.report().is_counted is False


def test_transcript_prefix_has_its_lineage() -> None:
    messages: list[Message] = [says("one"), answers("two"), says("three", id="u3")]
    whole = Transcript(messages)
    first = whole.first(2)
    assert (first[:], first.lineage is whole.lineage) == (tuple(messages[:2]), True)
    assert whole.first(9) == whole
    other = first.append(says("else", id="u4"))
    assert (other[2].id, whole[2].id, other.lineage is whole.lineage) == ("u4", "u3", False)
