"""The conversation with a language server, without a process: versions, waiting, asking, and a cancel at any step."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from engine.config.language_server_config import LanguageServer
from engine.core.schema import Json
from engine.jsonrpc.message_stream import HeaderSplitter
from engine.jsonrpc.rpc_messages import parse_frame
from engine.jsonrpc.strict_json import RpcLimits
from engine.language_servers.conversation import QUIET, OpenDocument, ServerConversation, ServerFailed
from engine.testing.cancellation.trio_internals import seed_scheduler
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt

PATH, URI = "/p/a.py", "file:///p/a.py"
SERVER = LanguageServer(command=("server",), patterns=("*.py",), settings={"lint.level": "strict"})


class Peer:
    """The server's side: what has come, and what is said."""

    def __init__(self, *, pulls: bool = False, encoding: str = "utf-16") -> None:
        self.received: list[dict[str, Json]] = []
        self.on_message: Callable[[dict[str, Json]], None] = lambda _: None
        self.capabilities: dict[str, Json] = {"positionEncoding": encoding, "textDocumentSync": {"save": {}}}
        if pulls:
            self.capabilities["diagnosticProvider"] = {"identifier": "p"}
        self._splitter = HeaderSplitter(1 << 20)
        self.conversation = ServerConversation(SERVER, "/p", self._take)

    def _take(self, data: bytes) -> None:
        for body in self._splitter.feed(data):
            message = json.loads(body)
            self.received.append(message)
            if message.get("method") == "initialize":
                self.say(id=message["id"], result={"capabilities": self.capabilities})
            else:
                self.on_message(message)

    def say(self, **message: Json) -> None:
        frame = parse_frame(json.dumps({"jsonrpc": "2.0", **message}), RpcLimits())
        for one in frame.messages:
            self.conversation.receive(one)

    def publish(self, *words: str, uri: str = URI, **version: Json) -> None:
        self.say(method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": items(*words), **version})

    def methods(self) -> list[str]:
        return [str(message.get("method", "answer")) for message in self.received]

    async def check(self, text: str) -> OpenDocument:
        return await self.conversation.check(PATH, text, (1, 1))


def items(*words: str) -> list[Json]:
    place: Json = {"start": {"line": 0, "character": 0}}
    return [{"range": place, "message": word} for word in words]


def part(value: Json, *names: str | int) -> Json:
    """Return a part of a message."""
    for name in names:
        if isinstance(value, dict):
            value = value[str(name)]
        elif isinstance(value, list):
            value = value[int(name)]
    return value


def messages(document: OpenDocument) -> list[str]:
    return [one.message for one in document.errors]


async def soon(peer: Peer, act: Callable[[], None], seconds: float) -> None:
    await trio.sleep(seconds)
    act()


async def checked_while(peer: Peer, text: str, *acts: tuple[float, Callable[[], None]]) -> tuple[OpenDocument, float]:
    """Check a text while the server does what it does at those times; return how long it took as well."""
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for seconds, act in acts:
            nursery.start_soon(soon, peer, act, seconds)
        document = await peer.check(text)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    return document, took


async def test_diagnostics_of_the_version_count(autojump_clock: MockClock) -> None:
    peer = Peer()
    await peer.conversation.begin()
    document, took = await checked_while(
        peer,
        "one",
        (0.1, partial(peer.publish, "elsewhere", uri="file:///p/b.py", version=1)),
        (0.2, partial(peer.publish, "old", version=0)),
        (0.3, partial(peer.publish, "text", version="1")),
        (0.4, partial(peer.publish, "future", version=2)),
        (0.5, partial(peer.publish, "right", version=1)),
    )
    assert messages(document) == ["right"]
    assert took == pytest.approx(0.5)
    assert document.before is None
    document, _ = await checked_while(
        peer, "two", (0.1, partial(peer.publish, "right", version=1)), (0.2, partial(peer.publish, "more", version=2))
    )
    assert (messages(document), [one.message for one in document.before or ()]) == (["more"], ["right"])


async def test_without_a_version_quiet_is_waited_for(autojump_clock: MockClock) -> None:
    peer = Peer()
    await peer.conversation.begin()
    acts = [(0.1 * number, partial(peer.publish, f"push {number}")) for number in range(1, 6)]
    document, took = await checked_while(peer, "one", *acts)
    assert messages(document) == ["push 5"]
    assert took == pytest.approx(0.5 + QUIET)


async def test_silent_server_is_waited_for(autojump_clock: MockClock) -> None:
    peer = Peer()
    await peer.conversation.begin()
    with trio.move_on_after(3) as limit:
        await peer.check("one")
    assert limit.cancelled_caught
    # The next check of the same text asks for nothing again, and takes what has come in the meantime.
    peer.publish("late", version=1)
    assert messages(await peer.check("one")) == ["late"]
    assert peer.methods().count("textDocument/didOpen") == 1
    assert "textDocument/didChange" not in peer.methods()


async def test_pulled_diagnostics(autojump_clock: MockClock) -> None:
    peer = Peer(pulls=True)
    replies: list[dict[str, Json]] = [
        {"error": {"code": -32802, "message": "busy"}},
        {"result": {"kind": "full", "items": items("pulled")}},
    ]

    def answer(message: dict[str, Json]) -> None:
        if message.get("method") == "textDocument/diagnostic":
            assert message["params"] == {"textDocument": {"uri": URI}, "identifier": "p"}
            peer.say(id=message["id"], **replies.pop(0))

    peer.on_message = answer
    await peer.conversation.begin()
    assert messages(await peer.check("one")) == ["pulled"]
    assert replies == []


async def test_refused_pull_is_reported(autojump_clock: MockClock) -> None:
    peer = Peer(pulls=True)

    def answer(message: dict[str, Json]) -> None:
        if message.get("method") == "textDocument/diagnostic":
            peer.say(id=message["id"], error={"code": -32603, "message": "I\nwon't\x1b[2J"})

    peer.on_message = answer
    await peer.conversation.begin()
    with pytest.raises(ServerFailed, match=r"^it refused: I won't\[2J$"):
        await peer.check("one")


async def test_cancelled_pull_is_withdrawn(autojump_clock: MockClock) -> None:
    peer = Peer(pulls=True)
    await peer.conversation.begin()
    with trio.move_on_after(1):
        await peer.check("one")
    pulled, withdrawn = peer.received[-2:]
    assert (withdrawn["method"], withdrawn["params"]) == ("$/cancelRequest", {"id": pulled["id"]})
    # The answer comes nevertheless, and is for no request.
    peer.say(id=pulled["id"], result={"kind": "full", "items": items("late")})


async def test_registration_while_a_check_waits(autojump_clock: MockClock) -> None:
    peer = Peer()

    def answer(message: dict[str, Json]) -> None:
        if message.get("method") == "textDocument/diagnostic":
            peer.say(id=message["id"], result={"kind": "full", "items": items("asked")})

    peer.on_message = answer
    await peer.conversation.begin()
    registration: Json = [{"id": "1", "method": "textDocument/diagnostic"}]
    register = partial(peer.say, id="r", method="client/registerCapability", params={"registrations": registration})
    document, _ = await checked_while(peer, "one", (0.5, register))
    assert messages(document) == ["asked"]
    assert {"jsonrpc": "2.0", "id": "r", "result": None} in peer.received


async def test_requests_of_a_server_are_answered() -> None:
    peer = Peer()
    await peer.conversation.begin()
    del peer.received[:]
    sections: Json = [{"section": "lint"}, {"section": "lint.level"}, {"section": "other"}, {}]
    peer.say(id=1, method="workspace/configuration", params={"items": sections})
    peer.say(id=2, method="workspace/workspaceFolders")
    peer.say(id=3, method="workspace/applyEdit", params={"edit": {}})
    peer.say(id=4, method="evil/run", params={"command": "rm"})
    peer.say(id=5, method="window/showMessageRequest", params={})
    answers = {message["id"]: message for message in peer.received}
    strict: Json = {"lint": {"level": "strict"}}
    assert answers[1]["result"] == [{"level": "strict"}, "strict", None, strict]
    assert answers[2]["result"] == [{"uri": "file:///p", "name": "p"}]
    assert answers[3]["result"] == {"applied": False, "failureReason": "only the user and the model change files"}
    assert answers[4]["error"] == {"code": -32601, "message": "this client has no method evil/run"}
    assert answers[5]["result"] is None


async def test_messages_of_no_use_are_dropped(autojump_clock: MockClock) -> None:
    peer = Peer()
    await peer.conversation.begin()
    peer.say(id=99, result="for nobody")
    peer.say(method="window/showMessage", params={"message": "storm"})
    peer.say(method="textDocument/publishDiagnostics", params=["nonsense"])
    peer.say(method="textDocument/publishDiagnostics", params={"uri": URI, "diagnostics": "nonsense"})
    for number in range(1_000):
        peer.publish("x", uri=f"file:///p/{number}.py")
    document, _ = await checked_while(peer, "one", (0.1, partial(peer.publish, "mine", version=1)))
    assert messages(document) == ["mine"]
    assert len(peer.conversation.stamps) == 1


async def test_end_of_the_server_ends_the_wait(autojump_clock: MockClock) -> None:
    peer = Peer()
    await peer.conversation.begin()
    with pytest.RaisesGroup(ServerFailed):
        await checked_while(peer, "one", (0.5, peer.conversation.end))
    with pytest.raises(ServerFailed):
        await peer.check("two")
    with pytest.raises(ServerFailed):
        await peer.conversation.request("shutdown", None)


async def test_files_that_others_changed_are_closed() -> None:
    peer = Peer()
    await peer.conversation.begin()
    peer.on_message = lambda message: (
        peer.publish(version=1) if message.get("method") == "textDocument/didOpen" else None
    )
    await peer.check("one")
    peer.conversation.close([PATH, "/p/never.py"])
    assert peer.methods()[-2:] == ["textDocument/didClose", "workspace/didChangeWatchedFiles"]
    await peer.check("one")
    assert peer.methods().count("textDocument/didOpen") == 2


async def test_few_documents_are_open() -> None:
    peer = Peer()

    def answer(message: dict[str, Json]) -> None:
        if message.get("method") == "textDocument/didOpen":
            peer.publish(uri=str(part(message, "params", "textDocument", "uri")), version=1)

    peer.on_message = answer
    await peer.conversation.begin()
    for number in range(60):
        await peer.conversation.check(f"/p/{number}.py", "text", (1, 1))
    assert len(peer.conversation.stamps) == 50
    assert peer.methods().count("textDocument/didClose") == 10


# -- cancelled at any step ---------------------------------------------------------------------------


async def pulls_and_pushes(at: CancelAt, *, pulls: bool) -> None:
    """Cancel two checks of one file; the next one must find the newest text and its errors."""
    peer = Peer(pulls=pulls)
    texts: dict[int, str] = {}
    waiting: list[Callable[[], None]] = []

    def answer(message: dict[str, Json]) -> None:
        method = message.get("method")
        if method in {"textDocument/didOpen", "textDocument/didChange"}:
            document = part(message, "params", "textDocument")
            is_open = method == "textDocument/didOpen"
            version = int(str(part(document, "version")))
            texts[version] = str(
                part(document, "text") if is_open else part(message, "params", "contentChanges", 0, "text")
            )
            waiting.append(partial(peer.publish, texts[version], version=version))
        elif method == "textDocument/diagnostic":
            report: Json = {"kind": "full", "items": items(texts[max(texts)])}
            waiting.append(partial(peer.say, id=message["id"], result=report))

    peer.on_message = answer

    async def serve() -> None:
        while True:
            await trio.sleep(0.1)
            if waiting:
                waiting.pop(0)()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with at.scope():
            await peer.conversation.begin()
            async with trio.open_nursery() as checks:
                checks.start_soon(peer.check, "one")
                checks.start_soon(peer.check, "two")
        cancelled_in_beginning = peer.conversation.abilities is None
        if not cancelled_in_beginning:
            with trio.fail_after(60):
                document = await peer.check("three")
            assert messages(document) == ["three"]
            assert peer.conversation._pending == {}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("pulls", [False, True])
def test_checks_cancelled_at_any_step(is_full: bool, count_runs: CountRuns, *, pulls: bool) -> None:
    def play(step: int | None) -> CancelAt:
        seed_scheduler(0)
        at = CancelAt(step)
        scenario: Callable[[CancelAt], Awaitable[None]] = partial(pulls_and_pushes, pulls=pulls)
        trio.run(scenario, at, instruments=[at], clock=MockClock(autojump_threshold=0))
        return at

    steps = play(None).steps
    assert steps > 15
    for step in range(0, steps, 1 if is_full else 3):
        assert play(step).has_fired
    count_runs(steps)
