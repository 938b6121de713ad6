"""`local:FILE`: a GGUF file, served by llama.cpp without a key or a network.

The server is a child process (see `llama_server`) in the engine's nursery: the first request starts it, and closing or
cancelling the engine ends it with all its children. If it dies, the next request restarts it.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final

import attrs
import trio

from engine.core.errors import ConfigError, EngineClosed, Overloaded, ProviderError
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.secret_names import SecretVariables
from engine.providers.auth.auth import KeyAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.http.http_stream import HttpStream
from engine.providers.local.llama_server import KEY_VARIABLE, REPORT_PREFIX
from engine.providers.wire.untrusted_json import loads_object, number, text
from engine.providers.wire.wire_format import WireFormat

PREFIX: Final = "local:"
# It may be loading gigabytes; it has nothing to save.
_GRACE: Final = 0.25
_KEPT_OUTPUT: Final = 64 * 1024
# Until the server reports its own: the window of the smallest models.
_ASSUMED_CONTEXT: Final = 8_192


def local_model(
    name: str, wire: Callable[[], WireFormat], *, context: int = 0, info: ModelInfo | None = None
) -> LocalModel:
    """Return the model of the file in *name* (`local:FILE`).

    Args:
        name: the file, relative to the working directory or to `~`.
        wire: returns the server's wire format; called on first use.
        context: the context window in tokens; 0: the file's own.
        info: limits from the configuration, if any.

    Raises `ConfigError` if there is no such file, or the extra is not installed.
    """
    try:
        path = Path(name.removeprefix(PREFIX)).expanduser().absolute()
    except RuntimeError as error:  # `~user` without a home
        raise ConfigError(f"{name}: {error}") from error
    if not path.is_file():
        raise ConfigError(f"{name}: no such file: {path}")
    if find_spec("xllamacpp") is None:
        raise ConfigError(f"{name} needs llama.cpp: pip install 'nursery-engine[local]'")
    window = context or _ASSUMED_CONTEXT
    base = info or ModelInfo(name=name, context=window, output=window, is_known=bool(context))
    return LocalModel(attrs.evolve(base, name=name, host=name, parallel=1), str(path), wire, context)


@final
class LocalModel:
    """A model in a file. The engine that resolves it runs `serve` in its nursery."""

    def __init__(self, info: ModelInfo, path: str, wire: Callable[[], WireFormat], context: int) -> None:
        self._info = info
        self._path = path
        self._wire = wire
        self._context = context
        self._inner: HttpModel | None = None
        self._failure: ProviderError | None = None
        self._is_served = False
        self._is_closed = False
        self._requested = trio.Event()
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<LocalModel {self._path}>"

    @property
    def info(self) -> ModelInfo:
        """Limits; the context window is the server's once it has started."""
        return self._info

    async def open(self, request: ModelRequest) -> HttpStream:
        """Start the server if it is not running, send *request*, return when the response begins.

        A checkpoint. If cancelled, no connection is left; a server that is starting continues to start, for the next
        request. Raises `ProviderError`, `EngineClosed`.
        """
        inner = await self._ensure_running()
        return await inner.open(request)

    async def serve(self) -> None:
        """Run the server whenever a request needs it; end it when cancelled. A checkpoint."""
        self._is_served = True
        try:
            while True:
                await self._requested.wait()
                await self._run_server()
        finally:
            self._is_served = False
            self._changed.set()

    async def aclose(self) -> None:
        """Close the connections to it; the process ends with `serve`. A checkpoint."""
        self._is_closed = True
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.aclose()
        await trio.lowlevel.checkpoint()

    async def _ensure_running(self) -> HttpModel:
        """Return the server's model as soon as it listens. A checkpoint if it does not yet."""
        while True:
            if self._is_closed or not self._is_served:
                raise EngineClosed(f"{self._info.name} works only inside an open engine")
            if self._inner is not None:
                return self._inner
            if self._changed.is_set():
                self._changed, self._failure = trio.Event(), None
            self._requested.set()
            await self._changed.wait()
            if self._failure is not None:
                raise self._failure

    async def _run_server(self) -> None:
        """Run the server once, to its end."""
        key = secrets.token_urlsafe(24)
        reader = _StartupOutput(lambda url, context: self._on_started(url, context, key))
        argv = [
            sys.executable,
            # Not from the folder of the file, which may come with a repository.
            "-P",
            "-m",
            "engine.providers.local.llama_server",
            self._path,
            str(self._context),
            str(os.getpid()),
        ]
        failure: ProviderError
        try:
            finished = await run_tree(
                argv,
                cwd=str(Path(self._path).parent),
                marker=f"local-{os.getpid()}-{key[:8]}",
                env={**SecretVariables().without(os.environ), KEY_VARIABLE: key},
                on_output=reader.feed,
                grace=_GRACE,
            )
            failure = reader.failure(self._info.name, finished)
        except OSError as error:
            failure = ProviderError(f"{self._info.name}: the server cannot be started: {error.strerror}")
        inner, self._inner = self._inner, None
        self._requested, self._failure = trio.Event(), failure
        self._changed.set()
        if inner is not None:
            await inner.aclose()

    def _on_started(self, url: str, context: int, key: str) -> None:
        """Connect to the server, which now listens. Not a checkpoint."""
        if context:
            output = min(self._info.output, context)
            self._info = attrs.evolve(self._info, context=context, output=output, is_known=True)
        endpoint = Endpoint(base_url=f"{url}/v1", auth=KeyAuth("authorization", key, "Bearer"))
        self._inner = HttpModel(self._info, self._wire(), endpoint)
        self._changed.set()


@attrs.define(eq=False)
class _StartupOutput:
    """Reads the server's output until it reports its URL or an error."""

    _on_start: Callable[[str, int], None]
    _pending: bytes = attrs.field(default=b"", init=False)
    _has_started: bool = attrs.field(default=False, init=False)
    _error: str = attrs.field(default="", init=False)

    def feed(self, chunk: bytes) -> None:
        """Read more output. Not a checkpoint."""
        if self._has_started:
            return
        *lines, rest = (self._pending + chunk)[-_KEPT_OUTPUT:].split(b"\n")
        self._pending = rest
        for line in lines:
            if line.startswith(REPORT_PREFIX.encode()):
                self._read(line[len(REPORT_PREFIX) :])

    def failure(self, name: str, finished: FinishedProcess) -> ProviderError:
        """Return the error for a server that has ended. Not a checkpoint."""
        if self._has_started:
            return Overloaded(
                f"{name}: the server died ({_exit_text(finished)}); the next request restarts it", retryable=True
            )
        return ProviderError(f"{name} cannot be served: {self._error or _exit_text(finished)}")

    def _read(self, document: bytes) -> None:
        if not (facts := loads_object(document)):
            return
        self._error = text(facts, "error")
        if url := text(facts, "url"):
            self._has_started = True
            self._on_start(url, number(facts, "context", 0))


def _exit_text(finished: FinishedProcess) -> str:
    return f"signal {finished.signal}" if finished.signal is not None else f"exit code {finished.exit_code}"
