"""`BatchTask`: one task of a batch, as a line of its file says it, with everything that a file name stood for."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import attrs

from engine.core.settings import Limits
from engine.core.value_base import Value

# The first attempt, and three more after faults of the infrastructure.
MAX_ATTEMPTS: Final = 4
MAX_ID_CHARS: Final = 200
COMMAND_TIMEOUT: Final = 600.0
_HASH_CHARS: Final = 16


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskCommand(Value):
    """A command line of a task's author, run by bash in the task's folder.

    Attributes:
        command: the command line.
        timeout: seconds that it may take.
    """

    command: str
    timeout: float = COMMAND_TIMEOUT


def _hash_of(task: BatchTask) -> str:
    return short_hash(json.dumps([_plain(getattr(task, name)) for name in _HASHED]))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchTask(Value):
    """A task. Plain data: it can be sent to another process.

    Attributes:
        id: its name, which no other task of the batch has.
        prompt: what the agent is to do.
        cwd: the folder to copy, or to work in; empty: there is none.
        in_place: work in `cwd` itself; such tasks of one folder never run together.
        repo: the git repository to take a worktree of; empty: none.
        ref: its commit, branch or tag.
        model: instead of the command's; empty: that one. So are agent and profile.
        agent: the agent.
        profile: the permission profile.
        limits: of the turn; what is None is as the command has it.
        timeout: seconds for the turn; at their end it is cancelled, and the attempt is a `timeout`.
        attempts: how many there may be, because of faults of the infrastructure.
        setup: runs before the turn.
        check: runs after the turn, and decides whether the task is passed.
        env: variables for these two commands.
        output_schema: what the answer must fit, as JSON text; empty: it is text.
        metadata: the author's own, as JSON text; empty: none.
        line: where it is in the file, from 1.
        hash: what names its content: a row that has another hash is of another task. What can't change a result does not
            count.
    """

    id: str
    prompt: str
    cwd: str = ""
    in_place: bool = False
    repo: str = ""
    ref: str = "HEAD"
    model: str = ""
    agent: str = ""
    profile: str = ""
    limits: Limits = attrs.field(factory=Limits)
    timeout: float | None = None
    attempts: int = MAX_ATTEMPTS
    setup: TaskCommand | None = None
    check: TaskCommand | None = None
    env: tuple[tuple[str, str], ...] = ()
    output_schema: str = ""
    metadata: str = ""
    line: int = 0
    # Once for each task: a batch of a hundred thousand is compared with its ledger before anything runs.
    hash: str = attrs.field(init=False, eq=False, repr=False, default=attrs.Factory(_hash_of, takes_self=True))

    @property
    def prompt_hash(self) -> str:
        """What names its prompt."""
        return short_hash(self.prompt)

    @property
    def needs_trust(self) -> bool:
        """Whether it runs commands of its author's, without asking."""
        return self.setup is not None or self.check is not None or bool(self.env)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BadLine(Value):
    """A line of a task file that can't be a task.

    Attributes:
        line: its number, from 1.
        id: the task's, if it has one; else a hash of the line.
        message: what is wrong.
    """

    line: int
    id: str
    message: str


def short_hash(text: str) -> str:
    """Return a name for *text*."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]


def _plain(value: object) -> object:
    """Return a field as JSON has it."""
    return attrs.astuple(value) if isinstance(value, (Limits, TaskCommand)) else value


_HASHED: Final = tuple(
    field.name for field in attrs.fields(BatchTask) if field.name not in {"line", "metadata", "attempts", "hash"}
)
