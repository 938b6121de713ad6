"""What a tool in a host process gets in place of a turn: little, since the turn is in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import attrs

from engine.core.context_report import ContextReport
from engine.core.errors import ToolError
from engine.core.events import AnswerKind, Choice, SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.named_locks import Locks
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool_context import ToolContext, UserAnswers

_HERE = "is not available to a tool file that runs in a process of its own"


@attrs.frozen(eq=False)
class HostCall:
    """The services for a call in a host process.

    Attributes:
        locks: locks that the calls of this process share.
        show: shows the tool's progress.
    """

    locks: Locks
    show: Callable[[str], None]
    spills: None = None
    edit_reviewer: None = None
    editor: None = None

    @property
    def jobs(self) -> NoReturn:
        """Raise `ToolError`."""
        raise ToolError(f"ctx.jobs {_HERE}.")

    @property
    def agents(self) -> NoReturn:
        """Raise `ToolError`."""
        raise ToolError(f"ctx.agents {_HERE}.")

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Do nothing: what this process changes is recorded only in git repositories. Not a checkpoint."""

    def progress(self, message: str, output: str) -> None:
        """Show the tool's progress."""
        self.show(message or output[-200:])

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        """Return that the user has not allowed it. Not a checkpoint."""
        return "reject", f"the question for {need.permission!r} {_HERE}"

    def permits(self, need: Need, answered: str) -> bool:
        """Return False: the rules are in the other process."""
        return False

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        """Return that the user did not answer. Not a checkpoint."""
        return "declined", ()

    async def result_from_outside(self) -> ToolOutput:
        """Raise `ToolError`. Not a checkpoint."""
        raise ToolError(f"ctx.result_from_outside {_HERE}.")

    def context_report(self) -> ContextReport:
        """Raise `ToolError`."""
        raise ToolError(f"ctx.context_report {_HERE}.")

    async def run_agent(self, request: object) -> NoReturn:
        """Raise `ToolError`. Not a checkpoint."""
        raise ToolError(f"ctx.run_agent {_HERE}.")

    async def start_agent(self, request: object) -> NoReturn:
        """Raise `ToolError`. Not a checkpoint."""
        raise ToolError(f"ctx.start_agent {_HERE}.")


def host_context(call: HostCall, key: str, cwd: str) -> ToolContext:
    """Return the context of a call in a host process."""
    return ToolContext(
        session_id=SessionId("ses_isolated"),
        turn_id=TurnId("trn_isolated"),
        call_id=CallId(key),
        shared=SharedContext(cwd=cwd),
        host=call,
    )
