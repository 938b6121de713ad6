"""Params and results of the methods about the server itself, its models, agents and tools, calls, outputs and grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import attrs

from engine.control.protocol.bounds import Bounds, Id, Name
from engine.control.protocol.handshake import Role
from engine.control.protocol.session_methods import ClientRow, SessionParams
from engine.control.protocol.wire_converter import Params
from engine.core.events import GrantScope
from engine.core.ids import SessionId


@attrs.frozen(kw_only=True)
class ServerStatusResult:
    """What the server does.

    Attributes:
        sessions: the number of open sessions by status.
        questions: the number of open questions, as `asked` lists them.
        waiting_since: when the oldest of them was asked; None: there is none.
        connections: the number of connected clients.
        draining: the server is about to end.
        role: what this client may do.
    """

    sessions: Mapping[str, int]
    questions: int
    waiting_since: float | None = None
    connections: int
    draining: bool
    role: Role = "read"


@attrs.frozen(kw_only=True)
class ServerDrainParams(Params):
    """How to end the server.

    Attributes:
        seconds: how long running turns may continue.
        reason: shown to clients.
    """

    seconds: Annotated[float, Bounds(0, 3600)] = 10.0
    reason: Annotated[str, Bounds(0, 200)] = ""


@attrs.frozen(kw_only=True)
class ServerDrainResult:
    """When the server ends.

    Attributes:
        until: when turns that still run are parked or cancelled.
    """

    until: float


@attrs.frozen(kw_only=True)
class RpcCancelParams(Params):
    """A running request to cancel.

    Attributes:
        id: its id.
    """

    id: str | int


@attrs.frozen(kw_only=True)
class RpcCancelResult:
    """Whether it was running.

    Attributes:
        cancelled: it is answered with the error `cancelled`.
    """

    cancelled: bool


@attrs.frozen(kw_only=True)
class ClientsResult:
    """Who is connected.

    Attributes:
        clients: the clients.
    """

    clients: tuple[ClientRow, ...]


@attrs.frozen(kw_only=True)
class ModelRow:
    """A model.

    Attributes:
        name: as it is written, `host/model`.
        why_not: why it can't be used here; empty: it can.
        context: the size of its window in tokens.
        output: the maximum tokens of an answer.
        price_input: the price of a million tokens of input.
        price_output: the price of a million tokens of output.
    """

    name: str
    why_not: str = ""
    context: int
    output: int
    price_input: float = 0.0
    price_output: float = 0.0


@attrs.frozen(kw_only=True)
class ModelListResult:
    """The models.

    Attributes:
        models: the models.
    """

    models: tuple[ModelRow, ...]


@attrs.frozen(kw_only=True)
class ModelSetParams(SessionParams):
    """A session's model from the next turn on.

    Attributes:
        model: the model.
    """

    model: Name


@attrs.frozen(kw_only=True)
class OptionalSessionParams(Params):
    """For which session.

    Attributes:
        session_id: the session; None: for the engine.
    """

    session_id: Id | None = None


@attrs.frozen(kw_only=True)
class AgentRow:
    """An agent.

    Attributes:
        name: its name.
        description: when to use it.
        mode: where it can be used.
        model: its model; None: that of the session.
    """

    name: str
    description: str = ""
    mode: str
    model: str | None = None


@attrs.frozen(kw_only=True)
class AgentListResult:
    """The agents.

    Attributes:
        agents: the agents.
    """

    agents: tuple[AgentRow, ...]


@attrs.frozen(kw_only=True)
class ToolRow:
    """A tool.

    Attributes:
        name: its name.
        description: what models read about it.
        read_only: it changes nothing.
        permission: the permission that each call needs; empty: that depends on the call.
    """

    name: str
    description: str = ""
    read_only: bool
    permission: str = ""


@attrs.frozen(kw_only=True)
class ToolListResult:
    """The tools.

    Attributes:
        tools: the tools.
    """

    tools: tuple[ToolRow, ...]


@attrs.frozen(kw_only=True)
class CallSettleParams(SessionParams):
    """The result of a call that waits for it.

    Attributes:
        call_id: the call.
        text: what the model reads.
        failed: the work was done, but reports a failure.
        metadata: JSON text for clients.
    """

    call_id: Id
    text: str
    failed: bool = False
    metadata: str = ""


@attrs.frozen(kw_only=True)
class OutputReadParams(SessionParams):
    """A piece of a result that was too long for the transcript.

    Attributes:
        call_id: the call.
        offset: the first character.
        limit: the maximum number of characters.
    """

    call_id: Id
    offset: Annotated[int, Bounds(0, 2**53)] = 0
    limit: Annotated[int, Bounds(1, 1 << 20)] = 65_536


@attrs.frozen(kw_only=True)
class OutputReadResult:
    """A piece of a result.

    Attributes:
        text: the piece.
        total: how many characters there are.
    """

    text: str
    total: int


@attrs.frozen(kw_only=True)
class GrantRow:
    """A right that was allowed for longer than one call.

    Attributes:
        id: names it.
        permission: the permission.
        pattern: what it covers.
        scope: where it applies.
        project: the project that it applies to.
        session_id: the session that it applies to; None: all of the project.
        until: when it ends; None: with its scope.
    """

    id: str
    permission: str
    pattern: str
    scope: GrantScope
    project: str
    session_id: SessionId | None = None
    until: float | None = None


@attrs.frozen(kw_only=True)
class GrantListResult:
    """What "always" has allowed.

    Attributes:
        grants: the rights.
    """

    grants: tuple[GrantRow, ...]


@attrs.frozen(kw_only=True)
class GrantRevokeParams(Params):
    """A right to take back.

    Attributes:
        id: the right.
    """

    id: Id


@attrs.frozen(kw_only=True)
class GrantRevokeResult:
    """Whether there was such a right.

    Attributes:
        revoked: it no longer applies.
    """

    revoked: bool
