"""The command line of `engine run`, parsed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from engine.cli.flags.model_flags import ModelChoice
from engine.cli.flags.permission_flags import PermissionChoice
from engine.cli.problems.surroundings import Surroundings
from engine.cli.task.task_input import TaskInput
from engine.cli.terminal.colours import ColourChoice
from engine.cli.turn.record_types import OutputMode
from engine.core.settings import Limits
from engine.core.value_base import Value
from engine.prompt.layers import PromptLayers
from engine.store.memory import MEMORY

if TYPE_CHECKING:
    from engine.session.structured_output import OutputSpec


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OutputOptions(Value):
    """What is printed, and whether a user is asked.

    Attributes:
        mode: what standard output carries.
        stream: write the answer as it comes, also into a pipe.
        file: gets the answer, or the record, as well.
        asks: a user at the terminal may be asked.
        deny_ok: calls that were denied for lack of a user to ask are no failure.
        is_quiet: print nothing but the answer and errors.
        colour: whether there are colours.
        verbosity: 1: a line for each request; 2: the debug log on standard error as well.
        debug_log: gets the debug log.
    """

    mode: OutputMode = "text"
    stream: bool = False
    file: Path | None = None
    asks: bool = True
    deny_ok: bool = False
    is_quiet: bool = False
    colour: ColourChoice = "auto"
    verbosity: int = 0
    debug_log: Path | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Options(Value):
    """The parsed command line.

    Attributes:
        input: what to do; None: resume the turn that waits for an answer.
        place: the store's location.
        resume: the session to continue; None: a new one.
        schema: what the answer must fit; None: it is text.
        max_wait: seconds that a provider may be silent, or refuse requests for now; None: the default.
    """

    input: TaskInput | None
    model: ModelChoice
    cwd: Path
    permissions: PermissionChoice
    layers: PromptLayers
    limits: Limits
    output: OutputOptions
    place: str
    resume: str | None
    forks: bool
    has_snapshots: bool
    max_wait: float | None
    schema: OutputSpec | None

    @property
    def surroundings(self) -> Surroundings:
        """What the words about a failure need besides its facts."""
        parts = () if self.input is None else self.input.parts
        return Surroundings(
            env=os.environ,
            config=self.model.config,
            files=[(part.path, part.size) for part in parts],
            place=self.place,
            is_saved=self.place != MEMORY,
            limits=self.limits,
        )
