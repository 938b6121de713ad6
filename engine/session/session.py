"""`Session`, a host's handle to a conversation. It owns a journal, and has at most one turn at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast, final, overload

import attrs
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError
from engine.core.events import Durable, ModelSwitched, SessionTitled, TurnResult
from engine.core.foreign_calls import call_foreign, reporting_blocks
from engine.core.ids import SessionId, TurnId
from engine.core.messages import MediaPart
from engine.core.protocols import Model
from engine.core.settings import Headless, Settings
from engine.journal.cursors import Cursor, follow
from engine.journal.position import Position
from engine.journal.state import OpenQuestion, SessionState
from engine.session.answer_delivery import answer, recover, reply, settle
from engine.session.answer_types import Answer, Recovery, require_input_id, require_label, require_text
from engine.session.live_session import LiveSession
from engine.session.session_background import SessionBackground
from engine.session.session_context import SessionContext
from engine.session.session_files import SessionFiles
from engine.session.session_inputs import SessionInputs, find_prompted
from engine.session.turn import Turn, new_turn
from engine.session.turn_start import begin_turn, cancel_turn, resume_turn
from engine.session.validation import registry_of, require_media, require_settings
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.session.structured_output import OutputSpec, StructuredResult

T = TypeVar("T", bound=attrs.AttrsInstance)


@final
class Session:
    """One conversation. Made by `Engine.create_session`, not by its constructor."""

    _live: LiveSession

    def __init__(self) -> None:
        """Raise TypeError."""
        raise TypeError("sessions are made by an engine: await eng.create_session()")

    def __repr__(self) -> str:
        """Return its class and id."""
        return f"<Session {self.id}>"

    @property
    def id(self) -> SessionId:
        """Its identifier."""
        return self._live.id

    @property
    def state(self) -> SessionState:
        """The current state of the session, the text of open parts included."""
        return self._live.journal.snapshot()

    def events(self) -> Sequence[Durable]:
        """Return its events so far, without those of sub-agents. Not a checkpoint."""
        return self._live.journal.events()

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The open questions of the session and all its sub-agents, as the events that asked them, the oldest first.

        For a client that joins a running session: `state` does not include the sub-agents.
        """
        path = self._live.journal.path
        return tuple(event for event in self._live.questions.events if event.path[: len(path)] == path)

    @property
    def files(self) -> SessionFiles:
        """The changes its turns made to files: to show, undo, redo and restore."""
        return SessionFiles(self._live)

    @property
    def context(self) -> SessionContext:
        """What fills the model's window: to show and compact."""
        return SessionContext(self._live)

    @property
    def background(self) -> SessionBackground:
        """Its background commands and sub-agents."""
        return self._live.background

    @property
    def inputs(self) -> SessionInputs:
        """The input that waits for a turn, and the ways to add to it."""
        return SessionInputs(self._live)

    # -- turns ------------------------------------------------------------------------------

    def prompt(
        self,
        text: str,
        *,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
        input_id: str | None = None,
        output: OutputSpec | None = None,
        by: str = "",
    ) -> Turn:
        """Return a turn for the prompt *text*; enter it to start it. Not a checkpoint.

        Args:
            text: the prompt.
            attachments: images and files, made by `engine.attach`.
            settings: instead of the session's.
            input_id: makes it idempotent, for ever: if a prompt with this id was sent before, the turn is that prompt's,
                running or over, and nothing is run again; leaving the block does not end it.
            output: what the answer must fit; made by `engine.options.answer_schema`.
            by: the client of the host that sends it, for the record (`InputAdmitted`).

        Raises on entering: `SessionBusy` if another turn is running; for an id that was sent before, `InputConflict` if
        the content was another one, `TurnParked` if its turn is parked.
        """
        self._live.engine.tasks.check_run()
        own_id, media = require_input_id(input_id), require_media(attachments)
        if output is not None:
            from engine.session.structured_output import require_spec

            require_spec(output)
        begin = partial(
            begin_turn,
            self._live,
            require_text(text, "a prompt"),
            attachments=media,
            settings=require_settings(settings, self._live.config.settings),
            input_id=own_id,
            output=output,
            by=require_label(by),
        )
        if own_id is None:
            return new_turn(self._live, begin)
        return new_turn(self._live, begin, partial(find_prompted, self._live, own_id, text, media))

    @overload
    async def run(
        self, text: str, *, attachments: Sequence[MediaPart] = (), settings: Settings | None = None
    ) -> TurnResult: ...
    @overload
    async def run(
        self,
        text: str,
        *,
        output: type[T],
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> StructuredResult[T]: ...
    async def run(
        self,
        text: str,
        *,
        output: type[T] | None = None,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> TurnResult | StructuredResult[T]:
        """Run a turn to its end and return its result. Always a checkpoint.

        There is no user to answer questions, so calls that would need one are denied, and the model reads why. If
        cancelled, the turn is settled and saved first.
        With *output*, an attrs class, the answer must fit it.
        """
        require_text(text, "a prompt")
        own = require_settings(settings, self._live.config.settings)
        headless: Headless = "deny" if own.headless == "wait" else own.headless
        # "rules" stays: a host chooses on purpose to let only the rules decide.
        own = attrs.evolve(own, headless=headless, on_exhausted="stop")
        if output is not None:
            from engine.session.structured_output import check_class

            check_class(output)
        begin = partial(
            begin_turn, self._live, text, attachments=require_media(attachments), settings=own, output=output
        )
        async with new_turn(self._live, begin) as turn:
            await turn.wait()
        if output is None:
            return turn.result
        from engine.session.structured_output import structured

        return structured(output, turn.result)

    @enable_ki_protection
    def cancel(self, turn_id: str, *, by: str = "") -> bool:
        """Cancel the turn with that id, and no other; return whether it is ending now. Not a checkpoint.

        For a turn whose `Turn` someone else has, such as one of queued input. True also if it was ending already. False:
        it is over, or was never there. A parked turn ends without going on. *by* names the client of the host that cancels; watchers
        see it in `TurnEnding`.
        """
        return cancel_turn(self._live, TurnId(require_text(turn_id, "a turn id")), require_label(by))

    def resume(self, *, settings: Settings | None = None) -> Turn:
        """Return the turn that was parked when its engine was closed or killed; enter it to resume it.

        Not a checkpoint.

        Its questions are asked again, under the current rules. Entering it raises `NothingParked` if no turn is parked.
        """
        self._live.engine.tasks.check_run()
        own = require_settings(settings, self._live.config.settings)
        return new_turn(self._live, partial(resume_turn, self._live, settings=own))

    async def settle(self, call_id: str, text: str, *, failed: bool = False, metadata: str = "") -> None:
        """Deliver the result of a call that waits for it (`engine.tools.external`). Always a checkpoint.

        When this returns, the result is in the record and durable. If cancelled, it may be.

        Args:
            call_id: the call's id, from its events.
            text: what the model reads.
            failed: the work was done, but reports a failure.
            metadata: JSON text for clients.

        Raises:
            CallNotFound: no such call waits for a result, or not any more; it may just have been cancelled.
            StoreError: the result is in the record, but not durable.
            TurnParked: its turn is parked: resume it first.
        """
        await settle(self._live, call_id, text, failed=failed, metadata=metadata)

    def subscribe(self, after: int | Position | None = None) -> Cursor:
        """Return a cursor over this session's events, after a number or from now on. Not a checkpoint."""
        self._live.engine.tasks.check_run()
        position = cast("object", after)
        if position is not None and not isinstance(position, (int, Position)):
            raise ConfigError(f"subscribe after an event's seq, an int, or a cursor's Position, not {position!r}")
        return follow(self._live.journal, after, token=self._live.engine.tasks.token)

    # -- answers ------------------------------------------------------------------------------

    async def reply(self, request_id: str, answer: Answer, *, by: str = "") -> None:
        """Answer an open question. Always a checkpoint. *by* names the client of the host that answers, here and below.

        Raises `AlreadyAnswered` if another answer was first; `RequestNotFound`. If cancelled, it may be answered.
        """
        await reply(self._live, request_id, answer, by)

    async def answer(self, request_id: str, *answers: str, by: str = "") -> None:
        """Answer a tool's question (`QuestionAsked`), in words or by labels; with neither, decline.

        Always a checkpoint.

        Raises `AlreadyAnswered`, `RequestNotFound`. If cancelled, it may be answered.
        """
        await answer(self._live, request_id, answers, by)

    async def recover(self, request_id: str, how: Recovery, *, model: str | Model | None = None, by: str = "") -> None:
        """Decide how to continue after a failed request (`RecoveryAsked`). Always a checkpoint.

        Args:
            request_id: the question's id.
            how: "wait" and retry, "switch" to *model* for the rest of the turn, or "stop".
            model: a name or a `Model`; `switch_model` keeps it for later turns.
            by: the client of the host that answers.

        Raises `AlreadyAnswered`, `RequestNotFound`; `ConfigError` for an unusable model, and then the question stays
        open. If cancelled, it may be answered.
        """
        await recover(self._live, request_id, how, model=model, by=by)

    # -- tools, model, title -------------------------------------------------------------------

    async def switch_model(self, model: str | Model | Sequence[str | Model], *, by: str = "") -> None:
        """Use another model from the next turn on: a name, a `Model`, or a chain of them. Always a checkpoint.

        The history goes to the new model; reasoning that only the old one can read is sent as plain text. *by* names the
        client of the host that switches. Raises `ConfigError` for an unusable model.
        """
        self._live.check_open()
        label = require_label(by)
        models, folder = self._live.engine.models, self._live.config.folder_config
        choices = models.choices_of(model)
        await models.learn(models.models_of(choices, folder))
        live = self._live
        live.check_open()
        # A running turn keeps the models it began with.
        live.deps = attrs.evolve(live.deps, models=models.models_of(choices, folder))
        live.config = attrs.evolve(live.config, choices=choices)
        live.journal.append(ModelSwitched(model=live.deps.models[0].info.name, by=label))

    def use_tools(self, tools: Iterable[Tool]) -> None:
        """Replace the session's tools, from the next request on, even in a running turn. Not a checkpoint.

        An earlier call of a tool that is no longer the same is not run; its result asks the model to look again.
        Running sub-agents keep their tools.
        Raises `ConfigError`.
        """
        live = self._live
        live.check_open()
        # The open step keeps the tools of its request; its calls are compared with the new ones before they run.
        registry = registry_of(tools)
        if live.tools.sources:
            live.tools.with_search(registry)  # raises for a name that is taken
        live.config = attrs.evolve(live.config, registry=registry)
        if live.active is not None:
            live.active.registry = live.tools.registry()
            live.active.hidden = live.requests.hidden_tools(
                live.active.inputs.chain, live.active.inputs.settings.agent_depth
            )

    async def rename(self, title: str) -> None:
        """Set the title, replacing any other. Always a checkpoint; if cancelled, it may be set.

        Raises `ConfigError` for an empty title, `StoreError` if it could not be saved.
        """
        live = self._live
        live.check_open()
        line = " ".join(require_text(title, "a title").split())
        live.journal.append(SessionTitled(title=line, by="user"))
        with reporting_blocks(live.notice):
            await call_foreign("the store", live.deps.store.flushed, live.id, live.journal.seq)


def new_session(live: LiveSession) -> Session:
    """Return a handle to an open session."""
    session = object.__new__(Session)
    session._live = live  # pyright: ignore[reportPrivateUsage]  # its factory
    return session


def live_session(session: Session) -> LiveSession:
    """Return the session behind a handle."""
    return session._live  # pyright: ignore[reportPrivateUsage]  # hosts have no way to it
