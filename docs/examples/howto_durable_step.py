"""How to put a turn into a step of a workflow engine: a plain function that may be cancelled, and repeated."""

import contextvars
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import trio

import engine
from engine.providers import Model
from engine.testing import Pause, ScriptedProvider, done, text

# -- the turn: the same job twice is the same session -----------------------------------------


async def work(model: Model, store: str, job: str, task: str) -> str:
    async with engine.open_engine(model=model, store=store) as eng:
        session = await eng.create_session(cwd="/", session_id=f"job-{job}")
        last = session.state.last_result
        if last is not None and last.stop_reason == "completed":
            return last.text  # the workflow engine had lost the answer, the store has it
        if session.state.turn is not None:
            turn = session.resume()
        elif last is None:
            turn = session.prompt(task)
        else:  # a cancel, a crash or a limit has ended the turn before
            turn = session.prompt("Continue the task where it stopped.")
        async with turn:
            result = await turn.wait()
    if result.stop_reason != "completed":
        raise RuntimeError(f"{result.stop_reason}: {result.detail}")
    return result.text


# -- the step: a function without async, for a thread -----------------------------------------


async def cancel_when(is_cancelled: Callable[[], bool], scope: trio.CancelScope) -> None:
    while not is_cancelled():  # noqa: ASYNC110  # there is nothing to wait for
        await trio.sleep(0.2)
    scope.cancel(reason="the workflow was cancelled")


async def work_until(is_cancelled: Callable[[], bool], model: Model, store: str, job: str, task: str) -> str | None:
    answer: str | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when, is_cancelled, nursery.cancel_scope)
        answer = await work(model, store, job, task)
        nursery.cancel_scope.cancel(reason="the turn has ended")
    return answer


def step(is_cancelled: Callable[[], bool], model: Model, store: str, job: str, task: str) -> str | None:
    """Return the answer; None if the step was cancelled. The turn is settled and saved either way."""
    return trio.run(work_until, is_cancelled, model, store, job, task)


# -- a workflow engine, as small as it can be -------------------------------------------------


def run_in_thread(cancelled: threading.Event, model: Model, store: str) -> str | None:
    answers: list[str | None] = []
    arguments = (cancelled.is_set, model, store, "42", "Which test is slow?")
    thread = threading.Thread(target=contextvars.copy_context().run, args=(lambda: answers.append(step(*arguments)),))
    thread.start()
    thread.join()
    return answers[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "sessions.db"))
        cancelled = threading.Event()
        cancelled.set()
        print("cancelled:", run_in_thread(cancelled, ScriptedProvider([[Pause(3_600), *done()]]), store))
        model = ScriptedProvider([[*text("test_parse."), *done()]])
        print("again:", run_in_thread(threading.Event(), model, store))
        print("repeated:", run_in_thread(threading.Event(), model, store))


if __name__ == "__main__":
    main()
