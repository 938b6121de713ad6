"""A session as a document to fetch: JSON, Markdown, or a web page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from engine.core.events import Durable
from engine.core.foreign_calls import call_foreign
from engine.core.ids import SessionId
from engine.core.messages import UserMessage
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.export.collect import collect_session
from engine.export.history import History, render_history
from engine.export.html_page import render_html
from engine.export.json_document import render_json_document
from engine.export.markdown import render_markdown
from engine.session.engine import engine_runtime
from engine.store.projection import make_title

if TYPE_CHECKING:
    from engine.session.engine import Engine

Format = Literal["json", "markdown", "html"]
SUFFIXES: Final[Mapping[Format, str]] = {"json": "json", "markdown": "md", "html": "html"}
CONTENT_TYPES: Final[Mapping[Format, str]] = {
    "json": "application/json",
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
}


async def export_session(engine: Engine, session_id: str, form: Format) -> str:
    """Return a session with its sub-agents'. A checkpoint. Raises errors of the store, `SessionNotFound`."""
    runtime = engine_runtime(engine)
    store = runtime.services.store.store
    live = runtime.sessions.by_id.get(SessionId(session_id))
    if live is not None:
        await call_foreign("the store", store.flushed, live.id, live.journal.seq)
    return await to_thread(_text, await collect_session(store, SessionId(session_id)), form)


def _text(journals: Sequence[Sequence[Durable]], form: Format) -> str:
    if form == "json":
        return render_json_document(journals, engine=__version__, at=time.time())
    stories = [render_history(journal) for journal in journals]
    title = _title(stories[0])
    return render_markdown(stories[0], title) if form == "markdown" else render_html(stories, title, engine=__version__)


def _title(story: History) -> str:
    prompts = (
        make_title(entry.message.text)
        for entry in story.entries
        if isinstance(entry.message, UserMessage) and entry.message.origin in {"user", "steer", "queue"}
    )
    return make_title(story.state.title) or next((title for title in prompts if title), "")
