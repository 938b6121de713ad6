"""`ServerConversation`: what is said to a language server and heard from it: requests, documents, diagnostics. It does no I/O.

A document is open from the first check of its file on, in the text that was checked. Diagnostics of a document count if
they name its present version. A server that names none is believed once it has been quiet for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import trio

from engine.config.language_server_config import LanguageServer
from engine.core.deferred import Deferred
from engine.core.schema import Json
from engine.journal.json_text import to_json_text
from engine.jsonrpc.message_stream import with_header
from engine.jsonrpc.rpc_messages import (
    UNKNOWN_METHOD,
    RpcError,
    RpcFailure,
    RpcId,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    failure_text,
    notification_text,
    request_text,
    result_text,
)
from engine.language_servers.protocol_messages import (
    PUBLISH,
    PULL,
    Abilities,
    Diagnostic,
    JsonObject,
    abilities_in,
    answer_to,
    errors_in,
    initialize_params,
    nested,
    path_of,
    with_registrations,
    without_registrations,
)
from engine.mcp.server_text import one_line

# Seconds after diagnostics that name no version: more may follow.
QUIET: Final = 0.15
_RETRY_PAUSE: Final = 0.2
# The protocol's code for "ask again, I was busy with a change".
_SERVER_CANCELLED: Final = -32802
_MOST_DOCUMENTS: Final = 50
# Only whether it is the same counts: the time of the last change and the size.
Stamp: TypeAlias = tuple[int, int]


class ServerFailed(Exception):
    """The server has ended, or refuses."""


@attrs.define(eq=False)
class OpenDocument:
    """A file as the server knows it.

    Attributes:
        text: its text.
        stamp: the state of the file when the text was read.
        version: of the text, counted from 1.
        settled: the newest version of which the errors are known.
        errors: of the newest version of which any are known.
        before: those before the last change; None: nothing was known then.
    """

    text: str
    stamp: Stamp
    version: int = 1
    settled: int = 0
    errors: tuple[Diagnostic, ...] = ()
    before: tuple[Diagnostic, ...] | None = None
    # Diagnostics without a version have come since the last change.
    was_pushed: bool = False

    def change(self, text: str) -> None:
        """Give it another text."""
        if self.settled:
            self.before = self.errors
        self.text, self.was_pushed = text, False
        self.version += 1

    def settle(self, version: int, errors: tuple[Diagnostic, ...]) -> None:
        """Take note of all errors of a version."""
        self.settled, self.errors = version, errors


@attrs.define(eq=False)
class ServerConversation:
    """The client's side of a connection.

    Attributes:
        server: its configuration.
        root: the folder it works in.
        send: sends bytes. Not a checkpoint.
        pid: the process that it may watch, to end with it; None: it can't see ours.
        abilities: what it has said of itself; None: it is not ready.
        invalid: how many of its messages made no sense.
        is_over: whether the connection has ended.
    """

    server: LanguageServer
    root: str
    send: Callable[[bytes], None]
    pid: int | None = attrs.field(default=None, init=False)
    abilities: Abilities | None = attrs.field(default=None, init=False)
    invalid: int = attrs.field(default=0, init=False)
    is_over: bool = attrs.field(default=False, init=False)
    _last_id: int = attrs.field(default=0, init=False)
    # None: there will be no answer.
    _pending: dict[RpcId, Deferred[RpcResult | RpcFailure | None]] = attrs.field(
        factory=dict[RpcId, "Deferred[RpcResult | RpcFailure | None]"], init=False
    )
    # By path, the one checked last at the end.
    _documents: dict[str, OpenDocument] = attrs.field(factory=dict[str, OpenDocument], init=False)
    # Set, and replaced, when something has come that a check may wait for.
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    # -- the connection ------------------------------------------------------------------------

    async def begin(self) -> None:
        """Introduce the client. Always a checkpoint. Raises `ServerFailed`."""
        params = initialize_params(self.root, pid=self.pid, options=self.server.initialization_options)
        result = await self.request("initialize", params)
        self.notify("initialized", {})
        if self.server.settings:
            self.notify("workspace/didChangeConfiguration", {"settings": nested(self.server.settings)})
        self.abilities = abilities_in(result)
        self._announce()

    def end(self) -> None:
        """Take note that nothing will come any more. Not a checkpoint."""
        self.is_over = True
        for answer in self._pending.values():
            answer.settle(None)
        self._pending.clear()
        self._announce()

    def receive(self, message: RpcMessage) -> None:
        """Take a message. Not a checkpoint."""
        match message:
            case RpcRequest(key, method, params):
                self._answer(key, method, params)
            case RpcNotification(method, params):
                if method == PUBLISH and isinstance(params, dict):
                    self._take_diagnostics(params)
            case RpcResult() | RpcFailure():
                answer = self._pending.pop(message.id, None) if message.id is not None else None
                if answer is not None:
                    answer.settle(message)
            case _:
                self.invalid += 1

    async def request(self, method: str, params: Json) -> Json:
        """Send a request, and return its result. Always a checkpoint; if cancelled, the server is notified.

        Raises `ServerFailed` if it is refused, or the connection has ended.
        """
        self._check_alive()
        self._last_id += 1
        key = self._last_id
        answer = self._pending[key] = Deferred()
        self.send(with_header(request_text(key, method, to_json_text(params))))
        try:
            settled = await answer.wait()
        finally:
            if self._pending.pop(key, None) is not None:
                self.notify("$/cancelRequest", {"id": key})
        if settled is None:
            raise ServerFailed("the server has ended")
        if isinstance(settled, RpcFailure):
            raise RequestRefused(settled.error)
        return settled.value

    def notify(self, method: str, params: Json) -> None:
        """Send a notification. Not a checkpoint."""
        self.send(with_header(notification_text(method, to_json_text(params))))

    def _answer(self, key: RpcId, method: str, params: Json) -> None:
        if self.abilities is not None and method == "client/registerCapability":
            self.abilities = with_registrations(self.abilities, params)
            self._announce()
        elif self.abilities is not None and method == "client/unregisterCapability":
            self.abilities = without_registrations(self.abilities, params)
        result, is_known = answer_to(method, params, root=self.root, settings=self.server.settings)
        unknown = RpcError(UNKNOWN_METHOD, f"this client has no method {one_line(method, 100)}")
        text = result_text(key, to_json_text(result)) if is_known else failure_text(key, unknown)
        self.send(with_header(text))

    def _announce(self) -> None:
        news, self._news = self._news, trio.Event()
        news.set()

    # -- documents -----------------------------------------------------------------------------

    @property
    def stamps(self) -> dict[str, Stamp]:
        """The open files, as they were when they were read."""
        return {path: document.stamp for path, document in self._documents.items()}

    async def check(self, path: str, text: str, stamp: Stamp) -> OpenDocument:
        """Return a file's document once its errors are known. Always a checkpoint; it takes as long as the server does.

        If cancelled, the server has the text nevertheless. Raises `ServerFailed`.
        """
        await trio.lowlevel.checkpoint()
        while self.abilities is None:
            self._check_alive()
            await self._news.wait()
        self._check_alive()
        document = self._update(self.abilities, path, text, stamp)
        version = document.version
        while document.settled < version:
            self._check_alive()
            if self.abilities.pulls:
                await self._pull(document, version, path)
                continue
            is_news = await self._wait_for_news(QUIET if document.was_pushed else float("inf"))
            if not is_news and document.version == version:
                document.settle(version, document.errors)
        return document

    def close(self, paths: Sequence[str]) -> None:
        """Close documents whose files another program has changed: the server reads them itself then. Not a checkpoint."""
        for path in paths:
            if self._documents.pop(path, None) is not None:
                self.notify("textDocument/didClose", {"textDocument": {"uri": Path(path).as_uri()}})
        if paths:
            changes: list[Json] = [{"uri": Path(path).as_uri(), "type": 2} for path in paths]
            self.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def _check_alive(self) -> None:
        if self.is_over:
            raise ServerFailed("the server has ended")

    async def _wait_for_news(self, seconds: float) -> bool:
        """Wait until something has come; return False if nothing has come in that time. Always a checkpoint."""
        news = self._news
        with trio.move_on_after(seconds):
            await news.wait()
        return news.is_set()

    def _update(self, abilities: Abilities, path: str, text: str, stamp: Stamp) -> OpenDocument:
        """Let the server have the text of a file; return the document. Not a checkpoint."""
        # Taken out and put in again: the one checked last is the last one.
        document = self._documents.pop(path, None)
        is_new = document is None
        document = self._documents[path] = document or OpenDocument(text, stamp)
        uri = Path(path).as_uri()
        if is_new:
            language = self.server.language_of(Path(path).name)
            item: JsonObject = {"uri": uri, "languageId": language, "version": document.version, "text": text}
            self.notify("textDocument/didOpen", {"textDocument": item})
        elif document.text != text:
            document.change(text)
            changed: JsonObject = {"uri": uri, "version": document.version}
            # A change without a range is the whole text, which all servers take.
            self.notify("textDocument/didChange", {"textDocument": changed, "contentChanges": [{"text": text}]})
        document.stamp = stamp
        if abilities.takes_saves and document.settled < document.version:
            self.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})
        while len(self._documents) > _MOST_DOCUMENTS:
            first = next(iter(self._documents))
            del self._documents[first]
            self.notify("textDocument/didClose", {"textDocument": {"uri": Path(first).as_uri()}})
        return document

    async def _pull(self, document: OpenDocument, version: int, path: str) -> None:
        """Ask for the diagnostics of a document. Always a checkpoint. Raises `ServerFailed`."""
        assert self.abilities is not None
        items: list[Json] = []
        for identifier in dict.fromkeys(self.abilities.pulls.values()):
            params: JsonObject = {"textDocument": {"uri": Path(path).as_uri()}}
            if identifier is not None:
                params["identifier"] = identifier
            try:
                report = await self.request(PULL, params)
            except RequestRefused as refused:
                if refused.error.code != _SERVER_CANCELLED:
                    raise
                await trio.sleep(_RETRY_PAUSE)
                return
            found = report.get("items") if isinstance(report, dict) else None
            items += found if isinstance(found, list) else []
        if document.version == version:
            errors = errors_in(items, document.text, self.abilities.encoding)
            # What it has sent unasked as well: the errors of a build, for example.
            both = {*errors, *document.errors} if document.was_pushed else set(errors)
            document.settle(version, tuple(sorted(both)))

    def _take_diagnostics(self, params: JsonObject) -> None:
        document = self._documents.get(path_of(params.get("uri")))
        version = params.get("version")
        if document is None or self.abilities is None or (version is not None and version != document.version):
            return
        errors = errors_in(params.get("diagnostics"), document.text, self.abilities.encoding)
        if self.abilities.pulls:
            document.errors, document.was_pushed = errors, True
        elif version is not None:
            document.settle(document.version, errors)
        else:
            document.errors, document.was_pushed = errors, True
        self._announce()


class RequestRefused(ServerFailed):
    """The server has answered a request with an error."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(f"it refused: {one_line(error.message)}")
        self.error = error
