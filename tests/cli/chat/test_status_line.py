"""The status line: what it says, what it leaves out, and where its facts come from."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from engine.cli.chat.display.styles import Painter, without_styles
from engine.cli.chat.machine.chat_events import ParkedTurn
from engine.cli.chat.machine.status_facts import StatusSetup
from engine.cli.chat.machine.status_line import status_line
from engine.cli.chat.notifier import Notifier
from engine.cli.chat.status_sources import StatusSources, read_branch
from engine.config.chat_config import ChatConfig
from engine.config.config import Config
from engine.core import events as ev
from engine.core.errors import ConfigError
from engine.core.ids import CallId, MessageId, PartId, SessionId, TurnId
from engine.core.llm_types import ModelInfo
from engine.core.messages import Usage
from tests.cli.chat.chat_machine import Chat
from tests.cli.processes import await_sleepers, token
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt


def step(cost: float = 0.0, *, prompt: int = 84_000, path: tuple[str, ...] = ("ses",)) -> ev.StepEnded:
    message = MessageId("m")
    usage = Usage(input=prompt // 2, cache_read=prompt // 2)
    return ev.StepEnded(
        step=1,
        message_id=message,
        results_id=message,
        finish=None,
        usage=usage,
        cost=cost,
        path=tuple(map(SessionId, path)),
    )


def shown(chat: Chat, width: int = 200) -> str:
    return without_styles(status_line(chat.machine, 100.0, width))


def busy() -> Chat:
    chat = Chat()
    facts = chat.machine.facts
    facts.info, facts.model, facts.effort, facts.profile = ModelInfo(name="h/m"), "h/m", "high", "ask"
    facts.branch, facts.setup = "main", StatusSetup(cost_limit=2.0)
    chat.event(ev.TurnStarted(turn_id=TurnId("turn"), time=90.0))
    chat.event(step(0.3))
    return chat


def test_fields_are_shown_in_order() -> None:
    chat = busy()
    assert shown(
        chat
    ) == "Working 10 s (Esc: cancel) - ask - h/m high - context 42% of 200k - $0.30 (of $2) - main".replace(
        " - ", f" {chat.machine.view.symbols.note} "
    )


def test_activity_has_its_own_time() -> None:
    chat = busy()
    for number, time in enumerate((95.0, 98.0)):
        chat.event(ev.CallStarted(call_id=CallId(f"c{number}"), time=time))
    assert shown(chat).startswith("Running tools 5 s ")
    chat.event(ev.TextDelta(message_id=MessageId("m"), part_id=PartId("p"), text="So", after=0, offset=0, time=99.0))
    assert shown(chat).startswith("Writing 1 s ")


def test_turn_that_no_engine_runs() -> None:
    chat = busy()
    chat.event(ev.CallStarted(call_id=CallId("c"), time=95.0))
    assert chat.machine.tick_after(100.0) == 1.0
    chat.event(ParkedTurn(is_parked=True, text="It was interrupted."))
    # Nothing of it goes on.
    assert chat.machine.tick_after(100.0) is None
    assert chat.printed[-1].endswith("It was interrupted.")
    assert shown(chat).startswith("Interrupted ")
    chat.event(ev.TurnResumed(turn_id=TurnId("turn"), time=95.0))
    assert shown(chat).startswith("Running tools ")
    assert chat.machine.tick_after(100.0) == 1.0


def test_last_fields_are_left_out_first() -> None:
    chat = busy()
    whole = shown(chat)
    for width in range(len(whole), 0, -1):
        line = shown(chat, width)
        assert len(line) <= width
        assert whole.startswith(line.removesuffix("…"))


def test_unknown_price_is_no_zero() -> None:
    chat = Chat()
    assert "cost" not in shown(chat)
    chat.event(ev.TurnStarted(turn_id=TurnId("turn")))
    chat.event(step())
    assert "cost ?" in shown(chat)


def test_costs_of_sub_agents_count_once() -> None:
    chat = busy()
    chat.event(step(0.5, path=("ses", "child")))
    assert "$0.80" in shown(chat)
    chat.event(ev.TurnEnded(turn_id=TurnId("turn"), result=ev.TurnResult(stop_reason="completed", cost=1.0)))
    assert "$1.00" in shown(chat)


@pytest.mark.parametrize(("prompt", "code"), [(100_000, ""), (140_000, "33"), (180_000, "31")])
def test_full_window_has_a_colour_and_a_word(prompt: int, code: str) -> None:
    chat = busy()
    chat.event(step(prompt=prompt))
    chat.machine.view.use_painter(Painter())
    line = status_line(chat.machine, 100.0, 200)
    assert (f"\x1b[{code}mcontext" in line) == bool(code)
    assert ("nearly full: /compact" in line) == (code == "31")


def test_chosen_fields_alone_are_shown() -> None:
    chat = busy()
    chat.machine.facts.setup = StatusSetup(fields=("branch", "model"))
    assert shown(chat) == f"main {chat.machine.view.symbols.note} h/m high"
    with pytest.raises(ConfigError, match="status must name some of state, profile"):
        ChatConfig(status=("colour",))


def test_expensive_prompt_needs_a_second_enter() -> None:
    chat = busy()
    chat.event(ev.TurnEnded(turn_id=TurnId("turn"), result=ev.TurnResult(stop_reason="completed", cost=1.0)))
    chat.machine.facts.info = ModelInfo(name="h/m", price_input=10.0)
    chat.machine.facts.setup = StatusSetup(warn_cost=0.5)
    chat.type("go")
    chat.press("enter")
    assert chat.take() == []
    assert "at least $0.84 (chat.warn_cost is $0.5)" in chat.machine.notice
    # Another text is asked about again.
    chat.type("!")
    chat.press("enter")
    assert chat.take() == []
    chat.press("enter")
    assert len(chat.take()) == 1


# -- where facts come from --------------------------------------------------------------------------------


def test_branch_is_read_without_git(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert read_branch(tmp_path / "deep") == ""
    subprocess.run(["git", "init", "-q", "-b", "some/branch", str(tmp_path)], check=True)
    assert read_branch(tmp_path / "deep" / "er") == "some/branch"
    tree = tmp_path / "deep" / "tree"
    tree.mkdir()
    (tmp_path / ".git" / "worktrees").mkdir()
    (tmp_path / ".git" / "worktrees" / "HEAD").write_text("0123456789abcdef\n")
    (tree / ".git").write_text(f"gitdir: {tmp_path}/.git/worktrees\n")
    assert read_branch(tree) == "01234567"


def status_of(program: str, folder: Path, *, until: str) -> str:
    """The user's own status line, once the program was run."""
    config = Config(chat=ChatConfig(status_command=(sys.executable, "-c", program)))
    chat = busy()

    async def main() -> None:
        sources = StatusSources(chat.machine.facts, config, lambda: "ses", lambda: str(folder))
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sources.run, lambda: None)
                while not await trio.Path(folder / until).exists():
                    chat.machine.facts.used += 1
                    sources.note_change()
                    await trio.sleep(0.1)
                await trio.sleep(0.5)
                nursery.cancel_scope.cancel()

    trio.run(main)
    return shown(chat)


