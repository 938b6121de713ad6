"""Which requests are served at all."""

import itertools

import pytest

from engine.control.transport.access import AllowedAddresses, check_access
from engine.control.transport.request_head import BadRequest, parse_head

ALLOWED = AllowedAddresses.on_port(4096, names=["my.machine"]).and_url("https://proxy.example/engine")


def status_of(line: str = "GET /v1/status", **fields: str | None) -> int:
    """Return 200, or the status of the refusal."""
    sent = {"host": "127.0.0.1:4096", "content_type": "application/json", **fields}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in sent.items() if value is not None]
    try:
        check_access(parse_head("\r\n".join([f"{line} HTTP/1.1", *lines, "", ""]).encode()), ALLOWED)
    except BadRequest as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:4096", "localhost:4096", "LOCALHOST:4096", "[::1]:4096", "my.machine:4096", "proxy.example"]
)
def test_own_names_are_served(host: str) -> None:
    assert status_of(host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:4097",
        "0.0.0.0:4096",
        "127.0.0.2:4096",
        "[::]:4096",
        "evil.example:4096",
        "localhost.evil.example:4096",
        "localhost:4096.evil.example",
        "localhost:4096@evil.example",
        "127.0.0.1:04096",
        "2130706433:4096",
        "localhost.:4096",
    ],
)
def test_other_names_are_refused_before_all_else(host: str | None) -> None:
    refused = [
        status_of("DELETE /", host=host, origin="http://evil.example"),
        status_of("GET /", host=host, sec_fetch_site="cross-site"),
        status_of(host=host),
    ]
    assert refused == [421, 421, 421]


def test_listening_everywhere_is_no_name() -> None:
    allowed = AllowedAddresses.on_port(1, 2, names=["0.0.0.0", "::", "10.0.0.5", "fd00::5"])  # not bound
    assert allowed.hosts == {
        f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", "10.0.0.5", "[fd00::5]") for port in (1, 2)
    }


@pytest.mark.parametrize(
    ("url", "hosts", "origin"),
    [
        ("https://Proxy.example/", {"proxy.example", "proxy.example:443"}, "https://proxy.example"),
        ("https://proxy.example:443", {"proxy.example", "proxy.example:443"}, "https://proxy.example"),
        ("http://proxy.example:8080/a", {"proxy.example:8080"}, "http://proxy.example:8080"),
        ("http://[fd00::5]:81", {"[fd00::5]:81"}, "http://[fd00::5]:81"),
    ],
)
def test_public_address_is_known_as_clients_write_it(url: str, hosts: set[str], origin: str) -> None:
    allowed = AllowedAddresses.on_port().and_url(url)
    assert allowed.hosts == hosts
    assert allowed.origins == {origin}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "proxy.example",
        "https://",
        "https:///engine",
        "ftp://a",
        "https://a:b",
        "https://u:p@a",
        "https://a?b",
        "//a",
    ],
)
def test_other_public_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|Port"):
        AllowedAddresses.on_port().and_url(url)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:4096", 200),
        ("http://localhost:4096", 200),
        ("https://proxy.example", 200),
        ("null", 403),
        ("", 403),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("https://localhost:4096", 403),
        ("http://localhost:4096.evil.example", 403),
        ("http://localhost:40960", 403),
        ("http://evil.example", 403),
        ("chrome-extension://abc", 403),
        ("http://localhost:4096, http://evil.example", 403),
    ],
)
def test_only_own_origins_are_served(origin: str, status: int) -> None:
    assert status_of(origin=origin) == status
    assert status_of("POST /v1/rpc", origin=origin) == status


def test_configured_origins_match_exactly() -> None:
    allowed = ALLOWED.and_origins(["chrome-extension://abc"])
    for origin, is_served in [("chrome-extension://abc", True), ("chrome-extension://abcd", False)]:
        head = parse_head(f"GET / HTTP/1.1\r\nHost: localhost:4096\r\nOrigin: {origin}\r\n\r\n".encode())
        if is_served:
            check_access(head, allowed)
        else:
            with pytest.raises(BadRequest):
                check_access(head, allowed)


def test_browsers_other_sites_are_refused() -> None:
    modes = ["navigate", "cors", "no-cors", "websocket", "same-origin"]
    for site, mode, line in itertools.product(
        ["same-site", "cross-site"], modes, ["GET /", "GET /v1/status", "POST /v1/rpc", "GET /assets/x.js"]
    ):
        status = status_of(line, sec_fetch_site=site, sec_fetch_mode=mode)
        assert status == (200 if (mode, line) == ("navigate", "GET /") else 403), (site, mode, line)
    for dest, status in [("document", 200), ("iframe", 403), ("embed", 403), ("object", 403)]:
        assert (
            status_of(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest=dest, line="GET /")
            == status
        )
    for site in ["same-origin", "none"]:
        assert status_of("POST /v1/rpc", sec_fetch_site=site) == 200


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    assert status_of(f"{method} /v1/rpc") == 405


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 415),
        (None, 415),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=application/json", 415),
    ],
)
def test_what_forms_can_send_is_refused(content_type: str | None, status: int) -> None:
    assert status_of("POST /v1/rpc", content_type=content_type) == status


def test_body_with_get_is_refused() -> None:
    assert status_of(content_length="1") == 400
