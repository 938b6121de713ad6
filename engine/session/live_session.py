"""`LiveSession`: a session that is open in this engine, shared by its handle, its turns and its sub-agents.

Hosts hold a `Session`, which delegates to one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, cast, final

import attrs
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError, EngineClosed, SessionBusy, SessionClosed, TurnOver
from engine.core.events import Notice, SessionConfigured
from engine.core.exception_groups import describe
from engine.core.foreign_calls import call_foreign, reporting_blocks
from engine.core.ids import CallId, InputId, SessionId, TurnId
from engine.core.permission_types import (
    Approver,
    HidingApprover,
    PermissionQuery,
    PermissionScope,
    ProfileApprover,
    RequiredRight,
)
from engine.core.protocols import Deps
from engine.journal.log import Journal
from engine.nursery.inbox import admit, find_admitted, report
from engine.nursery.parkable import check_not_parked
from engine.nursery.questions import Questions
from engine.nursery.running_turn import RequestUsage, TurnRun
from engine.permission.rules.profiles import require_liftable
from engine.session.answer_types import require_input_id, require_label
from engine.session.engine_services import EngineServices
from engine.session.session_background import SessionBackground, SubAgentRunner
from engine.session.session_config import SessionConfig
from engine.session.session_hooks import SessionHooks
from engine.sources.running_source import RunningSource
from engine.sources.session_tools import SessionTools
from engine.tools.registry import Registry
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.core.llm_types import ModelInfo
    from engine.core.messages import MediaPart, Transcript
    from engine.journal.state import PendingInput
    from engine.tools.tool_source import SourceScope

# The permissions of the tools that start and control sub-agents.
SUB_AGENTS = frozenset({"task", "task_output", "task_stop"})


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class LiveSession:
    """A session that is open in this engine.

    Attributes:
        config: how its turns work; replaced as a whole, between turns or by `use_tools`.
        own_hooks: the hooks of the session itself, outside of its turns.
        requests: what its requests leave to the next one.
        input: the input that waits for a turn.
        questions: the open questions of its turn and of its sub-agents.
        active: the running turn; None: the session is idle.
        is_reverting: files are being restored, so no turn may begin.
        is_closing: `close_session` has begun; nothing new may begin.
        tools: its tools as its turns get them.
    """

    engine: EngineServices
    journal: Journal
    deps: Deps
    config: SessionConfig
    questions: Questions
    _make_sub_agents: Callable[[LiveSession], SubAgentRunner] = attrs.field(alias="make_sub_agents")
    _start_next: Callable[[LiveSession], None] = attrs.field(alias="start_next")
    _sources: tuple[RunningSource, ...] = attrs.field(alias="sources", default=())
    tools: SessionTools = attrs.field(init=False)
    input: SessionInput = attrs.field(init=False)
    background: SessionBackground = attrs.field(init=False)
    own_hooks: SessionHooks = attrs.field(init=False)
    requests: SessionRequests = attrs.field(init=False)
    active: TurnRun | None = attrs.field(default=None, init=False)
    is_reverting: bool = attrs.field(default=False, init=False)
    is_closing: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        # Each part gets only what it needs.
        self.tools = SessionTools(_SourcesView(self), self._sources)
        self.input = SessionInput(self, partial(self._start_next, self))
        self.requests = SessionRequests(self)
        self.background = SessionBackground(self.journal, self.engine.tasks, partial(self._make_sub_agents, self))
        self.own_hooks = SessionHooks(
            self.engine.setup.hooks, self.journal, self.engine.tasks, lambda: self.config.settings.hook_timeout
        )

    @property
    def id(self) -> SessionId:
        """Its identifier."""
        return self.journal.session_id

    @property
    def is_closed(self) -> bool:
        """Whether it is closed or being closed, alone or with its engine."""
        return self.is_closing or self.journal.is_closed or self.engine.tasks.is_closed

    # -- what it may do now ---------------------------------------------------------------

    def check_open(self) -> None:
        """Raise `EngineClosed`, `WrongThread`, or `SessionClosed`."""
        if self.engine.tasks.is_closed:
            raise EngineClosed("the engine was closed; open a new one")
        self.check_not_closed()

    def check_not_closed(self) -> None:
        """Raise `WrongThread`, or `SessionClosed` if it was closed and its engine is open."""
        self.engine.tasks.check_run()
        if self.is_closed and not self.engine.tasks.is_closed:
            raise SessionClosed(f"session {self.id} was closed: open it again, with open_session()")

    def check_idle(self) -> None:
        """Raise `SessionBusy` while a turn runs, `TurnParked` if one is parked."""
        self.check_no_turn()
        check_not_parked(self.journal.state)

    def check_no_turn(self) -> None:
        """Raise `SessionBusy` while a turn runs or files are being restored."""
        if self.is_reverting:
            raise SessionBusy(f"files are being put back in session {self.id}; wait until that is done")
        if self.active is not None:
            raise SessionBusy(
                f"a turn is running in session {self.id}; wait for its end, steer it, or use session.inputs.queue()"
            )

    def notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        """Report something to clients. Not a checkpoint."""
        self.journal.append(Notice(level=level, code=code, text=text))


@attrs.frozen(eq=False, repr=False)
class _SourcesView:
    """The session, as sources of tools see it (`engine.sources.session_tools.SessionView`)."""

    _session: LiveSession

    @property
    def own_registry(self) -> Registry:
        return self._session.config.registry

    @property
    def source_scope(self) -> SourceScope:
        # Imported here: most engines have no sources.
        from engine.tools.tool_source import SourceScope

        session = self._session
        return SourceScope(
            session_id=session.id,
            root_id=session.journal.path[0],
            cwd=session.journal.state.context.cwd,
            agent=session.config.agent,
        )

    @property
    def transcript(self) -> Transcript:
        return self._session.journal.state.transcript

    @property
    def model(self) -> ModelInfo:
        return self._session.deps.models[0].info

    @property
    def eager_tokens(self) -> int | None:
        return self._session.config.settings.eager_tokens

    def has_tool(self, tool: Tool) -> bool:
        return self._session.config.has_tool(tool.name, tool.permission)

    def hides(self, permission: str) -> bool:
        session = self._session
        approver = session.deps.approver
        scopes = session.config.permission_scopes(session.id, TurnId(""))[-1:]
        return isinstance(approver, HidingApprover) and approver.hides(
            scopes, session.journal.state.context.cwd, permission
        )

    def notice(self, text: str) -> None:
        self._session.notice("warning", "tool_source", text)


@attrs.define(eq=False, repr=False)
class SessionRequests:
    """What the requests of a session leave to the next one.

    Attributes:
        counted: the usage of the last request.
        touched: the files and folders that tools have used since instructions were last looked for.
    """

    _session: LiveSession
    counted: RequestUsage | None = attrs.field(default=None, init=False)
    touched: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    # Decided once per set of tools: they are part of the request prefix, and a change costs the host's cache.
    _hidden: tuple[Registry, frozenset[str]] | None = attrs.field(default=None, init=False)

    def forget_hidden_tools(self) -> None:
        """Decide again, for the next turn, which tools are not offered. Not a checkpoint."""
        self._hidden = None

    def hidden_tools(self, chain: tuple[PermissionScope, ...], agent_depth: int) -> frozenset[str]:
        """Return the tools that are not offered, because the rules deny everything they could do. Not a checkpoint."""
        session = self._session
        registry = session.config.registry
        if self._hidden is None or self._hidden[0] is not registry:
            approver, cwd, hidden = session.deps.approver, session.journal.state.context.cwd, frozenset[str]()
            if isinstance(approver, HidingApprover):
                # Without bounds: they may end during a turn, and the prefix must not change.
                lasting = tuple(link for link in chain if not link.is_bound)
                hidden = registry.hidden_by(partial(approver.hides, lasting, cwd))
                if lasting:
                    hidden |= registry.hidden_choices(partial(_denies, approver, lasting, cwd))
            self._hidden = registry, hidden
        # Not cached: the depth is a setting of the turn.
        is_deepest = len(session.journal.path) > agent_depth
        return self._hidden[1] | (registry.hidden_by(SUB_AGENTS.__contains__) if is_deepest else frozenset[str]())


def _denies(approver: Approver, chain: tuple[PermissionScope, ...], cwd: str, tool: Tool, choice: str) -> bool:
    """Return whether the rules deny one of a tool's choices."""
    query = PermissionQuery(
        chain=chain,
        call_id=CallId(""),
        cwd=cwd,
        tool=tool.name,
        read_only=tool.read_only,
        permission=tool.permission,
        rights=(RequiredRight(permission=tool.permission, pattern=choice),),
    )
    return approver.judge(query).verdict == "deny"