@pytest.mark.os
def test_users_program_gets_the_facts(tmp_path: Path) -> None:
    # It starts in 300 ms on an idle machine only, so it is asked until it has answered once.
    program = "import sys,pathlib; d=sys.stdin.read(); print('mine\\x1b[2J'); pathlib.Path('facts').write_text(d)"
    line = status_of(program, tmp_path, until="facts")
    facts = json.loads((tmp_path / "facts").read_text())
    assert (facts["model"], facts["cost"], facts["folder"]) == ("h/m", {"usd": 0.3, "limit": 2.0}, str(tmp_path))
    assert line in {"mine^[[2J", shown(busy())} or line.startswith("Working")


@pytest.mark.os
def test_slow_program_is_killed(tmp_path: Path) -> None:
    program = "import pathlib,time; pathlib.Path('ran').touch(); print('late', flush=True); time.sleep(600)"
    assert status_of(program, tmp_path, until="ran").startswith("Working")


@pytest.mark.os
@pytest.mark.parametrize("program", ["raise SystemExit('no')", "print('mine'); raise SystemExit(3)", ""])
def test_failing_program_changes_nothing(tmp_path: Path, program: str) -> None:
    assert status_of(f"import pathlib; pathlib.Path('ran').touch(); {program}", tmp_path, until="ran").startswith(
        "Working"
    )


@pytest.mark.os
def test_endless_output_is_not_kept(tmp_path: Path) -> None:
    program = "import pathlib,os; pathlib.Path('ran').touch()\nwhile True: os.write(1, b'x' * 100_000)"
    tracemalloc.start()
    try:
        assert status_of(program, tmp_path, until="ran").startswith("Working")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.os
@pytest.mark.slow
def test_cancel_everywhere_leaves_no_program(tmp_path: Path, is_full: bool, count_runs: CountRuns) -> None:
    sleeper = token()
    command = ("sh", "-c", f"sleep {sleeper} & wait")
    config = Config(chat=ChatConfig(status_command=command))

    async def status() -> None:
        sources = StatusSources(busy().machine.facts, config, lambda: "ses", lambda: str(tmp_path))
        sources.note_change()
        await sources.run(lambda: None)

    async def notification() -> None:
        await Notifier("command", command).run_command("text")

    def play(run: Callable[[], Awaitable[None]], step: int | None) -> CancelAt:
        points = CancelAt(step)

        async def main() -> None:
            with trio.move_on_after(0.5), points.scope():
                await run()

        trio.run(main, instruments=[points])
        await_sleepers(sleeper, 0)
        return points

    for run in (status, notification):
        steps = play(run, None).steps
        runs = range(0, steps, 1 if is_full else max(1, steps // 4))
        assert sum(play(run, step).has_fired for step in runs) > len(runs) // 2
        count_runs(len(runs))
