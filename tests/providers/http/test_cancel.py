"""A cancelled response closes its connection at once and leaves nothing behind, wherever the cancel strikes."""

from __future__ import annotations

import gc
import os
import random
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from engine.core.errors import ConnectionBroken, Overloaded, ProviderError
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.anthropic.wire import wire
from engine.providers.auth.auth import KeyAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.wire.quirks import Quirks
from engine.testing.http_server import Script, ScriptedServer
from engine.testing.script import Break, HttpFailure, Pause, ScriptItem, done, text
from tests.support.network import OPENSSL, make_certificates, tls_before

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.conftest import CountRuns

NAME = "anthropic/claude-sonnet-4-5"
HELLO: list[ScriptItem] = [*text("hello world", id="0", pieces=3), *done()]
FOREVER = Pause(3600)
CANCELS = 1_000
DESCRIPTORS = Path("/proc/self/fd")
needs_proc = pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="counts sockets in /proc")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl")


def request(words: str = "hi") -> ModelRequest:
    message = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text=words),))
    return ModelRequest(model=NAME, system="", transcript=Transcript([message]))


def model_at(url: str) -> HttpModel:
    return HttpModel(ModelInfo(name=NAME), wire(Quirks()), Endpoint(base_url=url, auth=KeyAuth("x-api-key", "k")))


@asynccontextmanager
async def host(script: Script) -> AsyncGenerator[tuple[HttpModel, ScriptedServer]]:
    """Run a scripted host; at the end nothing may be open."""
    server = ScriptedServer(script)
    async with trio.open_nursery() as nursery:
        model = model_at(await nursery.start(server.serve))
        yield model, server
        await model.aclose()
        await closed(server)
        nursery.cancel_scope.cancel(reason="the test is over")


async def closed(server: ScriptedServer) -> None:
    with trio.fail_after(30):
        await server.wait_closed()


async def ask(model: HttpModel) -> str:
    """Ask for an answer, read it to its end, give the connection back."""
    stream = await model.open(request())
    try:
        message = ""
        while batch := await stream.receive():
            message += "".join(event.text for event in batch if isinstance(event, TextChunk))
        return message
    finally:
        await stream.aclose()


def sockets() -> int:
    """Count the sockets that this process has open."""
    count = 0
    for descriptor in DESCRIPTORS.iterdir():
        with suppress(FileNotFoundError):  # the one which reads this folder
            count += str(descriptor.readlink()).startswith("socket:")
    return count


def ends_of_ours(url: str) -> int:
    """Count the ends of connections in this process that are not the host's at *url*."""
    port = int(url.rpartition(":")[2])
    count = 0
    for descriptor in DESCRIPTORS.iterdir():
        with suppress(OSError):  # not a socket, or gone
            if str(descriptor.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(descriptor.name))) as end:
                    count += end.family == socket.AF_INET and end.getsockname()[1] != port
    return count


def pool_of(model: HttpModel) -> Sequence[object]:
    """Return the connections that httpx has."""
    assert model._client is not None
    return model._client._transport._pool.connections  # type: ignore[attr-defined, no-any-return]


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when its task is about to run for the n-th time."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.scope = trio.CancelScope()
        self.task = trio.lowlevel.current_task()
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.steps += 1
            if self.steps == self.step:
                self.scope.cancel(reason="the test strikes")

    @property
    def fired(self) -> bool:
        return self.steps >= self.step


@contextmanager
def striking(step: int) -> Generator[CancelAtStep]:
    """Cancel what is in it at the task's n-th step."""
    cancel = CancelAtStep(step)
    trio.lowlevel.add_instrument(cancel)
    try:
        with cancel.scope:
            yield cancel
    finally:
        trio.lowlevel.remove_instrument(cancel)


# -- at every step -------------------------------------------------------------------


