"""`EditorSession`: an open session as the editor sees it. One task follows its events; it sends all updates and answers.

So the order is that of the events: nothing of a prompt comes after the answer to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, final

import attrs
import trio

from engine.acp.client_params import ClientCapabilities
from engine.acp.editor_connection import ClientRequest, EditorConnection
from engine.acp.prompt_content import PromptContent
from engine.acp.session_options import MODE, MODEL, THOUGHT, config_options, mode_name, modes, read_effort
from engine.acp.session_updates import SessionUpdates, Update, chunk, merged, replay
from engine.acp.stop_reasons import explanation, prompt_answer
from engine.acp.user_questions import (
    UNSUPPORTED,
    choice_request,
    form_answers,
    form_request,
    permission_answer,
    permission_request,
    selected_labels,
    selected_option,
)
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.wire_converter import BadParams
from engine.core import events as ev
from engine.core.errors import EngineError
from engine.core.ids import MessageId, RequestId, SessionId, TurnId
from engine.core.llm_types import Effort
from engine.core.schema import Json
from engine.journal.cursors import Cursor
from engine.journal.state import Resync
from engine.jsonrpc.rpc_messages import RpcError, RpcId
from engine.permission.rules.profiles import DEFAULT, is_wider
from engine.session.answer_types import Reject
from engine.session.engine import Engine
from engine.session.live_session import check_profile
from engine.session.session import Session, live_session

# Pieces of text that come within this time are sent together.
_MERGE_SECONDS: Final = 0.02
_BATCH: Final = 512
_REPLAYED: Final = 50
# What an editor with a running prompt shows with it; without one, it comes with the next.
_UNPROMPTED: Final = frozenset({"session_info_update", "notice"})


@attrs.frozen
class _OpenPrompt:
    """A prompt that was not answered."""

    request: RpcId
    turn_id: TurnId


@attrs.define(kw_only=True)
class EditorDefaults:
    """What all sessions of a connection share.

    Attributes:
        capabilities: what the editor knows.
        client: its name, for the record.
        profile: the engine's permission profile.
        models: the models that can be used.
        context_size: the size of a model's window, by its name.
        effort: the reasoning effort of new sessions.
        question_timeout: seconds after which an open question counts as rejected.
    """

    capabilities: ClientCapabilities
    client: str
    profile: str = DEFAULT
    models: Sequence[str] = ()
    context_size: Callable[[str], int] = lambda _: 0
    effort: Effort | None = None
    question_timeout: float | None = None


@final
class EditorSession:
    """Sends what happens in a session, and asks its questions."""

    def __init__(
        self, engine: Engine, session: Session, connection: EditorConnection, defaults: EditorDefaults
    ) -> None:
        """Make it of an open session; `run` does its work."""
        self.session = session
        self._engine = engine
        self._connection = connection
        self._defaults = defaults
        self._effort: Effort | None = defaults.effort
        # A wider profile that was selected while a prompt runs.
        self._next_profile = ""
        self._updates = SessionUpdates(
            context_size=defaults.context_size,
            capabilities=defaults.capabilities,
            cwd=session.state.context.cwd,
            cost=lambda: session.state.cost,
        )
        self._cursor: Cursor = session.subscribe()
        self._prompt: _OpenPrompt | None = None
        # What waits for a prompt.
        self._held: list[Update] = []
        self._open_requests: dict[RequestId, ClientRequest] = {}
        self._scope = trio.CancelScope()
        self._idle = trio.Event()
        self._idle.set()
        # Further folders of the workspace, which the model learns of with the next prompt.
        self.folders: tuple[str, ...] = ()

    @property
    def id(self) -> SessionId:
        """The session's id."""
        return self.session.id

    @property
    def cwd(self) -> str:
        """The session's folder."""
        return self.session.state.context.cwd

    # -- what the editor requests: not a checkpoint unless it says so ----------------------------------

    async def use_next_profile(self) -> None:
        """Use the profile that was selected for the next prompt, unless one runs. Always a checkpoint. Raises `ConfigError`."""
        await trio.lowlevel.checkpoint()
        if self._next_profile and self._prompt is None:
            profile, self._next_profile = self._next_profile, ""
            await self._engine.use_profile(self.session, profile, by=self._defaults.client)

    def prompt(self, request: RpcId, content: PromptContent) -> None:
        """Start a turn; its end answers the request. Raises `Refusal` while a prompt runs, and errors of the engine."""
        if self._prompt is not None:
            # Its turn may have ended, but it has no answer yet; it would never get one if another took its place.
            raise Refusal("request", "a prompt is running in this session: wait for its end, cancel it, or steer it")
        settings = live_session(self.session).config.settings
        settings = attrs.evolve(
            settings,
            options=attrs.evolve(settings.options, effort=self._effort),
            question_timeout=self._defaults.question_timeout,
            # The prompt is answered when the editor leaves, so the turn ends, too.
            park=False,
        )
        turn = self._engine.start_turn(
            self.session,
            content.text + _folders_note(self.folders),
            attachments=content.attachments,
            settings=settings,
            by=self._defaults.client,
        )
        self.folders = ()
        self._prompt = _OpenPrompt(request, turn.id)
        self._idle = trio.Event()

    def steer(self, content: PromptContent) -> None:
        """Add a message to the running prompt. Raises `Refusal` if none runs: a turn without a prompt has no answer."""
        if self._prompt is None:
            raise Refusal("request", "no prompt is running: send it as a prompt")
        self.session.inputs.steer(
            content.text, turn_id=self._prompt.turn_id, attachments=content.attachments, by=self._defaults.client
        )

    def cancel(self) -> None:
        """Cancel the running prompt."""
        if self._prompt is not None:
            self.session.cancel(self._prompt.turn_id, by=self._defaults.client)

    def cancel_prompt(self, request: RpcId) -> bool:
        """Cancel the prompt with that request; return whether it runs."""
        if self._prompt is None or self._prompt.request != request:
            return False
        self.cancel()
        return True

    async def idle(self) -> None:
        """Wait until no prompt runs. A checkpoint."""
        await self._idle.wait()

    async def set_option(self, option: str, value: object) -> None:
        """Select another value of an option. Always a checkpoint. Raises `BadParams`, and errors of the engine."""
        await trio.lowlevel.checkpoint()
        if not isinstance(value, str):
            raise BadParams("value", "expected a text")
        match option:
            case "mode":
                await self._set_mode(value)
            case "model":
                await self.session.switch_model(value, by=self._defaults.client)
            case "thought_level":
                self._effort = read_effort(value)
                self._announce_options()
            case _:
                raise BadParams("configId", f"expected one of {MODE}, {MODEL}, {THOUGHT}")

    async def _set_mode(self, profile: str) -> None:
        """Use a stricter profile at once, a wider one from the next prompt on. A checkpoint if it is used at once.

        Editors select modes by cycling through all of them: on the way to a stricter one, a wider one must not answer
        the question that is open.
        """
        if self._prompt is not None and is_wider(profile, self._profile):
            check_profile(live_session(self.session), profile)
            self._next_profile = profile
            self._announce_mode()
            return
        is_withdrawn, self._next_profile = bool(self._next_profile), ""
        await self._engine.use_profile(self.session, profile, by=self._defaults.client)
        if is_withdrawn:
            self._announce_mode()  # there is no event if it was in use all the time

    @property
    def options(self) -> list[Json]:
        """The options with their values, which are those of the next prompt."""
        return config_options(self._shown_profile, self.session.state.model, self._defaults.models, self._effort)

    @property
    def modes(self) -> dict[str, Json]:
        """The modes, and the current one."""
        return modes(self._shown_profile)

    @property
    def _shown_profile(self) -> str:
        return self._next_profile or self._profile

    @property
    def _profile(self) -> str:
        return self.session.state.profile or live_session(self.session).config.profile or self._defaults.profile

    async def replay(self) -> None:
        """Send the conversation so far. Always a checkpoint; if cancelled, a part of it is sent.

        Raises `Refusal` while a prompt adds to it.
        """
        if self._prompt is not None:
            raise Refusal("request", "a prompt is running in this session: load it when that has ended")
        for number, update in enumerate(replay(self.session.state)):
            self._send(update)
            # A long one takes a while: the first goes out at once, and other sessions go on.
            if number % _REPLAYED == 0:
                await self._connection.has_room()
        await self._connection.has_room()

    def announce(self, commands: list[Json]) -> None:
        """Send what the editor shows of a session that was just opened."""
        self._send({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        self._announce_options()
        state = self.session.state
        if state.title:
            self._send({"sessionUpdate": "session_info_update", "title": state.title})
        if state.counted is not None:
            self._send(self._updates.usage(state.counted.usage, state.model))

    def close(self) -> None:
        """End `run`."""
        self._scope.cancel(reason="the session was closed")

    # -- its task --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the session until it is closed. A checkpoint; if cancelled, the editor gets no more of it."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                # Of a turn that runs already; the questions of a parked one are withdrawn by the next prompt.
                if live_session(self.session).active is not None:
                    for question in self.session.open_questions:
                        self._ask(question, nursery)
                while await self._cursor.wait():
                    has_only_text = self._forward(nursery)
                    await self._connection.has_room()
                    if has_only_text:
                        await trio.sleep(_MERGE_SECONDS)
                nursery.cancel_scope.cancel(reason="the session was closed")
        self._idle.set()
        if not self._scope.cancelled_caught:
            await trio.lowlevel.checkpoint()

    def _forward(self, nursery: trio.Nursery) -> bool:
        """Send the events that have come; return whether they were nothing but pieces of text."""
        self._cursor.merge()
        pending: list[Update] = []
        has_only_text = True
        for _ in range(_BATCH):
            event = self._cursor.try_next()
            if event is None:
                break
            has_only_text = has_only_text and isinstance(event, (ev.TextDelta, ev.ReasoningDelta, ev.ArgumentsDelta))
            if isinstance(event, Resync):
                continue
            pending += self._updates.feed(event)
            self._notice(event, nursery)
            if isinstance(event, ev.TurnEnded) and self._prompt is not None and event.turn_id == self._prompt.turn_id:
                self._send_all(pending)
                pending = []
                self._end_prompt(event)
        self._send_all(pending)
        return has_only_text

    def _end_prompt(self, event: ev.TurnEnded) -> None:
        assert self._prompt is not None
        # Its questions have been withdrawn before this.
        if words := explanation(event.result):
            self._send(chunk("agent_message_chunk", f"\n\n{words}", MessageId(f"end-{event.turn_id}")))
        answer = prompt_answer(event.result)
        if isinstance(answer, RpcError):
            self._connection.fail(self._prompt.request, answer)
        else:
            self._connection.answer(self._prompt.request, answer)
        self._prompt = None
        self._idle.set()

    def _send_all(self, updates: list[Update]) -> None:
        for update in merged(updates):
            if self._prompt is None and update["sessionUpdate"] in _UNPROMPTED:
                self._held.append(update)
            else:
                self._send(update)

    def _send(self, update: Update) -> None:
        if self._prompt is not None and self._held:
            held, self._held = self._held, []
            for each in held:
                self._send(each)
        self._connection.notify("session/update", {"sessionId": self.session.id, "update": update})

    def _notice(self, event: ev.Durable | ev.Live, nursery: trio.Nursery) -> None:
        match event:
            case ev.PermissionAsked() | ev.QuestionAsked():
                self._ask(event, nursery)
            case ev.PermissionAnswered() | ev.QuestionAnswered():
                if (request := self._open_requests.pop(event.request_id, None)) is not None:
                    self._connection.withdraw(request)
            case ev.SessionConfigured():
                self._announce_mode()
            case ev.ModelSwitched():
                self._announce_options()
            case _:
                pass

    def _announce_mode(self) -> None:
        self._send({"sessionUpdate": "current_mode_update", "currentModeId": self._shown_profile})
        self._announce_options()

    def _announce_options(self) -> None:
        self._send({"sessionUpdate": "config_option_update", "configOptions": self.options})

    # -- questions ---------------------------------------------------------------------------------------

    def _ask(self, event: ev.PermissionAsked | ev.QuestionAsked | ev.RecoveryAsked, nursery: trio.Nursery) -> None:
        session: dict[str, Json] = {"sessionId": self.session.id}
        match event:
            case ev.PermissionAsked():
                note = (
                    f"The mode {mode_name(self._next_profile)!r} applies from the next prompt on."
                    if self._next_profile
                    else ""
                )
                params = permission_request(event, self._updates.facts_of(event.call_id), note)
                request = self._connection.ask("session/request_permission", session | params)
                nursery.start_soon(self._take_permission, event, request)
            case ev.QuestionAsked() if self._defaults.capabilities.has_forms:
                request = self._connection.ask("elicitation/create", session | form_request(event))
                nursery.start_soon(self._take_form, event, request)
            case ev.QuestionAsked() if event.choices:
                request = self._connection.ask("session/request_permission", session | choice_request(event))
                nursery.start_soon(self._take_choice, event, request)
            case ev.QuestionAsked():
                # The editor has no way to ask for a text.
                nursery.start_soon(self._answer, event, ())
                return
            case _:  # sessions of editors stop where a model can't be reached
                return
        self._open_requests[event.request_id] = request

    async def _take_permission(self, event: ev.PermissionAsked, request: ClientRequest) -> None:
        answer = await request.answer.wait()
        option = None if isinstance(answer, RpcError) else selected_option(answer.value)
        if option == "":
            self.cancel()
            return
        reply = Reject(feedback=UNSUPPORTED) if option is None else permission_answer(event, option)
        await self._quietly(lambda: self.session.reply(event.request_id, reply, by=self._defaults.client))

    async def _take_form(self, event: ev.QuestionAsked, request: ClientRequest) -> None:
        answer = await request.answer.wait()
        await self._answer(event, () if isinstance(answer, RpcError) else form_answers(answer.value))

    async def _take_choice(self, event: ev.QuestionAsked, request: ClientRequest) -> None:
        answer = await request.answer.wait()
        option = None if isinstance(answer, RpcError) else selected_option(answer.value)
        if option == "":
            self.cancel()
        else:
            await self._answer(event, selected_labels(event, option or ""))

    async def _answer(self, event: ev.QuestionAsked, answers: tuple[str, ...]) -> None:
        await self._quietly(lambda: self.session.answer(event.request_id, *answers, by=self._defaults.client))

    async def _quietly(self, answer: Callable[[], Awaitable[None]]) -> None:
        """Give an answer; one that comes too late changes nothing. A checkpoint."""
        with suppress(EngineError):
            await answer()


def _folders_note(folders: Sequence[str]) -> str:
    """Return what the model learns of further folders: they are named, and nothing in them is allowed by that."""
    return f"\n\n(Further directories of this workspace: {', '.join(folders)})" if folders else ""
