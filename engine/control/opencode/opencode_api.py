"""`OpencodeApi`: the addresses of opencode's HTTP API, each as methods of the control protocol.

They take the same tokens, from the same names and pages, as all others; a token is also taken as the password of HTTP's
basic authentication, which is how opencode's clients send theirs.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast, final
from urllib.parse import unquote

import attrs
import trio

from engine.control.control_methods import Caller
from engine.control.credentials import Login
from engine.control.engine_reads import EngineReads, SessionRecord
from engine.control.event_stream import stream_answer
from engine.control.http_api import HttpApi
from engine.control.http_routes import status_of
from engine.control.opencode.documents import Document, error_document, milliseconds, session_document
from engine.control.opencode.event_feed import EventFeed
from engine.control.opencode.request_parts import body_of, model_name, prompt_of, whole_number, with_bearer
from engine.control.opencode.session_messages import SessionMessages
from engine.control.protocol import answer_methods as an
from engine.control.protocol import session_methods as se
from engine.control.protocol import turn_methods as tu
from engine.control.protocol.error_kinds import Refusal, error_of
from engine.control.protocol.handshake import may
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.wire_converter import BadParams, read_params
from engine.control.server import ControlServer
from engine.control.transport.http_connection import Answer, HttpRequest, Response
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.core.errors import EngineError, RequestNotFound, SessionBusy, TurnOver
from engine.core.ids import SessionId
from engine.core.schema import Json
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.journal.json_text import to_json_text
from engine.session.engine import engine_runtime

if TYPE_CHECKING:
    from engine.session.engine import Engine

T = TypeVar("T")
# The addresses of the control protocol, and of its page.
_OTHERS: Final = re.compile(r"/|/(?:v1|assets)(?:/.*)?|/(?:metrics|healthz|readyz)")
_SESSION: Final = r"/session/(?P<session>[^/]+)"
_NO_STORE: Final = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
# How often a prompt is sent again that found a turn running which then was over, or the other way round.
_TRIES: Final = 5


@attrs.frozen
class _Call:
    """A request, with the parts of its path."""

    head: RequestHead
    body: Mapping[str, Json]
    login: Login
    place: Mapping[str, str]

    @property
    def directory(self) -> str | None:
        """The directory that the client works in."""
        sent = self.head.fields.get("x-opencode-directory")
        return self.head.query.get("directory") or (unquote(sent) if sent else None)

    @property
    def here(self) -> str:
        """The same; where the client names none, that of the server."""
        return self.directory or os.fspath(Path.cwd())

    def check(self, *supported: str) -> None:
        """Raise `BadRequest` for a field that says something which this server does not do."""
        for name, value in self.body.items():
            if name not in supported and value:
                raise BadRequest(400, f"{name} is not supported by this server")


@final
class OpencodeApi:
    """Answers the requests of one connection: those of opencode's API, and leaves others to the control protocol's."""

    def __init__(self, engine: Engine, server: ControlServer, inner: HttpApi) -> None:
        """Make it; *inner* answers everything else."""
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._server = server
        self._inner = inner
        self._reads = EngineReads(engine)
        self._routes: tuple[tuple[str, re.Pattern[str], Callable[[_Call], Awaitable[Answer]]], ...] = tuple(
            (method, re.compile(pattern), handler)
            for method, pattern, handler in (
                ("GET", "/global/health", self._health),
                ("GET", "/event", self._events),
                ("POST", "/instance/dispose", self._dispose),
                ("GET", "/session", self._list),
                ("POST", "/session", self._create),
                ("GET", "/session/status", self._statuses),
                ("GET", _SESSION, self._get),
                ("DELETE", _SESSION, self._delete),
                ("GET", f"{_SESSION}/message", self._messages),
                ("GET", f"{_SESSION}/message/(?P<message>[^/]+)", self._message),
                ("POST", f"{_SESSION}/prompt_async", self._prompt),
                ("POST", f"{_SESSION}/abort", self._abort),
                ("POST", f"{_SESSION}/permissions/(?P<request>[^/]+)", self._permit),
                ("POST", "/permission/(?P<request>[^/]+)/reply", self._permit),
                ("POST", "/question/(?P<request>[^/]+)/(?P<how>reply|reject)", self._answer_question),
            )
        )

    def body_limit(self, head: RequestHead) -> int:
        """Return how long the body may be. Raises `BadRequest` for a client without a valid credential."""
        if head.method == "DELETE" and not _is_ours(head):
            raise BadRequest(405, "DELETE is not supported here")
        return self._inner.body_limit(with_bearer(head) if _is_ours(head) else head)

    def refusal(self, error: BadRequest) -> Response:
        """Return the answer to a refused request."""
        return self._inner.refusal(error)

    async def answer(self, request: HttpRequest) -> Answer:
        """Answer *request*. A checkpoint. Raises `BadRequest`."""
        if not _is_ours(request.head):
            return await self._inner.answer(request)
        self._inner.check_pace()
        login = self._inner.login(with_bearer(request.head))
        try:
            for method, pattern, handler in self._routes:
                matched = pattern.fullmatch(request.head.path)
                if matched is not None and method == request.head.method.replace("HEAD", "GET"):
                    call = _Call(request.head, body_of(request), login, matched.groupdict())
                    with self._server.clients.until_revoked(login):
                        return await handler(call)
            raise BadRequest(404, f"this server has no {request.head.method} {request.head.path}")
        except BadRequest as error:
            return _refused(error.status, error.reason)
        except (EngineError, BadParams) as error:
            refused = error_of(error, incident=self._server.incident(error))
            return _refused(
                status_of(str(cast("Document", refused.data or {}).get("kind", "internal"))), refused.message
            )

    async def _run(self, call: _Call, kind: type[T], method: str, params: Document) -> T:
        """Return the result of a method of the protocol. A checkpoint. Raises errors of the engine and `BadParams`."""
        row = METHODS[method]
        if not may(call.login.role, row.role or "read"):
            raise Refusal("forbidden", f"this needs a token with the role {row.role}")
        count = partial(self._server.metrics.add, "engine_control_requests_total", method)
        try:
            values = read_params(params, row.params)
            result = await self._server.run_method(method, values, Caller(call.login.name, call.login))
        except (EngineError, BadParams) as error:
            count(str(error_of(error).code))
            raise
        count("ok")
        assert isinstance(result, kind)
        return result

    # -- the server --------------------------------------------------------------------------

    async def _health(self, _: _Call) -> Answer:
        await trio.lowlevel.checkpoint()
        return _json({"healthy": True, "version": __version__})

    async def _events(self, call: _Call) -> Answer:
        login, token = call.login, self._server.credentials.token_named(call.login.name)
        await trio.lowlevel.checkpoint()
        if self._server.clients.is_full_for(login):
            raise BadRequest(503, f"too many connections use the token {login.name}")
        feed = EventFeed(
            self._engine,
            self._reads,
            call.directory,
            call.head.fields.get("last-event-id", ""),
            may_open=may(login.role, METHODS["prompt"].role or "read"),
        )
        return stream_answer(self._server, feed, login, token)

    async def _dispose(self, call: _Call) -> Answer:
        """End the turns in a directory, and close its sessions."""
        directory = call.here
        for session_id, live in tuple(self._runtime.sessions.by_id.items()):
            if len(live.journal.path) == 1 and live.journal.state.context.cwd == directory:
                await self._end_turn(call, session_id)
                await self._run(call, se.SessionCloseResult, "session.close", {"session_id": session_id})
        for stream in tuple(self._server.clients.streams):
            if isinstance(stream, EventFeed):
                await stream.tell("server.instance.disposed", directory=directory)
        return _DONE

    # -- sessions ----------------------------------------------------------------------------

    async def _list(self, call: _Call) -> Answer:
        query = call.head.query
        params: Document = {"limit": min(whole_number(query.get("limit", "100")), 200) or 1}
        if call.directory is not None:
            params["cwd"] = call.directory
        rows = (await self._run(call, se.SessionListResult, "session.list", params)).rows
        start, words = whole_number(query.get("start", "0")), query.get("search", "").lower()
        shown = [row for row in rows if milliseconds(row.updated) >= start and words in row.title.lower()]
        return _json([session_document(row) for row in shown])

    async def _create(self, call: _Call) -> Answer:
        call.check("title", "agent", "model")
        params: Document = {"cwd": call.here, "key": secrets.token_hex(16)}
        if call.body.get("title"):
            params["title"] = call.body["title"]
        if call.body.get("agent") not in {None, "build"}:
            params["agent"] = call.body["agent"]
        if model := model_name(call.body.get("model"), "id"):
            params["model"] = model
        created = await self._run(call, se.SessionCreateResult, "session.create", params)
        return _json(session_document(created.row))

    async def _get(self, call: _Call) -> Answer:
        return _json(session_document((await self._session(call, call.place["session"])).row))

    async def _session(self, call: _Call, session_id: str) -> se.SessionGetResult:
        return await self._run(call, se.SessionGetResult, "session.get", {"session_id": session_id})

    async def _statuses(self, call: _Call) -> Answer:
        """Return what sessions do that are not idle."""
        statuses: Document = {}
        for session_id, live in tuple(self._runtime.sessions.by_id.items()):
            if live.journal.state.turn is not None and call.directory in {None, live.journal.state.context.cwd}:
                view = await self._view(session_id)
                statuses[session_id] = view.status
        return _json(statuses)

    async def _delete(self, call: _Call) -> Answer:
        session_id = call.place["session"]
        await self._end_turn(call, session_id)
        params: Document = {"session_id": session_id, "confirm": session_id}
        await self._run(call, se.SessionDeleteResult, "session.delete", params)
        return _DONE

    async def _abort(self, call: _Call) -> Answer:
        await self._cancel(call, call.place["session"])
        return _DONE

    async def _cancel(self, call: _Call, session_id: str) -> str | None:
        """Cancel the turn of a session; return which; None: there was none."""
        turn = (await self._session(call, session_id)).head.turn
        if turn is None:
            return None
        try:
            params: Document = {"session_id": session_id, "turn_id": turn.turn_id}
            await self._run(call, tu.CancelResult, "cancel", params)
        except TurnOver:
            return None
        return turn.turn_id

    async def _end_turn(self, call: _Call, session_id: str) -> None:
        """Cancel the turn of a session, and wait for its end."""
        turn_id = await self._cancel(call, session_id)
        if turn_id is not None:
            params: Document = {"session_id": session_id, "turn_id": turn_id, "timeout": 60}
            await self._run(call, tu.WaitResult, "wait", params)

    # -- messages ----------------------------------------------------------------------------

    async def _messages(self, call: _Call) -> Answer:
        view = await self._view(call.place["session"])
        messages = list(view.messages.values())
        if before := call.head.query.get("before"):
            if before not in view.messages:
                raise BadRequest(404, f"there is no message {before}")
            messages = messages[: list(view.messages).index(before)]
        limit = whole_number(call.head.query.get("limit", "0"))
        return Response(
            body=await to_thread(_encode, [dict(each.document) for each in messages[-limit:]]), fields=_NO_STORE
        )

    async def _message(self, call: _Call) -> Answer:
        found = (await self._view(call.place["session"])).messages.get(call.place["message"])
        if found is None:
            raise BadRequest(404, f"there is no message {call.place['message']}")
        return _json(found.document)

    async def _view(self, session_id: str) -> SessionMessages:
        """Return the messages of a session. A checkpoint. Raises errors of the engine."""
        return await to_thread(_fold, await self._reads.record(session_id))

    async def _prompt(self, call: _Call) -> Answer:
        """Start a turn; or, as opencode does, send the prompt to the model in the turn that runs."""
        call.check("parts", "messageID", "model", "agent")
        session_id = call.place["session"]
        text, attachments = prompt_of(call.body.get("parts"))
        await self._use_model(call)
        params: Document = {
            "session_id": session_id,
            "text": text,
            "attachments": attachments,
            "key": call.body.get("messageID") or secrets.token_hex(16),
        }
        for _ in range(_TRIES):
            try:
                await self._run(call, tu.PromptResult, "prompt", params)
                return Response(status=204)
            except Refusal as busy:
                if busy.kind != "busy":
                    raise
                turn_id = busy.facts.get("turn_id")
            try:
                if turn_id is not None:
                    await self._run(call, tu.InputResult, "steer", {**params, "turn_id": turn_id})
                    return Response(status=204)
            except Refusal as over:
                if over.kind != "conflict" or over.facts.get("error") != TurnOver.__name__:
                    raise
            # Its end is in the record, which is what clients wait for, but it is not gone.
            await self._until_gone(session_id)
        raise SessionBusy("turns begin and end in this session all the time")

    async def _use_model(self, call: _Call) -> None:
        """Use the model that a prompt names from now on; refuse another agent."""
        row = (await self._session(call, call.place["session"])).row
        if call.body.get("agent") not in {None, "build", row.agent}:
            raise BadRequest(
                400, f"this session's agent is {row.agent or 'build'}: create another session for that agent"
            )
        model = model_name(call.body.get("model"), "modelID")
        if model and model != row.model:
            params: Document = {"session_id": row.id, "model": model}
            await self._run(call, se.SeqResult, "model.set", params)

    async def _until_gone(self, session_id: str) -> None:
        """Wait for a turn that has ended. A checkpoint where there is one."""
        live = self._runtime.sessions.by_id.get(SessionId(session_id))
        if live is not None and live.active is not None:
            await live.active.ending.over.wait()

    # -- questions ---------------------------------------------------------------------------

    async def _permit(self, call: _Call) -> Answer:
        """Answer a question for permission."""
        call.check("response", "reply", "message")
        root = await self._asking(call)
        params: Document = {
            "session_id": root,
            "request_id": call.place["request"],
            "feedback": call.body.get("message") or "",
        }
        params["answer"] = call.body.get("response") or call.body.get("reply")
        await self._run(call, an.PermissionReplyResult, "permission.reply", params)
        return _DONE

    async def _answer_question(self, call: _Call) -> Answer:
        """Answer a tool's question, or decline it."""
        call.check("answers")
        root = await self._asking(call)
        params: Document = {"session_id": root, "request_id": call.place["request"]}
        if call.place["how"] == "reply":
            answers = call.body.get("answers")
            params["answers"] = answers[0] if isinstance(answers, list) and answers else []
        await self._run(call, se.SeqResult, "question.answer", params)
        return _DONE

    async def _asking(self, call: _Call) -> str:
        """Return the session at which an open question is answered."""
        request = call.place["request"]
        for row in (await self._run(call, an.QuestionListResult, "asked", {})).questions:
            if row.question.request_id == request:
                return row.session_id
        raise RequestNotFound(f"no open question has the id {request}")


def _is_ours(head: RequestHead) -> bool:
    return _OTHERS.fullmatch(head.path) is None


def _fold(record: SessionRecord) -> SessionMessages:
    view = SessionMessages(record.state.session_id)
    view.fold(record.events)
    view.add_open_text(record.state)
    return view


def _encode(value: object) -> bytes:
    return to_json_text(value).encode()


def _json(value: Json) -> Response:
    return Response(body=_encode(value), fields=_NO_STORE)


_DONE: Final = Response(body=b"true", fields=_NO_STORE)


def _refused(status: int, message: str) -> Response:
    name = "NotFoundError" if status == 404 else "BadRequest" if status == 400 else "UnknownError"
    return Response(status=status, body=_encode(error_document(name, message)), fields=_NO_STORE)
