"""`TrioMachine`: it finds what a cancel leaves, shrinks it, and says which task does not end."""

from typing import TypeVar

import pytest
import trio
from hypothesis import Phase, settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from engine.testing import TrioMachine, cancel_points

M = TypeVar("M", bound=TrioMachine)
SETTINGS = settings(max_examples=15, stateful_step_count=5, deadline=None, database=None, derandomize=True)
QUICK = settings(SETTINGS, phases=[Phase.generate])


class Slots:
    """Two slots; a task that is cancelled keeps its own."""

    def __init__(self, *, gives_back: bool) -> None:
        self.free = 2
        self.gives_back = gives_back

    async def use(self) -> None:
        if not self.free:
            await trio.lowlevel.checkpoint()
            return
        self.free -= 1
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            self.free += self.gives_back
            raise
        self.free += 1


class SlotMachine(TrioMachine):
    gives_back = True

    async def set_up(self) -> None:
        self.slots = Slots(gives_back=self.gives_back)
        await trio.lowlevel.checkpoint()

    @rule(cancel=cancel_points(3))
    def use(self, cancel: int | None) -> None:
        self.start(self.slots.use, cancel_after=cancel)

    @invariant()
    def a_slot_is_free_or_in_use(self) -> None:
        assert self.slots.free + len(self.alive()) >= 2, "a slot is lost"


class LosingMachine(SlotMachine):
    gives_back = False


class RaisingMachine(TrioMachine):
    @rule()
    def fails(self) -> None:
        self.start(self.fail)

    async def fail(self) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("from a task")


class AllowingMachine(RaisingMachine):
    raises = (ValueError,)


class ShieldedMachine(TrioMachine):
    @rule()
    def shields(self) -> None:
        self.start(self.shield)

    async def shield(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)


@pytest.mark.parametrize("machine", [SlotMachine, AllowingMachine])
def test_correct_object_passes(machine: type[TrioMachine]) -> None:
    run_state_machine_as_test(machine, settings=QUICK)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (LosingMachine, "a slot is lost"),
        (RaisingMachine, "the task fail raised ValueError: from a task"),
        (ShieldedMachine, "cancelled tasks have not ended after 10 seconds: shield at"),
    ],
)
def test_broken_object_is_found(machine: type[TrioMachine], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        run_state_machine_as_test(machine, settings=QUICK)


def test_lost_slot_shrinks_to_one_task() -> None:
    with pytest.raises(AssertionError) as raised:
        run_state_machine_as_test(LosingMachine, settings=SETTINGS)
    rules = [line for line in getattr(raised.value, "__notes__", []) if "state.use(" in line]
    assert "\n".join(rules).count("state.use(") == 1


def test_tasks_cancelled_at_the_end_are_named() -> None:
    class WaitingMachine(TrioMachine):
        @rule()
        def wait_for_long(self) -> None:
            self.start(trio.sleep, 100)

        async def tear_down(self) -> None:
            assert not self.tasks, "a task was there"
            await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="a task was there") as raised:
        run_state_machine_as_test(WaitingMachine, settings=QUICK)
    assert "these tasks were cancelled: sleep at" in "\n".join(getattr(raised.value, "__notes__", []))
