"""Whatever a page of another origin, or another name of this machine, makes a browser send: nothing is served."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import attrs
import httpx
import trio

from tests.support.raw_http import UPGRADE, exchange
from tests.support.served_engine import Server, served

GETS = [
    *("/", "/healthz", "/readyz", "/v1/schema.json", "/v1/status", "/v1/sessions", "/v1/asked", "/v1/socket"),
    *(f"/v1/sessions/none{rest}" for rest in ("", "/messages", "/events", "/snapshot", "/stream", "/export.html")),
]
POSTS = [
    *("/v1/rpc", "/v1/sessions", "/v1/login", "/v1/challenge", "/v1/ticket", "/v1/uploads"),
    *(f"/v1/sessions/none/{name}" for name in ("prompt", "cancel", "requests/r1")),
]
HOSTS = [
    None,
    "",
    "127.0.0.1:PORT",
    "localhost:PORT",
    "127.0.0.1",
    "evil.example:PORT",
    "0.0.0.0:PORT",
    "127.0.0.2:PORT",
]
ORIGINS = [None, "null", "http://127.0.0.1:PORT", "http://localhost:1", "https://127.0.0.1:PORT", "http://evil.example"]
SITES = [None, "same-origin", "none", "same-site", "cross-site"]
TYPES = [None, "application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"]
METHODS = ["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE"]


@attrs.frozen
class Case:
    """A request as a browser may be made to send it."""

    path: str
    method: str
    host: str | None
    origin: str | None
    site: str | None
    content_type: str | None

    @property
    def refusal(self) -> int | None:
        """The status that it must get before anything is looked at; None: it goes on to who is asking."""
        if self.host not in {"127.0.0.1:PORT", "localhost:PORT"}:
            return 421
        if self.origin not in {None, "http://127.0.0.1:PORT"}:
            return 403
        if self.origin is None and self.site in {"same-site", "cross-site"}:
            return 403
        if self.method not in {"GET", "HEAD", "POST"}:
            return 405
        expected = "application/octet-stream" if self.path == "/v1/uploads" else "application/json"
        return 415 if self.method == "POST" and self.content_type != expected else None

    def head(self, server: Server) -> bytes:
        fields = {
            "Host": self.host,
            "Origin": self.origin,
            "Sec-Fetch-Site": self.site,
            "Sec-Fetch-Mode": None if self.site is None else "no-cors",
            "Content-Type": self.content_type,
            "Content-Length": "2" if self.method == "POST" else None,
            "Authorization": f"Bearer {server.at.token}",
        }
        lines = [
            f"{name}: {value}".replace("PORT", str(server.port)) for name, value in fields.items() if value is not None
        ]
        upgrade = UPGRADE if self.path == "/v1/socket" else ""
        body = "{}" if self.method == "POST" else ""
        return ("\r\n".join([f"{self.method} {self.path} HTTP/1.1", *lines]) + f"\r\n{upgrade}\r\n{body}").encode()


def cases() -> Sequence[Case]:
    return list(itertools.starmap(Case, itertools.product([*GETS, *POSTS], METHODS, HOSTS, ORIGINS, SITES, TYPES)))


async def test_only_own_names_and_origins_are_served(tmp_path: Path, is_full: bool) -> None:
    # A step that has no factor with the lengths of the lists: every value comes up with many others.
    chosen = cases()[:: 7 if is_full else 613]
    refused = 0
    async with served(tmp_path, seconds=600) as server:
        limit = trio.CapacityLimiter(20)

        async def check(case: Case) -> None:
            nonlocal refused
            async with limit:
                answer = await exchange(server.port, case.head(server))
            assert b"access-control" not in answer.head.lower()
            assert b"set-cookie" not in answer.head.lower()
            if case.refusal is None:
                assert answer.status not in {403, 405, 415, 421}, (case, answer)
            else:
                refused += 1
                assert answer.status == case.refusal, (case, answer)
                assert (case.refusal == 405) == (b"\r\nallow: get, head, post\r\n" in answer.head.lower())
                assert answer.problem["kind"] in {"forbidden", "method", "request"} if answer.body else True

        async with trio.open_nursery() as nursery:
            for case in chosen:
                nursery.start_soon(check, case)
        assert refused > len(chosen) / 2
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            assert (await http.get("/v1/sessions")).json()["rows"] == []


async def test_upgrade_needs_own_origin(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for origin, site, status in [
            (None, None, 101),
            ("http://127.0.0.1:PORT", "same-origin", 101),
            ("http://localhost:PORT", None, 101),
            ("http://localhost:3000", "same-site", 403),
            ("http://evil.example", "cross-site", 403),
            ("null", "cross-site", 403),
        ]:
            case = Case("/v1/socket", "GET", "127.0.0.1:PORT", origin, site, None)
            assert (await exchange(server.port, case.head(server))).status == status, origin
