"""An MCP server behind a URL, with its issuer of tokens, by hand: what it answers is up to the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

Json = dict[str, Any]


@attrs.frozen(kw_only=True)
class Reply:
    """An answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])


def as_json(value: object, status: int = 200) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode(), headers={"Content-Type": "application/json"})


@attrs.define
class WebServer:
    """The server; `answer` may be replaced, and returns None for the usual answer."""

    port: int
    answer: Callable[[Json, Mapping[str, str]], Reply | None] = lambda _, __: None
    tokens: list[str] = attrs.field(factory=list[str])
    requests: list[str] = attrs.field(factory=list[str])
    issued: int = 0
    # The header that requests for tokens must have; empty: none.
    basic: str = ""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def issue(self) -> Reply:
        """Issue a token."""
        self.issued += 1
        self.tokens = [f"token-{self.issued}"]
        about = {"token_type": "Bearer", "expires_in": 3_600, "refresh_token": f"refresh-{self.issued}"}
        return as_json({"access_token": self.tokens[0], **about})

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Return the answer to a request."""
        path = urlsplit(target).path
        self.requests.append(f"{method} {path}")
        if path == "/mcp":
            message = json.loads(body or b"{}")
            return self.answer(message, headers) or self._usual(message)
        return self._issuer(path, body, headers)

    def _issuer(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        match path:
            case "/.well-known/oauth-protected-resource/mcp":
                return as_json({"resource": self.url, "authorization_servers": [self.base]})
            case "/.well-known/oauth-authorization-server":
                ends = {name: f"{self.base}/{path}" for name, path in ENDPOINTS.items()}
                more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
                return as_json({"issuer": self.base, **ends, **more})
            case "/register":
                how = (
                    {"client_secret": "s:1", "token_endpoint_auth_method": "client_secret_basic"} if self.basic else {}
                )
                return as_json({**json.loads(body), "client_id": "engine-1", **how}, 201)
            case "/token":
                form = parse_qs(body.decode())
                is_known = form["grant_type"] == ["authorization_code"] or form.get("refresh_token") == [
                    f"refresh-{self.issued}"
                ]
                is_known = is_known and (not self.basic or headers.get("Authorization") == self.basic)
                return self.issue() if is_known else as_json({"error": "invalid_grant"}, 400)
            case _:
                return Reply(status=404)

    def _usual(self, message: Json) -> Reply:
        match message.get("method"):
            case "server/discover":
                found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                result: Json = {**found, "ttlMs": 0, "cacheScope": "public"}
            case "tools/list":
                tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
                result = {"tools": tools, "ttlMs": 0, "cacheScope": "public"}
            case _:
                result = {"content": [{"type": "text", "text": "called"}]}
        return as_json({"jsonrpc": "2.0", "id": message.get("id"), "result": {"resultType": "complete", **result}})


ENDPOINTS = {"authorization_endpoint": "authorize", "token_endpoint": "token", "registration_endpoint": "register"}


@contextmanager
def web_server() -> Generator[WebServer]:
    """Serve for the block, in threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class calls it
            pass

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = server.reply(self.command, self.path, dict(self.headers), body)
            try:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  # as the base class calls them

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server = WebServer(http.server_address[1])
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
