"""Record the answers of a real host, to replay them without one.

    model = resolve("anthropic/claude-haiku-4-5", os.environ)
    with Recorder(Path("cassettes"), "hello") as recorder:
        recorder.watch(model)
        async with engine.open_engine(model=model) as eng:
            ...

When the block is left, `hello-0`, `hello-1` … are written: one exchange per request,
including failed and cancelled ones. They contain no keys and nothing that identifies
the account; see `engine.testing.redact_recording`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol, final

import attrs
import httpx

from engine.config.host_values import WireName
from engine.core.errors import ConfigError
from engine.core.protocols import Model
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.http.http_model import HttpModel
from engine.providers.wire.wire_format import Body
from engine.testing import cassette
from engine.testing.cassette import Exchange
from engine.testing.redact_recording import Scrubber

# The names of wire formats in recordings.
PROTOCOLS: Mapping[WireName, str] = {
    "anthropic": "anthropic-messages",
    "vertex_anthropic": "anthropic-messages",
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "gemini": "gemini",
    "bedrock": "bedrock-converse",
    "cohere": "cohere-v2",
}
_BINARY = "application/vnd.amazon.eventstream"


@final
class Recorder:
    """Records the requests and answers of models, and writes them at the end of the block."""

    def __init__(self, folder: Path, name: str, *, secrets: Sequence[str] = ()) -> None:
        """Make a recorder; it writes when its `with` block is left.

        Args:
            folder: the folder of the cassette.
            name: the cassette's name; an existing one is replaced.
            secrets: texts to remove in addition to the key: an account number, a project's name.
        """
        self._folder = folder
        self._name = name
        self._secrets = tuple(secrets)
        # In the order of the requests, since answers may end in another one; None: not ended yet.
        self._exchanges: list[Exchange | None] = []
        self._unfit: list[ConfigError] = []

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.exchanges:  # otherwise keep the old cassette: no host has answered
            cassette.write_all(self.exchanges, self._folder, self._name)
        # An error of the block is more important than one of the recording.
        if self._unfit and error is None:
            raise self._unfit[0]

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges so far, without secrets."""
        return tuple(exchange for exchange in self._exchanges if exchange is not None)

    def watch(self, model: Model) -> None:
        """Record all requests to *model* from now on. Raises `ConfigError` for a model without HTTP."""
        if not isinstance(model, HttpModel):
            raise ConfigError(f"{model!r} does not use HTTP: nothing can be recorded")
        model.watch(partial(self._witness, model.info.name.partition("/")[0]))

    def _witness(self, provider: str, response: httpx.Response, content: Body, secrets: tuple[str, ...]) -> None:
        """Wrap the answer's stream in one that records the bytes."""
        place = len(self._exchanges)
        self._exchanges.append(None)
        request = response.request
        scrubber = Scrubber.of([*secrets, *self._secrets], str(request.url), request.headers.multi_items())

        def keep(body: bytes, *, is_whole: bool) -> None:
            try:
                exchange = _exchange(provider, response, scrubber, sent=bytes(content), body=body)
            except ConfigError as error:
                self._unfit.append(error)
            else:
                self._exchanges[place] = attrs.evolve(exchange, is_whole=is_whole)

        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Remembered(response.stream, keep)


class _Keep(Protocol):
    def __call__(self, body: bytes, *, is_whole: bool) -> None: ...


@final
class _Remembered(httpx.AsyncByteStream):
    """A stream that records the bytes of an answer while they are read.

    It is not a generator, for the reason that `engine.providers.http.http_model` gives.
    """

    def __init__(self, stream: httpx.AsyncByteStream, keep: _Keep) -> None:
        self._stream = stream
        self._chunks: AsyncIterator[bytes] = aiter(stream)
        self._keep: _Keep | None = keep
        self._pieces: list[bytes] = []

    def __aiter__(self) -> _Remembered:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._chunks)
        except BaseException as error:
            self._end(is_whole=isinstance(error, StopAsyncIteration))
            raise
        self._pieces.append(piece)
        return piece

    async def aclose(self) -> None:
        """Close the answer's stream. A checkpoint if closing that stream is one."""
        self._end(is_whole=False)
        await self._stream.aclose()

    def _end(self, *, is_whole: bool) -> None:
        # Only once: the end of the stream is followed by `aclose`.
        keep, self._keep = self._keep, None
        if keep is not None:
            keep(b"".join(self._pieces), is_whole=is_whole)


def _exchange(provider: str, response: httpx.Response, scrubber: Scrubber, *, sent: bytes, body: bytes) -> Exchange:
    # The scrubber could not see secrets in compressed bytes.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ConfigError("the host's answer is compressed, although it was asked not to be: it can't be recorded")
    is_binary = response.headers.get("content-type", "").startswith(_BINARY)
    row = BY_NAME.get(provider)
    return Exchange(
        provider=provider,
        host=provider,
        protocol=PROTOCOLS[row.wire] if row is not None else "",
        method=response.request.method,
        url=scrubber.url(str(response.request.url)),
        sent=scrubber.data(sent),
        status=response.status_code,
        headers=scrubber.headers(response.headers),
        body=scrubber.answer(body, is_binary=is_binary),
    )
