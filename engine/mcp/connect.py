"""From a configured server to an open connection, as a process or over HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio
from mcp_types import ElicitRequestParams, ElicitResult

from engine.config.mcp_config import McpServer
from engine.core.exception_groups import first_of
from engine.mcp.http_transport import HttpTransport
from engine.mcp.mcp_connection import McpConnection, open_connection
from engine.mcp.message_gate import MessageGate
from engine.mcp.oauth import LoginFile, StoredAuth
from engine.mcp.server_environment import environment_for, expand_variables
from engine.mcp.server_memory import Era
from engine.mcp.server_requests import LoginNeeded
from engine.mcp.stdio_transport import Launched, StdioTransport
from engine.mcp.transport_report import TransportReport
from engine.web.address_guard import Guard


@attrs.frozen(kw_only=True)
class ConnectPlan:
    """All that is needed to connect to a server.

    Attributes:
        name: its name.
        server: its configuration.
        folder: the folder it runs in.
        variables: the engine's environment.
        marker: identifies its processes.
        report: what it does besides answering.
        on_list_changed: called when its tools have changed.
        elicit: answers its questions that name no request.
        roots: the URIs of the folders that it may know.
    """

    name: str
    server: McpServer
    folder: str
    variables: Mapping[str, str]
    marker: str
    report: TransportReport
    on_list_changed: Callable[[], None]
    elicit: Callable[[ElicitRequestParams], Awaitable[ElicitResult]]
    roots: Callable[[], tuple[str, ...]]


@attrs.frozen
class Connected:
    """An open connection.

    Attributes:
        connection: the connection.
        ended: set when the server has ended it.
        why: why it did.
    """

    connection: McpConnection
    ended: trio.Event
    why: Callable[[], str]


@asynccontextmanager
async def connect(plan: ConnectPlan, remembered: Era | None) -> AsyncGenerator[Connected]:
    """Connect to a server; disconnect with the block. Always a checkpoint; if cancelled, nothing is left of it.

    Raises `ConfigError` for variables that are not set, `OSError` for a program that can't be started, and what
    `open_connection` raises; several of these come as a group.
    """
    gate = MessageGate(plan.report, plan.on_list_changed, is_http=bool(plan.server.url))
    transport = _http(plan, gate) if plan.server.url else _stdio(plan, gate)
    try:
        async with (
            transport.open() as streams,
            open_connection(
                streams,
                gate,
                remembered=remembered,
                elicit=plan.elicit,
                roots=plan.roots,
                skills=plan.server.skills,
            ) as connection,
        ):
            yield Connected(connection, transport.ended, lambda: transport.reason)
    except Exception as error:
        # Why the transport ended explains more than that nobody answered.
        if transport.needs_login or first_of(error, LoginNeeded) is not None:
            raise LoginNeeded from error
        if transport.reason and first_of(error, ConnectionError) is None:
            raise ConnectionError(transport.reason) from error
        raise


def _stdio(plan: ConnectPlan, gate: MessageGate) -> StdioTransport:
    launched = Launched(
        argv=plan.server.command,
        cwd=plan.folder,
        env=environment_for(plan.server.env, plan.variables),
        marker=plan.marker,
    )
    return StdioTransport(launched, gate)


def _http(plan: ConnectPlan, gate: MessageGate) -> HttpTransport:
    return HttpTransport(
        url=plan.server.url,
        headers=expand_variables(plan.server.headers, plan.variables),
        # Whoever writes a project's or a plugin's file must not reach what only this machine or its network can.
        guard=Guard() if plan.server.is_foreign else None,
        auth=StoredAuth(plan.server.url, LoginFile.of_user()) if plan.server.oauth else None,
        gate=gate,
    )


# The SDK logs what servers do wrong; with no handler at all, Python would print it between the lines of a chat.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
