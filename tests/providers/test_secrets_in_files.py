"""A key is in no file that an engine writes, and in no export."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import trio

import engine
from engine.core.ids import SessionId
from engine.export.collect import collect_session
from engine.export.history import render_history
from engine.export.html_page import render_html
from engine.export.json_document import render_json_document
from engine.export.markdown import render_markdown
from engine.journal.codec import encode_state
from engine.permission.allow_all import AllowAll
from engine.providers.registry import resolve
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.providers.test_secrets import ECHOES, FORMS, KEY, NAME, PASSWORD, SETTINGS, TOKEN, Echo

pytestmark = pytest.mark.os

# Long enough to be spilled.
LONG = "for n in $(seq 4000); do echo line $n; done"


def model_message(echo: Echo, count: int) -> Echo:
    """Tools first, then what the host makes of it."""

    def answer(request: ReceivedRequest) -> Answer:
        if len(request.results) or "fail" in request.text:
            return echo(request)
        return [*text("I run it."), *call("bash", {"command": LONG}, id=f"c{count}"), *done("calls")]

    return answer


def secrets_in(folder: Path) -> list[str]:
    forms = [form.encode() for form in (*FORMS, TOKEN)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [f"{form!r} in {path}" for path in files for form in forms if form in path.read_bytes()]


async def exports_of(path: Path, session_id: SessionId) -> list[str]:
    """The session in every form in which people hand it on."""
    store = await open_sqlite_store(path)
    try:
        journals = await collect_session(store, session_id)
    finally:
        await store.aclose()
    stories = [render_history(journal) for journal in journals]
    return [
        render_json_document(journals, engine="this", at=0.0),
        render_markdown(stories[0], "run it"),
        render_html(stories, "run it", engine="this"),
    ]


@pytest.mark.parametrize("name", ECHOES)
async def test_no_file_holds_a_secret(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as an application that logs has it
    server = ScriptedServer(model_message(ECHOES[name], 1))
    path = tmp_path / "store" / "sessions.db"
    async with trio.open_nursery() as nursery:
        url = urlsplit(await nursery.start(server.serve))
        address = url._replace(netloc=f"me:{quote(PASSWORD, safe='')}@{url.netloc}").geturl()
        model = resolve(NAME, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})
        store = await open_sqlite_store(path)
        async with engine.open_engine(
            model=model,
            store=store,
            settings=SETTINGS,
            permissions=PermissionOptions(approver=AllowAll()),
            tools=builtin_tools({}),
            files=FileOptions(spill=tmp_path / "spill"),
        ) as eng:
            session = await eng.create_session(cwd=tmp_path)
            for prompt in ("run it", "fail at once"):
                await session.run(prompt)
            assert os.path.exists(f"{path}-wal")  # noqa: PTH110, ASYNC240  # before it is put back into the file
            assert secrets_in(tmp_path) == []
            state = encode_state(session.state)
        assert any(path.is_file() for path in (tmp_path / "spill").rglob("*")), "nothing was spilled"
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    exports = await exports_of(path, session.id)
    assert all("I run it." in export for export in exports)
    assert not any(form in export for form in (*FORMS, TOKEN) for export in exports)
    assert server.requests[0].headers["x-api-key"] == KEY
    assert secrets_in(tmp_path) == []
    logged = "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records)
    for form in (*FORMS, TOKEN):
        assert form not in state
        assert form not in logged
