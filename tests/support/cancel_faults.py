"""Faults planted in small Trio programs, each of another kind and with its reason; and correct programs that look wrong."""

import gc
import io
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path

import attrs
import trio
import trio.lowlevel

from engine.testing import mark_point
from engine.testing.cancellation.function_run import AsyncFunction, FunctionSource

KEPT: list[object] = []


@attrs.frozen(kw_only=True)
class Fault:
    """A wrong program, why it is wrong, and what the report must say."""

    reason: str
    source: Callable[[Path], FunctionSource]
    says: str
    options: Mapping[str, object] = attrs.field(factory=dict[str, object])


async def swallows_and_goes_on() -> None:
    for _ in range(3):
        with suppress(BaseException):
            await trio.sleep(0.1)
        await trio.sleep(0.1)


async def swallows_and_returns() -> None:
    with suppress(BaseException):
        await trio.sleep(0.1)


async def swallows_for_ever() -> None:
    while True:
        try:
            await trio.sleep(0.1)
        except BaseException:  # noqa: ASYNC103
            continue  # noqa: ASYNC104
        break


async def spins_in_a_shield() -> None:
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:  # noqa: ASYNC103
        with trio.CancelScope(shield=True):
            while True:
                await trio.lowlevel.checkpoint()


async def exits() -> None:
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:  # noqa: ASYNC103
        sys.exit(3)  # noqa: ASYNC104


@contextmanager
def loses_a_connection(_: Path) -> Generator[AsyncFunction]:
    free = ["connection"]

    async def use() -> None:
        connection = free.pop()
        await trio.sleep(0.1)
        free.append(connection)

    yield use
    assert free, "the connection was not given back"


@contextmanager
def cleans_up_unshielded(_: Path) -> Generator[AsyncFunction]:
    sent: list[str] = []

    async def talk() -> None:
        await trio.sleep(0.1)
        sent.append("hello")
        try:
            await trio.sleep(0.1)
        finally:
            await trio.sleep(0.1)  # as a stream does that sends  # noqa: ASYNC102
            sent.append("goodbye")

    yield talk
    assert sent in ([], ["hello", "goodbye"]), "the other side waits for a goodbye"


async def leaves_a_socket_open() -> None:
    one, other = socket.socketpair()
    KEPT[:] = [one, other]
    await trio.sleep(0.1)
    one.close()
    other.close()


async def leaves_a_socket_to_the_collector() -> None:
    one, other = socket.socketpair()
    await trio.sleep(0.1)
    one.close()
    other.close()


async def leaves_a_file_open() -> None:
    file = Path(os.devnull).open("rb", buffering=0)  # noqa: ASYNC230, SIM115
    KEPT[:] = [file]
    await trio.sleep(0.1)
    file.close()


class Temporary:
    is_removed = False

    def __del__(self) -> None:
        if not self.is_removed:
            raise RuntimeError("it was not removed")


async def raises_in_a_destructor() -> None:
    temporary = Temporary()
    await trio.sleep(0.1)
    temporary.is_removed = True


async def ends_a_thread_by_an_error() -> None:
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: int(answers.get()), name="reader")
    thread.start()
    try:
        await trio.lowlevel.checkpoint()
        answers.put("3")
    finally:
        answers.put("")
        thread.join()


async def leaves_a_system_task() -> None:
    done = trio.Event()

    async def background() -> None:
        await done.wait()

    trio.lowlevel.spawn_system_task(background)
    await trio.sleep(0.1)
    done.set()


async def is_shielded_for_ever() -> None:
    answer = trio.Event()
    try:
        await trio.sleep(0.1)
        answer.set()
    finally:
        with trio.CancelScope(shield=True):
            await answer.wait()


async def is_shielded_too_long() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(60)


async def leaves_a_thread() -> None:
    stop = threading.Event()
    KEPT[:] = [stop]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: trio.to_thread.run_sync(stop.wait, 30, abandon_on_cancel=True))
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        stop.set()


async def leaves_a_process() -> None:
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    KEPT.append(process)
    await trio.lowlevel.checkpoint()
    process.communicate()


def leaves_a_file(folder: Path) -> AsyncFunction:
    async def write() -> None:
        part = folder / "download.part"
        part.write_bytes(b"")
        await trio.sleep(0.1)
        part.unlink()

    return write


