"""The name of an account: a hash, by which those with the same key at the same address find each other."""

from __future__ import annotations

from engine.providers.registry import resolve

KEY = "sk-ant-0123456789abcdef"


def account(key: str = KEY, *, url: str = "") -> str:
    env = {"ANTHROPIC_API_KEY": key, **({"ANTHROPIC_BASE_URL": url} if url else {})}
    return resolve("anthropic/claude-sonnet-4-5", env).info.account


def test_same_key_and_address_are_one_account() -> None:
    assert account() == account()
    assert resolve("anthropic/claude-opus-4-1", {"ANTHROPIC_API_KEY": KEY}).info.account == account()
    assert len({account(), account("another-key"), account(url="https://proxy.example/v1")}) == 3


def test_account_shows_nothing_of_the_key() -> None:
    assert account()
    assert not any(KEY[start : start + 6] in account() for start in range(len(KEY) - 5))
    assert "pass" not in account(url="https://user:password@proxy.example")
    assert account(url="https://user:password@proxy.example") != account(url="https://user:other@proxy.example")
