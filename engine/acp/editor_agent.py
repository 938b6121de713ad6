"""`EditorAgent`: the methods of the protocol, over an engine that is opened when the first session needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar, cast, final

import attrs
import trio

from engine.acp.client_files import client_files
from engine.acp.client_params import (
    Authenticate,
    CancelRequest,
    ClientCapabilities,
    ClientParams,
    Initialize,
    ListSessions,
    NewSession,
    OneSession,
    OpenSession,
    Prompt,
    SetConfigOption,
    SetMode,
    read_client_params,
)
from engine.acp.editor_connection import CANCEL, EditorConnection
from engine.acp.editor_host import EditorHost
from engine.acp.editor_servers import server_sources
from engine.acp.editor_session import EditorDefaults, EditorSession
from engine.acp.editor_values import LOGIN, check_folders, editor_error, listed_session, login_method
from engine.acp.prompt_content import PromptContent, read_content
from engine.acp.session_options import MODE
from engine.acp.stop_reasons import CANCELLED
from engine.control.acceptor import OWNER
from engine.control.control_methods import Caller
from engine.control.engine_methods import EngineMethods
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.server_methods import ModelListResult
from engine.control.protocol.session_methods import (
    NoParams,
    SessionDeleteParams,
    SessionListParams,
    SessionListResult,
)
from engine.control.protocol.wire_converter import BadParams
from engine.core.errors import EngineError, SessionNotFound
from engine.core.schema import Json
from engine.core.settings import Settings
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.journal.trace_context import joining_trace
from engine.jsonrpc.rpc_messages import (
    UNKNOWN_METHOD,
    RpcError,
    RpcId,
    RpcNotification,
    RpcRequest,
)
from engine.session.engine import Engine, engine_runtime
from engine.tools.shell_environment import marker

P = TypeVar("P", bound=ClientParams)

PROTOCOL: Final = 1
_CANCELLED: Final = -32800
_PAGE: Final = 50
# After the editor has gone: for the requests that it has left, then for its turns to end and for the answers.
_LAST_REQUESTS_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 5.0
_PROMPT: Final = "session/prompt"


@attrs.frozen
class _OpenRequest:
    """A request that is not answered."""

    request: RpcRequest
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def is_prompt_of(self, session_id: str) -> bool:
        """Return whether it is a prompt for that session."""
        params = self.request.params
        return self.request.method == _PROMPT and isinstance(params, dict) and params.get("sessionId") == session_id


@final
class EditorAgent:
    """The agent behind one connection."""

    def __init__(
        self, connection: EditorConnection, host: EditorHost, *, question_timeout: float | None = None
    ) -> None:
        """Make it; `run` does its work."""
        self._connection = connection
        self._host = host
        self._question_timeout = question_timeout
        self._capabilities: ClientCapabilities | None = None
        self._client = "editor"
        self._engine: Engine | None = None
        self._methods: EngineMethods | None = None
        self._defaults: EditorDefaults | None = None
        self._sessions: dict[str, EditorSession] = {}
        self._new_session: tuple[EditorSession, list[Json]] | None = None
        # Of requests that wait or are being run.
        self._unanswered: dict[RpcId, _OpenRequest] = {}
        self._requests, self._received = trio.open_memory_channel[RpcRequest](256)
        self._handlers: Mapping[str, Callable[[RpcRequest], Awaitable[Json | None]]] = {
            "initialize": self._handler(Initialize, self._initialize),
            "authenticate": self._handler(Authenticate, self._authenticate),
            "session/new": self._handler(NewSession, self._new),
            "session/load": self._handler(OpenSession, self._load),
            "session/resume": self._handler(OpenSession, self._resume),
            "session/list": self._handler(ListSessions, self._list),
            "session/close": self._handler(OneSession, self._close),
            "session/delete": self._handler(OneSession, self._delete),
            "session/set_mode": self._handler(SetMode, self._set_mode),
            "session/set_config_option": self._handler(SetConfigOption, self._set_option),
            _PROMPT: self._handler(Prompt, self._prompt),
            "_session/steering": self._handler(Prompt, self._steer),
        }
        self._nursery: trio.Nursery | None = None
        self._reading = trio.CancelScope()
        # Set once every request has been run.
        self._has_run_all = trio.Event()

    def leave(self) -> None:
        """Run no further request, and go on as if the editor had gone. Not a checkpoint."""
        for each in self._unanswered.values():
            each.scope.cancel(reason="the agent was asked to end")
        self._reading.cancel(reason="the agent was asked to end")

    def is_ours(self, mark: str) -> bool:
        """Return whether a process with this mark belongs to one of the sessions."""
        return any(mark.startswith(marker(session_id)) for session_id in self._sessions)

    async def run(self) -> None:
        """Serve until the editor's output ends; then its turns are cancelled and saved. A checkpoint."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._connection.run_sender)
            nursery.start_soon(self._work)
            with self._reading:
                await self._connection.receive(self._take)
            self._cancel_prompts()
            # An editor may close its end right after its last request, and read on.
            self._requests.close()
            with trio.move_on_after(_LAST_REQUESTS_SECONDS):
                await self._has_run_all.wait()
            with trio.move_on_after(_LAST_SECONDS):
                for session in list(self._sessions.values()):
                    await session.idle()
                await self._connection.is_flushed()
            self._connection.close()
            nursery.cancel_scope.cancel(reason="the editor has gone")

    def _cancel_prompts(self) -> None:
        for session in self._sessions.values():
            session.cancel()
        for each in self._unanswered.values():
            if each.request.method == _PROMPT:
                each.scope.cancel(reason="the editor has gone")

    # -- messages ------------------------------------------------------------------------------------

    def _take(self, message: RpcRequest | RpcNotification) -> None:
        """Begin with a message. Notifications are done at once: a cancel overtakes what waits."""
        if isinstance(message, RpcNotification):
            try:
                self._notified(message)
            except BadParams:
                return  # an error in a notification has no answer
            return
        if message.method not in self._handlers:
            error = RpcError(UNKNOWN_METHOD, f"there is no method {message.method[:100]!r}")
            self._connection.fail(message.id, error)
            return
        self._unanswered[message.id] = _OpenRequest(message)
        self._requests.send_nowait(message)

    def _notified(self, message: RpcNotification) -> None:
        match message.method:
            case "session/cancel":
                session_id = read_client_params(message.params, OneSession).session_id
                if (session := self._sessions.get(session_id)) is not None:
                    session.cancel()
                # Of prompts that have not begun, too.
                for each in self._unanswered.values():
                    if each.is_prompt_of(session_id):
                        each.scope.cancel(reason="the editor cancelled the prompt")
            case method if method == CANCEL:
                request = read_client_params(message.params, CancelRequest).request_id
                if any(session.cancel_prompt(request) for session in self._sessions.values()):
                    return
                if (waiting := self._unanswered.get(request)) is not None:
                    waiting.scope.cancel(reason="the editor cancelled the request")
            case _:
                pass

    async def _work(self) -> None:
        """Run requests one after another: an option that is set applies to the prompt that follows."""
        async for request in self._received:
            waiting = self._unanswered[request.id]
            with waiting.scope:
                await self._run(request)
            if waiting.scope.cancelled_caught:
                self._answer_cancelled(request)
            del self._unanswered[request.id]
        self._has_run_all.set()

    def _answer_cancelled(self, request: RpcRequest) -> None:
        if request.method == _PROMPT:
            self._connection.answer(request.id, {"stopReason": CANCELLED})
        else:
            self._connection.fail(request.id, RpcError(_CANCELLED, "the request was cancelled"))

    async def _run(self, request: RpcRequest) -> None:
        """Run a request, and answer it. A checkpoint."""
        try:
            result = await self._handlers[request.method](request)
        except (EngineError, BadParams, Refusal) as error:
            self._connection.fail(request.id, editor_error(error))
            return
        # A prompt is answered by its end.
        if result is not None:
            self._connection.answer(request.id, result)
            self._follow_new()

    def _handler(
        self, kind: type[P], run: Callable[[P, RpcId], Awaitable[Json | None]]
    ) -> Callable[[RpcRequest], Awaitable[Json | None]]:
        async def handle(request: RpcRequest) -> Json | None:
            if self._capabilities is None and request.method != "initialize":
                raise Refusal("request", "the first request is initialize")
            return await run(read_client_params(request.params, kind), request.id)

        return handle

    # -- the beginning -------------------------------------------------------------------------------

    async def _initialize(self, params: Initialize, _: RpcId) -> Json:
        await trio.lowlevel.checkpoint()
        self._capabilities = params.client_capabilities or ClientCapabilities()
        if params.client_info is not None and params.client_info.name:
            self._client = params.client_info.name[:100]
        return {
            "protocolVersion": PROTOCOL,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "close": {},
                    "delete": {},
                    "additionalDirectories": {},
                },
            },
            "authMethods": [login_method(self._capabilities)],
            "agentInfo": {"name": "engine", "title": "engine", "version": __version__},
        }

    async def _authenticate(self, params: Authenticate, _: RpcId) -> Json:
        if params.method_id != LOGIN:
            raise BadParams("methodId", f"expected {LOGIN}")
        await self._open_engine()
        return {}

    async def _open_engine(self) -> EditorDefaults:
        """Open the engine, if it is not open. A checkpoint. Raises `ConfigError` if no model can be used."""
        if self._defaults is None:
            assert self._nursery is not None
            # Keys may have been added since the last attempt.
            manager = await to_thread(self._host.open_engine)
            engine: Engine = await self._nursery.start(self._hold_engine, manager)
            self._engine, self._methods = engine, EngineMethods(engine)
            self._defaults = await self._read_defaults()
        await trio.lowlevel.checkpoint()
        return self._defaults

    async def _hold_engine(
        self, manager: AbstractAsyncContextManager[Engine], *, task_status: trio.TaskStatus[Engine]
    ) -> None:
        """Keep the engine open until the connection ends. A checkpoint."""
        async with manager as engine:
            task_status.started(engine)
            await trio.sleep_forever()

    async def _read_defaults(self) -> EditorDefaults:
        assert self._engine is not None
        assert self._capabilities is not None
        listed = cast("ModelListResult", await self._call("model.list", NoParams()))
        sizes = {row.name: row.context for row in listed.models}
        runtime = engine_runtime(self._engine)
        return EditorDefaults(
            capabilities=self._capabilities,
            client=self._client,
            profile=getattr(runtime.setup.approver, "profile", ""),
            models=[row.name for row in listed.models if not row.why_not],
            context_size=lambda name: sizes.get(name, 0),
            effort=runtime.setup.defaults.settings.options.effort,
            question_timeout=self._question_timeout,
        )

    async def _call(self, method: str, params: NoParams | SessionListParams | SessionDeleteParams) -> object:
        assert self._methods is not None
        return await self._methods.run(method, params, Caller(self._client, OWNER))

    # -- sessions ------------------------------------------------------------------------------------

    async def _new(self, params: NewSession, _: RpcId) -> Json:
        defaults = await self._open_engine()
        assert self._engine is not None
        check_folders(params.cwd, params.additional_directories)
        sources = server_sources(params.mcp_servers, params.cwd)
        files = client_files(self._connection, defaults.capabilities.fs)
        session = await self._engine.create_session(
            cwd=params.cwd, settings=self._settings, sources=sources, editor=files
        )
        if files is not None:
            files.session_id = session.id
        editor_session = EditorSession(self._engine, session, self._connection, defaults)
        return {"sessionId": session.id, **await self._opened(editor_session, params.additional_directories)}

    async def _load(self, params: OpenSession, _: RpcId) -> Json:
        session = await self._open(params)
        # Before the answer, as the protocol wants it.
        await session.replay()
        return await self._opened(session, params.additional_directories)

    async def _resume(self, params: OpenSession, _: RpcId) -> Json:
        return await self._opened(await self._open(params), params.additional_directories)

    async def _open(self, params: OpenSession) -> EditorSession:
        """Return a stored session, open. A checkpoint. Raises `SessionNotFound`, and other errors of the engine."""
        defaults = await self._open_engine()
        assert self._engine is not None
        check_folders(params.cwd, params.additional_directories)
        if params.session_id in self._sessions:
            return self._sessions[params.session_id]
        sources = server_sources(params.mcp_servers, params.cwd)
        files = client_files(self._connection, defaults.capabilities.fs, params.session_id)
        session = await self._engine.open_session(
            params.session_id, settings=self._settings, sources=sources, editor=files
        )
        return EditorSession(self._engine, session, self._connection, defaults)

    @property
    def _settings(self) -> Settings:
        """The settings of sessions: what ends in the background starts no turn, since no prompt would show that."""
        assert self._engine is not None
        return attrs.evolve(engine_runtime(self._engine).setup.defaults.settings, wake_on_report=False)

    async def _opened(self, session: EditorSession, folders: Sequence[str]) -> dict[str, Json]:
        """Take an open session in; return what the editor learns of it. A checkpoint."""
        session.folders = tuple(folders)
        commands = await to_thread(self._host.commands, session.cwd)
        self._new_session = (
            session,
            [
                cast(
                    "Json",
                    {"name": each.name, "description": each.description or each.name, "input": {"hint": "arguments"}},
                )
                for each in commands
            ],
        )
        return {"modes": session.modes, "configOptions": session.options}

    def _follow_new(self) -> None:
        """Let the updates of a session begin that was just opened: after the answer, or the editor drops them."""
        if self._new_session is None:
            return
        (session, commands), self._new_session = self._new_session, None
        session.announce(commands)
        if session.id not in self._sessions:
            self._sessions[session.id] = session
            assert self._nursery is not None
            self._nursery.start_soon(session.run)

    async def _list(self, params: ListSessions, _: RpcId) -> Json:
        await self._open_engine()
        query = SessionListParams(cwd=params.cwd, limit=_PAGE, before=params.cursor)
        try:
            page = cast("SessionListResult", await self._call("session.list", query))
        except SessionNotFound as error:
            raise BadParams("cursor", "there is no such page") from error
        listed: dict[str, Json] = {"sessions": [listed_session(row) for row in page.rows]}
        return listed if page.next is None else listed | {"nextCursor": page.next}

    async def _close(self, params: OneSession, _: RpcId) -> Json:
        await self._release(params.session_id)
        return {}

    async def _delete(self, params: OneSession, _: RpcId) -> Json:
        await self._open_engine()
        if params.session_id in self._sessions:
            await self._release(params.session_id)
        await self._call("session.delete", SessionDeleteParams(session_id=params.session_id, confirm=params.session_id))
        return {}

    async def _release(self, session_id: str) -> None:
        """Cancel what runs in a session, and close it. A checkpoint. Raises `SessionNotFound`."""
        session = self._session(session_id)
        session.cancel()
        await session.idle()
        session.close()
        del self._sessions[session_id]
        assert self._engine is not None
        await self._engine.close_session(session_id)

    async def _set_mode(self, params: SetMode, _: RpcId) -> Json:
        await self._session(params.session_id).set_option(MODE, params.mode_id)
        return {}

    async def _set_option(self, params: SetConfigOption, _: RpcId) -> Json:
        session = self._session(params.session_id)
        await session.set_option(params.config_id, params.value)
        return {"configOptions": session.options}

    # -- prompts -------------------------------------------------------------------------------------

    async def _prompt(self, params: Prompt, request: RpcId) -> None:
        """Start a turn, whose end answers the request. A checkpoint."""
        session = self._session(params.session_id)
        content = await self._content(params, session)
        await session.use_next_profile()
        headers = cast("dict[str, object]", params.meta) if isinstance(params.meta, dict) else {}  # pyright: ignore[reportUnknownMemberType]  # an editor's
        with joining_trace(headers):
            session.prompt(request, content)

    async def _steer(self, params: Prompt, _: RpcId) -> Json:
        session = self._session(params.session_id)
        session.steer(await self._content(params, session))
        return {}

    async def _content(self, params: Prompt, session: EditorSession) -> PromptContent:
        content = read_content(params.prompt)
        return attrs.evolve(content, text=await to_thread(self._host.expand, content.text, session.cwd))

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(f"session {session_id[:100]!r} is not open")
        return session