@attrs.define(eq=False, repr=False)
class SessionInput:
    """A session's input other than prompts: steers, queued input, and reports of background work.

    Attributes:
        start_queued_turn: starts the next queued turn if the session is idle.
    """

    _session: LiveSession
    start_queued_turn: Callable[[], None]
    _has_missed_start: bool = attrs.field(default=False, init=False)

    def admit(
        self,
        text: str,
        mode: Literal["steer", "queue"],
        input_id: str | None,
        *,
        attachments: tuple[MediaPart, ...] = (),
        turn_id: TurnId | None = None,
        by: str = "",
    ) -> InputId:
        """Admit a steer or queued input. Not a checkpoint."""
        return admit(
            self._session.journal,
            self._session.deps.ids,
            text,
            mode,
            attachments=attachments,
            input_id=require_input_id(input_id),
            turn_id=turn_id,
            by=require_label(by),
        )

    def steer(
        self, text: str, turn_id: str | None, input_id: str | None, attachments: tuple[MediaPart, ...], by: str = ""
    ) -> InputId:
        """Admit a steer of the running turn. Not a checkpoint. Raises `TurnOver`, `TurnParked`, `InputConflict`."""
        session, own_id = self._session, require_input_id(input_id)
        run = session.active
        # First: a client that got no reply may send it again when the turn is over.
        if own_id is None or find_admitted(session.journal, own_id, text, "steer", attachments) is None:
            open_turn = session.journal.state.turn
            if run is None and open_turn is not None and turn_id in {None, open_turn.turn_id}:
                check_not_parked(session.journal.state)
            if run is None or turn_id not in {None, run.journal.turn_id} or run.ending.cause is not None:
                raise TurnOver("the turn has ended or is ending; use session.prompt() or session.inputs.queue()")
        to_turn = None if run is None else run.journal.turn_id
        return self.admit(text, "steer", own_id, attachments=attachments, turn_id=to_turn, by=by)

    def report(self, text: str, display: str, *, may_wake: bool) -> None:
        """Admit a report for the model: into the running turn, a turn of its own, or the next one. Not a checkpoint."""
        session = self._session
        if session.journal.is_closed:
            return
        admit_report = partial(report, session.journal, session.deps.ids, text, display=display)
        if session.active is not None and session.active.ending.cause is None:
            admit_report("steer", turn_id=session.active.journal.turn_id)
        elif session.active is not None or session.journal.state.turn is not None:
            # The turn is ending, or parked. If it ends by itself, the report starts the next one; otherwise it waits
            # for a prompt.
            admit_report("steer")
        elif may_wake and session.config.settings.wake_on_report and not session.is_closed:
            admit_report("queue")
            self.try_start_queued_turn()
        else:
            admit_report("steer")

    def next_queued(self) -> PendingInput | None:
        """Return the input for the next turn, if one may begin now. Not a checkpoint."""
        session = self._session
        self._has_missed_start = session.is_reverting
        # A parked turn blocks it as well, until `resume` or a new prompt.
        is_blocked = session.is_reverting or session.is_closed
        if session.active is not None or is_blocked or session.journal.state.turn is not None:
            return None
        inbox = session.journal.state.inbox
        # A report that arrived after the last turn had checked for input for the last time.
        late = (item for item in inbox if item.message.origin == "engine" and session.config.settings.wake_on_report)
        return next((item for item in inbox if item.mode == "queue"), None) or next(late, None)

    def try_start_queued_turn(self) -> None:
        """Start the next queued turn; if it can't begin, just report that. Not a checkpoint."""
        try:
            self.start_queued_turn()
        except Exception as error:  # noqa: BLE001  # raised here it would end the turn's host, or all turns of the engine
            text = f"the next queued input could not be started: {describe(error)}"
            self._session.notice("warning", "internal_error", text)

    def start_missed(self) -> None:
        """Start a queued turn that could not begin while files were being restored. Not a checkpoint."""
        if self._has_missed_start:
            self.try_start_queued_turn()