async def leaves_a_generator_open() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            await trio.sleep(0.1)
            yield number

    KEPT[:] = [numbers()]
    async for _ in KEPT[0]:  # type: ignore[attr-defined]
        await trio.sleep(0.1)


async def raises_another_error() -> None:
    try:
        await trio.sleep(0.1)
        answer = "yes"
    finally:
        print(end=answer[:0])  # pyright: ignore[reportPossiblyUnboundVariable]


async def swallows_the_interrupt() -> None:
    with suppress(KeyboardInterrupt):
        await trio.sleep(0.1)
    await trio.sleep(0.1)


@contextmanager
def cleanup_is_interrupted(_: Path) -> Generator[AsyncFunction]:
    state = ["old"]

    async def replace() -> None:
        try:
            await trio.sleep(0.1)
        finally:
            state.clear()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.sleep(0.1)
            state.append("new")

    yield replace
    assert state, "it is neither old nor new"


async def forgets_to_await() -> None:
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        trio.lowlevel.checkpoint()  # type: ignore[unused-coroutine]  # noqa: ASYNC105
        raise


@contextmanager
def only_under_one_schedule(_: Path) -> Generator[AsyncFunction]:
    order: list[str] = []
    cut = [False]

    async def first() -> None:
        order.append("first")
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            cut[0] = order == ["second", "first"]
            raise

    async def second() -> None:
        order.append("second")
        await trio.lowlevel.checkpoint()

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            nursery.start_soon(second)

    yield both
    assert not cut[0], "the second came first"


@contextmanager
def breaks_inside_a_step(_: Path) -> Generator[AsyncFunction]:
    busy = [False]

    async def work() -> None:
        await trio.sleep(0.1)
        busy[0] = True
        mark_point("the callback of the caller")
        if trio.current_effective_deadline() == -inf:
            return
        busy[0] = False

    yield work
    assert not busy[0], "it is busy for ever"


async def releases_what_it_never_had() -> None:
    lock = trio.Lock()
    try:
        await lock.acquire()
        await trio.sleep(0.1)
    finally:
        lock.release()


async def swallows_in_a_thread() -> None:
    is_done = threading.Event()

    def work() -> None:
        with suppress(trio.Cancelled):
            while not is_done.wait(0.001):
                trio.from_thread.check_cancelled()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_soon, is_done)
        await trio.to_thread.run_sync(work)
        await trio.lowlevel.checkpoint()


async def _set_soon(event: threading.Event) -> None:
    for _ in range(3):
        await trio.lowlevel.checkpoint()
    event.set()


async def divides_by_what_is_left() -> None:
    for _ in range(3):
        left = trio.current_effective_deadline() - trio.current_time()
        KEPT[:] = [1 / left]
        await trio.sleep(0.1)


def plain(function: FunctionSource) -> Callable[[Path], FunctionSource]:
    return lambda _: function


def made(factory: Callable[[Path], object]) -> Callable[[Path], FunctionSource]:
    return lambda folder: partial(factory, folder)  # type: ignore[return-value]


SCOPE = {"by": ("scope",)}

