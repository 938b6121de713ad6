"""A key that a command prints is fetched again once the host refuses it: once, then the request has failed."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import AuthFailed
from engine.providers.auth.fetched_key import FetchedKeyAuth, key_of_command
from engine.providers.http.http_model import HttpModel
from tests.providers.http.test_http_model import INFO, MESSAGES, STREAM, ask, endpoint_at, reply_of, words

pytestmark = pytest.mark.os

ANSWER = reply_of("text/event-stream", STREAM)
REFUSAL = reply_of("application/json", b'{"error":{"type":"authentication_error","message":"no"}}', b"401 Unauthorized")


@attrs.define(eq=False)
class Host:
    """A host that accepts one key; the command's next key is what a file holds."""

    folder: Path
    accepted: str = "key-1-of-the-command"
    url: str = ""
    keys: list[str] = attrs.field(factory=list[str], init=False)

    @property
    def runs(self) -> int:
        """How often the command has run."""
        return len((self.folder / "runs").read_text().split())

    @property
    def command(self) -> tuple[str, ...]:
        return ("sh", "-c", f"echo run >> {self.folder}/runs; cat {self.folder}/key")

    def rotate(self, key: str) -> None:
        """Accept another key only, which the command prints from now on."""
        self.accepted = key
        (self.folder / "key").write_text(key)

    def model(self) -> HttpModel:
        auth = FetchedKeyAuth("lab", "x-api-key", "", partial(key_of_command, "lab", self.command))
        return HttpModel(INFO, MESSAGES, attrs.evolve(endpoint_at(self.url), auth=auth))

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        async with stream:
            async for piece in stream:
                data += piece
                while b"\r\n\r\n" in data:
                    head, _, rest = data.partition(b"\r\n\r\n")
                    fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
                    size = int(fields[b"content-length"])
                    if len(rest) < size:
                        break
                    data = rest[size:]
                    self.keys.append(fields[b"x-api-key"].decode())
                    await stream.send_all(ANSWER if self.keys[-1] == self.accepted else REFUSAL)


@asynccontextmanager
async def host(folder: Path) -> AsyncGenerator[Host]:
    served = Host(folder)
    served.rotate(served.accepted)
    async with trio.open_nursery() as nursery:
        (listener, *_) = await nursery.start(partial(trio.serve_tcp, served.serve, 0, host="127.0.0.1"))
        served.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield served
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_refused_key_is_fetched_again(tmp_path: Path) -> None:
    async with host(tmp_path) as lab:
        model, other = lab.model(), lab.model()
        assert words(await ask(model)) == "hello"
        assert words(await ask(other)) == "hello"
        assert lab.runs == 1
        lab.rotate("key-2-of-the-command")
        assert words(await ask(model)) == "hello"
        # The other model finds the new key, which the first one has fetched.
        assert words(await ask(other)) == "hello"
        assert lab.runs == 2
        assert lab.keys == ["key-1-of-the-command"] * 3 + ["key-2-of-the-command", "key-1-of-the-command"] + [
            "key-2-of-the-command"
        ]
        await model.aclose()
        await other.aclose()


async def test_key_that_stays_wrong_fails(tmp_path: Path) -> None:
    async with host(tmp_path) as lab:
        model = lab.model()
        lab.accepted = "another"
        for request in (1, 2):
            with pytest.raises(AuthFailed) as caught:
                await ask(model)
            assert caught.value.info.http_status == 401
            assert len(lab.keys) == 2 * request
        # Once for the first request, and once more for each.
        assert lab.runs == 3
        await model.aclose()


async def test_requests_at_once_fetch_one_key(tmp_path: Path) -> None:
    async with host(tmp_path) as lab:
        model = lab.model()
        await ask(model)
        lab.rotate("key-2-of-the-command")
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, model)
        assert lab.runs == 2
        assert lab.keys.count("key-2-of-the-command") == 5
        await model.aclose()


async def test_cancelled_renewal_is_done_by_the_next_request(tmp_path: Path) -> None:
    async with host(tmp_path) as lab:
        model = lab.model()
        await ask(model)
        lab.rotate("key-2-of-the-command")
        (tmp_path / "key").unlink()
        (tmp_path / "key").symlink_to("pipe")
        os.mkfifo(tmp_path / "pipe")  # the command waits for the key
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, model)
            while lab.runs < 2:  # another process writes it
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel(reason="in the middle of the renewal")
        (tmp_path / "key").unlink()
        (tmp_path / "key").write_text(lab.accepted)
        assert words(await ask(model)) == "hello"
        await model.aclose()