# -- the permission profile, which clients of a session share -----------------------------------


async def use_profile(session: LiveSession, profile: str | None, by: str) -> None:
    """See `Engine.use_profile`. Always a checkpoint."""
    session.check_open()
    name = "" if profile is None else cast("object", profile)
    if not isinstance(name, str):
        raise ConfigError(f"a profile is the name of one, or None for the engine's, not {profile!r}")
    _select(session, name, require_label(by))
    with reporting_blocks(session.notice):
        await call_foreign("the store", session.deps.store.flushed, session.id, session.journal.seq)


@enable_ki_protection
def check_profile(session: LiveSession, profile: str) -> None:
    """Raise `ConfigError` if the session can't use that profile. Not a checkpoint."""
    approver = _profile_approver(session)
    try:
        _use(session, approver, profile)
    finally:
        # Nothing has been judged by it: there was no checkpoint.
        approver.use_profile(session.id, session.journal.state.profile)


def _profile_approver(session: LiveSession) -> ProfileApprover:
    approver = session.deps.approver
    if not isinstance(approver, ProfileApprover):
        raise ConfigError("this engine's host decides about permissions by itself, without profiles")
    return approver


@enable_ki_protection
def _select(session: LiveSession, profile: str, by: str) -> None:
    """Use a profile, record it, and answer what it allows. Not a checkpoint."""
    if len(session.journal.path) > 1:
        raise ConfigError(
            f"session {session.id} is a sub-agent's, which has the profile of session {session.journal.path[0]}"
        )
    before = session.journal.state.profile
    if profile == before:
        return
    approver = _profile_approver(session)
    _use(session, approver, profile)
    try:
        session.journal.append(SessionConfigured(profile=profile, by=by))
    except BaseException:  # of a port; what nobody can see must not apply
        approver.use_profile(session.id, before)
        raise
    session.requests.forget_hidden_tools()
    session.questions.release_allowed()


def _use(session: LiveSession, approver: ProfileApprover, profile: str) -> None:
    """Let the approver use a profile in the session; empty: its folder's. Not a checkpoint. Raises `ConfigError`."""
    if profile and session.config.profile:
        require_liftable(session.config.profile, profile)
    approver.use_profile(session.id, profile)


def restore_profile(session: LiveSession) -> None:
    """Use the profile that a restored session's record names. Not a checkpoint.

    Where that is not possible any more, the record says that the session has the engine's.
    """
    profile = session.journal.state.profile
    approver, reason = session.deps.approver, "the host decides about permissions by itself"
    if isinstance(approver, ProfileApprover):
        try:
            _use(session, approver, profile)
        except ConfigError as error:
            reason = str(error)
        else:
            return
    session.journal.append(SessionConfigured(profile=""))
    session.notice("warning", "profile_not_used", f"the session's permission profile {profile!r} has ended: {reason}")