def strike(step: int, script: Script, client: Callable[[HttpModel], Awaitable[None]], *, ends: bool) -> bool:
    """Run *client*, cancelled at its n-th step; tell whether there was one.

    Its end of every connection must be closed at once; if the answers come to their
    *ends*, one may be kept for the next request until the model is closed.
    """

    async def main() -> bool:
        server = ScriptedServer(script, largest_piece=40)
        async with trio.open_nursery() as nursery:
            url = await nursery.start(server.serve)
            model = model_at(url)
            before = sockets()
            with striking(step) as cancel, suppress(ConnectionBroken):
                await client(model)
            if ends:
                await model.aclose()
            assert ends_of_ours(url) == 0
            await closed(server)
            assert sockets() == before
            await model.aclose()
            nursery.cancel_scope.cancel(reason="the run is over")
        gc.collect(1)  # a generator left in the middle would complain now
        return cancel.fired

    return trio.run(main)


async def ask_and_close(model: HttpModel) -> None:
    await ask(model)


async def leave_open(model: HttpModel) -> None:
    stream = await model.open(request())
    while await stream.receive():
        pass


async def two_and_a_half_answers(model: HttpModel) -> None:
    await ask(model)
    await ask(model)
    stream = await model.open(request())
    await stream.receive()
    await stream.aclose()


async def a_refusal(model: HttpModel) -> None:
    with suppress(Overloaded):
        await model.open(request())


BROKEN: list[ScriptItem] = [*text("x" * 300, pieces=10), Break()]
REFUSED: list[ScriptItem] = [HttpFailure(529, "x" * 300)]


@needs_proc
@pytest.mark.parametrize(
    ("client", "answer", "ends"),
    [
        pytest.param(ask_and_close, BROKEN, False, id="closed by the caller"),
        pytest.param(leave_open, BROKEN, False, id="left open by the caller"),
        pytest.param(two_and_a_half_answers, HELLO, True, id="whole answers"),
        pytest.param(a_refusal, REFUSED, True, id="no answer"),
    ],
)
def test_cancel_at_any_step_leaves_no_socket(
    client: Callable[[HttpModel], Awaitable[None]], answer: list[ScriptItem], ends: bool, count_runs: CountRuns
) -> None:
    step = 1
    while strike(step, lambda _: answer, client, ends=ends):
        step += 1
    count_runs(step - 1, "cancelled HTTP answers")
    assert step > 5


# -- a thousand times -----------------------------------------------------------------


# It never ends, so wherever a cancel strikes, the answer is not whole.
ENDLESS: list[ScriptItem] = [*text("x" * 400, id="0", pieces=20), FOREVER]


async def ask_for_all_there_is(model: HttpModel) -> None:
    stream = await model.open(request())
    try:
        message = 0
        while message < 400:
            message += sum(len(event.text) for event in await stream.receive() if isinstance(event, TextChunk))
    finally:
        await stream.aclose()


async def strike_at_random(model: HttpModel, times: int, seed: int, check: Callable[[], None]) -> None:
    """Cancel so many answers at random points, and *check* after each; the clock strikes where no step came in time."""
    chance = random.Random(seed)
    with striking(10**9) as whole:
        await ask_for_all_there_is(model)
    for _ in range(times):
        with striking(chance.randint(1, whole.steps)) as cancel:
            cancel.scope.deadline = trio.current_time() + 0.03
            await ask(model)
        assert cancel.scope.cancelled_caught
        assert pool_of(model) == []
        check()


@pytest.mark.slow
@needs_proc
def test_thousand_cancelled_streams_leave_nothing(count_runs: CountRuns) -> None:
    async def main() -> None:
        server = ScriptedServer(lambda _: ENDLESS, largest_piece=200)
        async with trio.open_nursery() as nursery:
            url = await nursery.start(server.serve)
            model = model_at(url)
            before = sockets()

            def check() -> None:
                assert ends_of_ours(url) == 0

            await strike_at_random(model, CANCELS, 20_261_118, check)
            await closed(server)
            assert sockets() == before
            await model.aclose()
            nursery.cancel_scope.cancel(reason="the run is over")
        gc.collect()  # a generator left in the middle would complain now

    trio.run(main)
    count_runs(CANCELS, "cancelled HTTP answers")


