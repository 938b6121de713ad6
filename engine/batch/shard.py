"""A shard: one of several equal parts of a batch, with a ledger of its own. Each runs by the same command on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from engine.batch.batch_task import BatchTask
from engine.batch.task_file import TaskList
from engine.core.value_base import Value

MAX_SHARDS: Final = 10_000
_FORM: Final = re.compile(r"([1-9]\d{0,4})/([1-9]\d{0,4})")
_LEDGER: Final = re.compile(r"results-([1-9]\d*)-of-([1-9]\d*)\.jsonl")


@attrs.frozen(eq=True, repr=False)
class Shard(Value):
    """A part of a batch.

    Attributes:
        number: which one, from 1.
        count: how many there are.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of a text such as `2/8`. Raises `ValueError`."""
        form = _FORM.fullmatch(text)
        if form is None or not int(form[1]) <= int(form[2]) <= MAX_SHARDS:
            raise ValueError("must be I/N, the first of eight shards is 1/8")
        return cls(int(form[1]), int(form[2]))

    @classmethod
    def of_ledger(cls, file: str) -> Shard | None:
        """Return the shard whose ledger has that name; None: it is no shard's."""
        form = _LEDGER.fullmatch(file)
        return None if form is None else cls(int(form[1]), int(form[2]))

    def __str__(self) -> str:
        """Return it as the flag has it."""
        return f"{self.number}/{self.count}"

    @property
    def ledger_name(self) -> str:
        """The name of its ledger."""
        return f"results-{self.number}-of-{self.count}.jsonl"

    @property
    def summary_name(self) -> str:
        """The name of its summary."""
        return f"summary-{self.number}-of-{self.count}.json"

    def part(self, tasks: TaskList) -> TaskList:
        """Return its tasks: each N-th of the file. Lines that are no tasks belong to the first shard."""
        return TaskList(
            tasks=tuple(task for task, number in _dealt(tasks.tasks, self.count) if number == self.number),
            bad=tasks.bad if self.number == 1 else (),
        )


def _dealt(tasks: Iterable[BatchTask], count: int) -> Iterator[tuple[BatchTask, int]]:
    """Yield each task with the number of its shard. Tasks that work in one folder are in one shard, never at once."""
    folders: dict[str, int] = {}
    dealt = 0
    for task in tasks:
        number = folders.get(task.cwd) if task.in_place else None
        if number is None:
            number = dealt % count + 1
            dealt += 1
            if task.in_place:
                folders[task.cwd] = number
        yield task, number
