"""The sub-agents of a session: a row for each that works, and a line when one ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from engine.cli.terminal.terminal_text import Symbols, duration, escape_control_chars, one_line
from engine.core import events as ev
from engine.core.ids import SessionId
from engine.export.format_cost import format_cost
from engine.journal.state import Resync, SessionState
from engine.tools.tool_text import main_argument

_MOST_SHOWN: Final = 5
_MAX_TITLE: Final = 60


@attrs.define(eq=False)
class SubAgent:
    """A sub-agent that works.

    Attributes:
        name: the name of its agent.
        since: when its turn began; None: before this chat was attached.
        step: the number of its request.
        last: its last tool call.
        cost: what its requests have cost, as far as they were seen.
    """

    name: str
    depth: int
    since: float | None = None
    step: int = 0
    last: str = ""
    cost: float = 0.0


@attrs.define(eq=False)
class SubAgentRows:
    """Follows the events of sub-agents."""

    _symbols: Symbols
    _agents: dict[SessionId, SubAgent] = attrs.field(factory=dict[SessionId, SubAgent], init=False)
    _names: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)

    def replace(self, resync: Resync) -> None:
        """Take the sub-agents that work now."""
        self._agents.clear()
        for child in resync.descendants:
            if child.state.turn is not None:
                self._agents[child.state.session_id] = _agent_of(child.state, child.depth)

    def feed(self, event: ev.Durable | ev.Live) -> list[str]:
        """Follow an event; return the line of a sub-agent that has ended."""
        if len(event.path) <= 1:
            return []
        match event:
            case ev.SessionCreated():
                self._names[event.session_id] = event.agent
            case ev.TurnStarted():
                name = self._names.get(event.session_id, "") or "sub-agent"
                self._agents[event.session_id] = SubAgent(name, len(event.path) - 1, event.time)
            case ev.TurnEnded():
                agent = self._agents.pop(event.session_id, None)
                return [] if agent is None else [self._end_line(agent, event)]
            case _:
                self._work(event)
        return []

    def _work(self, event: ev.Durable | ev.Live) -> None:
        agent = self._agents.get(event.session_id)
        match event:
            case ev.StepStarted() if agent is not None:
                agent.step = event.step
            case ev.StepEnded() if agent is not None:
                agent.cost += event.cost
            case ev.CallQueued() if agent is not None:
                agent.last = (
                    f"{escape_control_chars(event.tool)} {one_line(main_argument(event.arguments), _MAX_TITLE)}"
                )
            case _:
                pass

    def rows(self, now: float) -> Iterator[str]:
        """Yield a row for each; *now* is in seconds since the epoch."""
        agents = list(self._agents.values())
        for agent in agents[:_MOST_SHOWN]:
            seconds = "" if agent.since is None else f"{max(0, int(now - agent.since))} s"
            step = f"request {agent.step}" if agent.step else ""
            facts = filter(None, (step, agent.last.strip(), format_cost(agent.cost), seconds))
            head = f"{'  ' * agent.depth}{self._symbols.running} agent {escape_control_chars(agent.name)}"
            yield self._symbols.between.join((head, *facts))
        if len(agents) > _MOST_SHOWN:
            yield f"+{len(agents) - _MOST_SHOWN} more agents"

    def _end_line(self, agent: SubAgent, event: ev.TurnEnded) -> str:
        result = event.result
        is_done = result.stop_reason == "completed"
        took = "" if agent.since is None else duration(max(0.0, event.time - agent.since))
        state = "" if is_done else result.stop_reason.replace("_", " ")
        requests = f"{result.steps} {'request' if result.steps == 1 else 'requests'}"
        facts = filter(None, (state, requests, took, format_cost(result.cost)))
        symbol = self._symbols.done if is_done else self._symbols.stopped
        head = f"{'  ' * agent.depth}{symbol} agent {escape_control_chars(agent.name)}"
        return self._symbols.between.join((head, *facts))


def _agent_of(state: SessionState, depth: int) -> SubAgent:
    step = 0 if state.turn is None else state.turn.steps
    return SubAgent(state.agent or "sub-agent", depth, None, step, "", state.cost)