FAULTS: dict[str, Fault] = {
    "swallows and goes on": Fault(
        reason="a broad except makes the task deaf to one cancel",
        source=plain(swallows_and_goes_on),
        says="swallowed Cancelled, which it got at",
    ),
    "swallows and returns": Fault(
        reason="the caller believes that the work was done",
        source=plain(swallows_and_returns),
        says="and returned normally",
    ),
    "swallows for ever": Fault(
        reason="a loop that retries everything never ends, and uses the processor",
        source=plain(swallows_for_ever),
        says="swallowed Cancelled",
    ),
    "spins in a shield": Fault(
        reason="it asks again and again for what can't come any more, and no time passes",
        source=plain(spins_in_a_shield),
        says="goes on without an end, past 500 points",
        options={"most_points": 500},
    ),
    "exits": Fault(
        reason="a cancel ends the whole program instead of one task",
        source=plain(exits),
        says="the function raised SystemExit: 3",
    ),
    "a connection is lost": Fault(
        reason="what was taken is given back only on the happy path",
        source=made(loses_a_connection),
        says="the connection was not given back",
    ),
    "an unshielded clean-up": Fault(
        reason="in a cancelled scope an await in a finally raises at once",
        source=made(cleans_up_unshielded),
        says="the other side waits for a goodbye",
    ),
    "a socket is left": Fault(
        reason="it is opened before the try that closes it", source=plain(leaves_a_socket_open), says="the socket"
    ),
    "a socket is left to the collector": Fault(
        reason="Python closes it at some time, and complains",
        source=plain(leaves_a_socket_to_the_collector),
        says="ResourceWarning: unclosed <socket",
    ),
    "a file is left open": Fault(
        reason="nothing closes it before the program ends",
        source=plain(leaves_a_file_open),
        says="(/dev/null) is left open",
        options=SCOPE,
    ),
    "an error in a destructor": Fault(
        reason="Python can only print it",
        source=plain(raises_in_a_destructor),
        says="RuntimeError: it was not removed",
        options=SCOPE,
    ),
    "a thread ends by an error": Fault(
        reason="no task sees it",
        source=plain(ends_a_thread_by_an_error),
        says="the thread reader ended with ValueError",
        options=SCOPE,
    ),
    "a system task is left": Fault(
        reason="no nursery waits for it", source=plain(leaves_a_system_task), says="the task background is left, at"
    ),
    "an endless shield": Fault(
        reason="what it waits for never comes once the cancel has struck",
        source=plain(is_shielded_for_ever),
        says="has not ended 10 virtual seconds after the cancel",
    ),
    "a shield that is too long": Fault(
        reason="a minute is no clean-up",
        source=plain(is_shielded_too_long),
        says="has not ended 10 virtual seconds after the cancel",
    ),
    "a thread is left": Fault(
        reason="an abandoned thread waits for what is never sent",
        source=plain(leaves_a_thread),
        says="still runs",
        options={**SCOPE, "only": "scope@4"},
    ),
    "a process is left": Fault(
        reason="nothing ends it, and nothing waits for it",
        source=plain(leaves_a_process),
        says="a process is left",
        options={**SCOPE, "only": "scope@0"},
    ),
    "a file is left": Fault(
        reason="a half-written file stays", source=leaves_a_file, says="download.part is left", options=SCOPE
    ),
    "a generator is left open": Fault(
        reason="its clean-up runs when the program ends, in another task",
        source=plain(leaves_a_generator_open),
        says="the async generator numbers is left open",
        options=SCOPE,
    ),
    "another error": Fault(
        reason="the finally uses what only the happy path assigns",
        source=plain(raises_another_error),
        says="UnboundLocalError",
    ),
    "a swallowed interrupt": Fault(
        reason="Ctrl-C does nothing",
        source=plain(swallows_the_interrupt),
        says="KeyboardInterrupt",
        options={"by": ("interrupt",)},
    ),
    "an interrupted clean-up": Fault(
        reason="a shield holds back cancels, not Ctrl-C",
        source=made(cleanup_is_interrupted),
        says="it is neither old nor new",
        options={"by": ("scope_then_interrupt",), "seconds": range(1, 6)},
    ),
    "an await is forgotten": Fault(
        reason="the branch runs only when it is cancelled",
        source=plain(forgets_to_await),
        says="was never awaited",
    ),
    "one schedule only": Fault(
        reason="it needs the one order of two tasks that is not the order in the source",
        source=made(only_under_one_schedule),
        says="the second came first",
        options={**SCOPE, "schedules": 10},
    ),
    "inside a step": Fault(
        reason="a callback may cancel between two checkpoints",
        source=made(breaks_inside_a_step),
        says="it is busy for ever",
    ),
    "a lock that it never had": Fault(
        reason="cancelled before its first step, it gives back what it did not get",
        source=plain(releases_what_it_never_had),
        says="RuntimeError: can't release a Lock",
        options=SCOPE,
    ),
    "swallows in a thread": Fault(
        reason="the task continues as if the thread had done all of its work",
        source=plain(swallows_in_a_thread),
        says="trio.from_thread.check_cancelled(), and went on to",
        options=SCOPE,
    ),
    "a deadline that is now": Fault(
        reason="the time that is left may be exactly 0",
        source=plain(divides_by_what_is_left),
        says="ZeroDivisionError",
        options={"by": ("deadline",)},
    ),
}


