"""A shell command as a hook: it reads its event, runs, and prints its reply.

A command runs in its own process tree, which is ended when the command has exited, takes too long, or its call is
cancelled: what it leaves in the background goes with it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Final, Generic, Literal, TypeVar

import attrs

from engine.core.hooks import Remark, Subject
from engine.process.run_tree import FinishedProcess, run_tree
from engine.tools.claude_hooks.patch_views import NAMES, PATCH
from engine.tools.claude_hooks.reply import BadReply, HookOutput, HookPoint, read
from engine.tools.claude_hooks.tool_names import Json
from engine.tools.shell_environment import hook_marker

# More of a reply is dropped; what is truncated is no valid JSON, and is reported.
MAX_BYTES: Final = 1_048_576
# Within the grace of a call, so that a cancel need not wait longer.
_GRACE: Final = 0.2

S = TypeVar("S", bound=Subject)
D = TypeVar("D", bound=Remark)


@attrs.frozen(kw_only=True)
class ShellHook(Generic[S, D]):
    """A command at a hook point.

    Attributes:
        name: for the record: the event and the program. The rest of the line may contain secrets.
        timeout: seconds that it may take.
        point: its event.
        matches: whether the hook is meant for the event's names.
        argv: the program and its arguments.
        is_blocking: whether its reply counts; False for "async" hooks.
        project: the folder for `CLAUDE_PROJECT_DIR`; None: the session's working directory.
        env: further variables of the command.
    """

    name: str
    timeout: float
    point: HookPoint[S, D]
    matches: Callable[[tuple[str, ...]], bool]
    argv: tuple[str, ...]
    is_blocking: bool = True
    project: str | None = None
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    # Commands of one event run at the same time, as in Claude Code.
    is_concurrent: ClassVar[Literal[True]] = True

    async def __call__(self, subject: S, /, *, transcript: Callable[[], Awaitable[str]] | None = None) -> D | None:
        """Run it, and return its decision. A checkpoint if it matches *subject*; if cancelled, its processes are ended.

        *transcript* writes the session's history to a file, and returns its path.

        Raises `BadReply` for a malformed reply, and if it was killed or could not be started.
        """
        names = self.point.matched(subject)
        # Not started at all: most hooks are for few events.
        if names is None or not self.matches(names):
            return None
        path = "" if transcript is None else await transcript()
        decision = await self._decide(subject, {"transcript_path": path})
        return decision if self.is_blocking else None

    async def _decide(self, subject: S, extra: Json) -> D:
        views, combine = self.point.views(subject), self.point.combine
        # A hook that names only the tool itself knows its arguments.
        if not views or combine is None or not self.matches(NAMES):
            return await self._ask(subject, extra)
        # One after the other: a command may not expect to run twice at the same time.
        return combine(views, [await self._ask(view, extra | {"engine_tool": PATCH}) for view in views])

    async def _ask(self, subject: S, extra: Json) -> D:
        reply = await self._run(subject, extra)
        return self.point.read_reply(read(self.point.event, reply), subject)

    async def _run(self, subject: S, extra: Json) -> HookOutput:
        output, errors = _Kept(), _Kept()
        finished = await self._finished(subject, extra, output, errors)
        # Killed: whether it would have objected is unknown, so it has failed.
        if finished.exit_code is None:
            raise BadReply(f"it was ended by signal {finished.signal}")
        return HookOutput(code=finished.exit_code, output=output.text, errors=errors.text)

    async def _finished(self, subject: S, extra: Json, output: _Kept, errors: _Kept) -> FinishedProcess:
        project = self.project or subject.cwd
        message = {
            "CLAUDE_PROJECT_DIR": project,
            "ENGINE_PROJECT_DIR": project,
            "ENGINE_SESSION_ID": subject.session_id,
            "ENGINE_HOOK_EVENT": self.point.event,
        }
        failed: OSError | None = None
        # The session's working directory may have been deleted. A guard must still run.
        for folder in dict.fromkeys((subject.cwd, project, "/")):
            try:
                return await run_tree(
                    self.argv,
                    cwd=folder or "/",
                    marker=hook_marker(subject.session_id),
                    on_output=output.take,
                    on_errors=errors.take,
                    input=self.point.payload(subject, extra),
                    env={**os.environ, **self.env, **message},
                    grace=_GRACE,
                )
            except OSError as error:
                failed = failed or error
        raise BadReply(f"it could not be started: {failed}") from failed


@attrs.define(eq=False)
class _Kept:
    """A command's output, up to a limit."""

    _data: bytearray = attrs.field(factory=bytearray, init=False)

    def take(self, chunk: bytes) -> None:
        """Receive output."""
        self._data += chunk[: MAX_BYTES - len(self._data)]

    @property
    def text(self) -> str:
        """The output as text."""
        return self._data.decode("utf-8", "replace")
