"""What URLs name, and which addresses are closed."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError, ToolError
from engine.web.address_guard import MAX_URL_CHARS, Guard, Target, parse_url


@pytest.mark.parametrize(
    ("text", "url", "host", "port"),
    [
        ("HTTP://EXAMPLE.com:80", "http://example.com/", "example.com", 80),
        ("https://example.com.:443/a/../b?c#d", "https://example.com/b?c", "example.com", 443),
        ("https://h:8443?x", "https://h:8443/?x", "h", 8443),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4", "xn--bcher-kva.example", 80),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://0177.0x1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://2130706433/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://[::FFFF:8.8.8.8]/", "http://8.8.8.8/", "8.8.8.8", 80),
        ("http://[2606:4700:0:0::1]:81/", "http://[2606:4700::1]:81/", "2606:4700::1", 81),
        ("http://h/@x:y", "http://h/@x:y", "h", 80),
        ("http://a_b.c-d/", "http://a_b.c-d/", "a_b.c-d", 80),
    ],
)
def test_one_spelling_per_url(text: str, url: str, host: str, port: int) -> None:
    target = parse_url(text)
    assert (target.url, target.host, target.port) == (url, host, port)
    assert parse_url(target.url) == target


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with"),
        ("x", "must begin with"),
        ("http:x", "must begin with"),
        ("gopher://x/", "must begin with"),
        (" http://x/", "blanks"),
        ("http://x/\n", "blanks"),
        ("http://x\\y/", "backslashes"),
        ("http://x/\u202e", "can't be seen"),
        ("http://\ud800/", "can't be seen"),
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http://a@b/", "user's name"),
        ("http://@b/", "user's name"),
        ("http://a:b@c:80?x", "user's name"),
        ("http://a..b/", "its host is no name: a..b"),
        ("http://-a/", "no name"),
        ("http://a%2eb/", "no name"),
        ("http://127.0.0.1%00.x/", "no name"),
        ("http://1.2.3.4.5/", "no IP address"),
        ("http://0177.0.0.01/", "no URL"),
        ("http://08.1/", "no IP address"),
        ("http://4294967296/", "no IP address"),
        ("http://[1:2]/", "no URL"),
        ("http://[fe80::1%25eth0]/", "one network interface"),
        ("http://①.example/", "no URL"),
        ("http://x:0/", "no port 0"),
        ("http://x:65536/", "no port 65536"),
        ("http://x:y/", "no URL"),
        ("http://" + "x" * MAX_URL_CHARS, "characters; the limit is 8,192"),
    ],
)
def test_invalid_urls(text: str, reason: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_url(text)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 90, "it must fit into one line of what is wrong with arguments"


@given(st.text(alphabet=st.sampled_from("htp:/@?#[]%.\\ x10é\u3002"), max_size=30))
def test_any_text_is_normalised_or_refused(text: str) -> None:
    try:
        target = parse_url("http://" + text)
    except ToolError:
        return
    assert isinstance(target, Target)
    assert parse_url(target.url) == target


CLOSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
OPEN = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "168.63.129.15",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::",
    "3ffe::1",
]


@pytest.mark.parametrize("address", CLOSED)
def test_closed(address: str) -> None:
    assert Guard().objection(ip_address(address)).endswith(" address")
    with pytest.raises(ToolError, match=r"^Refused: a\.example \("):
        Guard().check("a.example", address)


@pytest.mark.parametrize("address", OPEN)
def test_open(address: str) -> None:
    assert Guard().objection(ip_address(address)) == ""
    Guard().check("a.example", address)


@given(st.ip_addresses(v=4).map(IPv4Address))
def test_open_addresses_agree_with_ipaddress(address: IPv4Address) -> None:
    """The other way round it need not be: see the module."""
    if not Guard().objection(address):
        assert address.is_global
        mapped = IPv6Address(f"::ffff:{address}")
        assert not Guard().objection(mapped)


def test_allowed_addresses() -> None:
    guard = Guard.of(["127.0.0.1", "10.0.0.0/8", "fd00::/8"])
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "fd00::1"):
        assert guard.objection(ip_address(address)) == ""
        guard.check("h", address)
    assert guard.objection(ip_address("127.0.0.2")) == "a loopback address"
    assert guard.allows("10.0.0.1")
    assert not guard.allows("8.8.8.8"), "open, but not by name"


@pytest.mark.parametrize("wrong", [["localhost"], ["10.0.0.1/8"], [""], "127.0.0.1"])
def test_invalid_networks(wrong: list[str]) -> None:
    with pytest.raises(ConfigError):
        Guard.of(wrong)
