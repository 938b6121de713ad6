"""How to keep sessions, find them again, fork them, move them and count what they cost."""

import tempfile
from pathlib import Path

import trio

import engine
from engine.events import SessionId, Usage
from engine.export import (
    collect_session,
    parse_json_document,
    render_history,
    render_html,
    render_json_document,
    render_markdown,
    with_fresh_ids,
)
from engine.options import Ports
from engine.store import SessionQuery, SpendingQuery, SqliteStore, open_sqlite_store
from engine.testing import Answer, CountingIds, ScriptedProvider, done, text


def answered(words: str) -> Answer:
    return [*text(words), *done(usage=Usage(input=1_000, output=50))]


SCRIPT = [answered("The stack was empty."), answered("I'd keep the second."), answered("The first, then.")]


async def talk(place: str) -> None:
    """Say something, and something else in a fork from before."""
    async with engine.open_engine(model=ScriptedProvider(SCRIPT), store=place, ports=Ports(ids=CountingIds())) as eng:
        session = await eng.create_session(cwd="/")
        await session.run("Why does the parser fail?")
        await session.run("Which of the two tests shall I keep?")
        await session.rename("The parser")

        first_answer = session.state.transcript[1]
        fork = await eng.fork_session(session.id, at=first_answer.id)
        await fork.run("And which test is older?")


async def look(store: SqliteStore) -> None:
    for row in await store.list_sessions(SessionQuery(cwd="/")):
        print(f"{row.title}: {row.messages} messages{', a fork' if row.forked_from else ''}")
    for hit in await store.search("older"):
        print("found:", hit.role, "said", hit.snippet.replace("\ue000", "*").replace("\ue001", "*"))
    for spent in await store.spending(SpendingQuery(by="model")):
        print("spent:", spent.key, spent.sessions, "sessions,", spent.steps, "steps,", spent.usage.total, "tokens")


async def move(store: SqliteStore, session_id: SessionId) -> None:
    journals = await collect_session(store, session_id)
    whole = render_json_document(journals, engine=engine.__version__, at=0.0)

    # Somewhere else, or here again under another id.
    names = iter(["ses_copy", "ses_copy_of_its_sub_agent"])
    copy = with_fresh_ids(parse_json_document(whole), lambda: next(names))
    await store.import_sessions(copy)
    print("taken in:", copy[0][0].session_id, "with", len(copy[0]), "events")

    story = render_history(journals[0])
    print(render_markdown(story, "The parser").partition("---\n\n")[2])
    print(render_html([story], "The parser", engine=engine.__version__).partition("\n")[0])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder, "sessions.db"))
        await talk(place)
        store = await open_sqlite_store(place)
        await look(store)
        rows = await store.list_sessions()
        await move(store, rows[-1].id)
        print("removed:", len(await store.delete(rows[0].id)))
        await store.aclose()


if __name__ == "__main__":
    trio.run(main)