@needs_proc
@needs_openssl
def test_cancelled_tls_streams_leave_nothing(
    count_runs: CountRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins with a handshake, and may be struck in it."""
    certificates = make_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))

    async def main() -> None:
        server = ScriptedServer(lambda _: ENDLESS, largest_piece=200)
        async with trio.open_nursery() as nursery:
            port = int((await nursery.start(server.serve)).rpartition(":")[2])
            async with tls_before(port, certificates) as tls_port:
                before = sockets()
                model = model_at(f"https://127.0.0.1:{tls_port}")
                await strike_at_random(model, CANCELS // 10, 20_261_119, lambda: None)
                with trio.fail_after(30):
                    while sockets() > before:  # the one that passes on what TLS hides has to notice
                        await trio.sleep(0.01)
                await model.aclose()
            nursery.cancel_scope.cancel(reason="the run is over")
        gc.collect()

    trio.run(main)
    count_runs(CANCELS // 10, "cancelled HTTP answers")


# -- in places of their own -------------------------------------------------------------


async def test_closing_while_cancelled_closes_all_the_same() -> None:
    async with host([[*HELLO[:2], FOREVER], [*HELLO[:2], FOREVER]]) as (model, server):
        stream = await model.open(request())
        await stream.receive()
        with trio.CancelScope() as scope:
            scope.cancel(reason="the test strikes")
            await stream.aclose()
        assert scope.cancelled_caught
        await closed(server)
        await model.open(request())
        with trio.CancelScope() as scope:
            scope.cancel(reason="the test strikes")
            await model.aclose()
        assert scope.cancelled_caught
        await closed(server)


@pytest.mark.parametrize("answer", [[FOREVER], [*HELLO[:2], FOREVER]])
async def test_a_cancel_while_the_host_is_silent(answer: list[ScriptItem]) -> None:
    async with host([answer]) as (model, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, model)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel(reason="the test strikes")
        await closed(server)
        assert len(server.requests) == 1


@needs_proc
async def test_cancel_during_a_tls_handshake() -> None:
    """httpcore leaves that socket to the garbage collector."""
    left = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            pass
        left.set()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        model = model_at(f"https://127.0.0.1:{listener.socket.getsockname()[1]}")
        before = sockets()
        async with trio.open_nursery() as opening:
            opening.start_soon(model.open, request())
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert sockets() == before + 2
            opening.cancel_scope.cancel(reason="the test strikes")
        assert sockets() <= before + 1  # the host may not have noticed yet
        with trio.fail_after(30):
            await left.wait()
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


@needs_proc
async def test_a_cancel_while_connecting() -> None:
    """A listener whose queue is full: the kernel lets the next one wait."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = []
    for _ in range(4):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(listener.getsockname())
    model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}")
    before = sockets()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.open, request())
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert sockets() == before + 1
        nursery.cancel_scope.cancel(reason="the test strikes")
    assert sockets() == before
    await model.aclose()
    for each in (*waiting, listener):
        each.close()


@needs_proc
async def test_a_cancel_during_the_upload() -> None:
    """A host that takes the connection and reads nothing: what it can't hold stays with us."""
    left = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        await release.wait()
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        left.set()

    release = trio.Event()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        model = model_at(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        before = sockets()
        async with trio.open_nursery() as opening:
            opening.start_soon(model.open, request("x" * 30_000_000))
            await trio.testing.wait_all_tasks_blocked(0.05)
            opening.cancel_scope.cancel(reason="the test strikes")
        assert pool_of(model) == []
        assert sockets() == before + 1  # the host's own end
        release.set()
        with trio.fail_after(30):
            await left.wait()
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


# -- once, and not again ------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_request_that_fails_is_sent_once(status: int) -> None:
    async with host(lambda _: [HttpFailure(status, "", (("retry-after", "0"),))]) as (model, server):
        with pytest.raises(ProviderError) as caught:
            await model.open(request())
        assert caught.value.status == status
        assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [[Break()], [*HELLO[:2], Break()]])
async def test_an_interrupted_answer_is_not_retried(answer: list[ScriptItem]) -> None:
    async with host(lambda _: answer) as (model, server):
        with pytest.raises(ConnectionBroken):
            await ask(model)
        assert len(server.requests) == 1


async def test_a_host_that_hangs_up_is_called_once() -> None:
    calls = 0

    async def handle(_: trio.SocketStream) -> None:
        nonlocal calls
        calls += 1

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        model = model_at(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        with pytest.raises(ConnectionBroken):
            await model.open(request())
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert calls == 1