# ---- correct, and unusual --------------------------------------------------------------------------------------------


async def keeps_cancelled_for_later() -> None:
    """It catches everything, cleans up under a shield with a deadline, and raises it later."""
    error: BaseException | None = None
    try:
        await trio.sleep(0.1)
    except BaseException as caught:  # noqa: ASYNC103
        error = caught
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
        await trio.sleep(0.2)
    if error is not None:
        raise error


async def is_cancelled_many_times_on_its_way() -> None:
    """Each level closes something, which is a checkpoint that raises again; an inner shield ends by its own deadline."""
    try:
        async with _closing_slowly(), _closing_slowly():
            with trio.move_on_after(0.05):
                await trio.sleep(0.1)
            await trio.sleep(0.1)
    finally:
        with trio.move_on_after(0.5, shield=True):
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()  # noqa: ASYNC102


@asynccontextmanager
async def _closing_slowly() -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await trio.sleep(0.01)  # noqa: ASYNC102


async def ends_its_own_nursery() -> None:
    """Its own cancel and ours meet; an error of one task is handled, and the group is taken apart."""

    async def fails() -> None:
        await trio.sleep(0.1)
        raise ValueError("expected")

    with _without(ValueError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(trio.sleep_forever)
            async with aclosing(_numbers()) as numbers:
                async for number in numbers:
                    if number == 2:
                        nursery.cancel_scope.cancel()


async def _numbers() -> AsyncGenerator[int]:
    for number in range(5):
        yield number
        await trio.sleep(0.01)


@contextmanager
def _without(kind: type[Exception]) -> Generator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        rest = group.split(kind)[1]
        if rest is not None:
            raise rest from None


async def abandons_a_short_thread() -> None:
    """It does not wait for a thread that ends soon."""
    await trio.to_thread.run_sync(threading.Event().wait, 0.005, abandon_on_cancel=True)


async def finishes_although_cancelled() -> None:
    """What it does is done when the cancel comes, and it returns a result without a further checkpoint."""
    send, receive = trio.open_memory_channel[int](1)
    await send.send(1)
    assert receive.receive_nowait() == 1
    send.close()
    receive.close()


async def receives_the_signal_itself() -> None:
    with trio.open_signal_receiver(signal.SIGINT) as signals, trio.move_on_after(30):
        async for _ in signals:
            break


async def waits_for_a_slow_delivery() -> None:
    """The thread has ended its work, and takes a while to say so: virtual time must not jump."""
    delivered, token = trio.Event(), trio.lowlevel.current_trio_token()

    def deliver(_: object) -> None:
        time.sleep(0.01)
        token.run_sync_soon(delivered.set)

    with trio.CancelScope(shield=True), trio.fail_after(5):
        trio.lowlevel.start_thread_soon(int, deliver)
        await delivered.wait()


async def cleans_up_in_a_thread() -> None:
    """Its thread keeps the cancel until it has cleaned up."""
    is_done = threading.Event()

    def work() -> None:
        try:
            while not is_done.wait(0.001):
                trio.from_thread.check_cancelled()
        except BaseException:
            with suppress(trio.Cancelled, KeyboardInterrupt):
                trio.from_thread.check_cancelled()
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_soon, is_done)
        try:
            await trio.to_thread.run_sync(work)
        finally:
            await trio.lowlevel.checkpoint()  # noqa: ASYNC102


UNUSUAL = (
    keeps_cancelled_for_later,
    is_cancelled_many_times_on_its_way,
    ends_its_own_nursery,
    abandons_a_short_thread,
    finishes_although_cancelled,
    receives_the_signal_itself,
    waits_for_a_slow_delivery,
    cleans_up_in_a_thread,
)


def forget() -> None:
    """Let go of what a fault has left."""
    if not KEPT:
        return  # collecting everything takes longer than most of the tests
    for kept in KEPT:
        match kept:
            case threading.Event():
                kept.set()
            case subprocess.Popen():
                kept.communicate()
            case socket.socket() | io.IOBase():
                kept.close()
            case _:
                pass
    KEPT.clear()
    gc.collect()
