from __future__ import annotations

import subprocess
import sys

import pytest

from engine.errors import ConfigError, UnknownModel
from engine.messages import Usage
from engine.providers.registry import resolve

CANARY = "sk-ant-canary-3141592653589793"
ENV = {"ANTHROPIC_API_KEY": CANARY}


def test_a_known_model_has_its_limits_and_prices() -> None:
    info = resolve("anthropic/claude-sonnet-4-5", ENV).info
    assert (info.name, info.context, info.output) == ("anthropic/claude-sonnet-4-5", 200_000, 64_000)
    assert info.cost(Usage(input=1_000_000, output=1_000_000)) == 18.0


@pytest.mark.parametrize("date", ["20250929", "latest"])
def test_a_dated_name_is_the_model_it_is_a_date_of(date: str) -> None:
    dated = resolve(f"anthropic/claude-haiku-4-5-{date}", ENV).info
    assert dated.name.endswith(date)
    assert dated.price_output == 5.0


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-9", "anthropic/claude-sonnet-4-5-turbo"])
def test_an_unknown_claude_has_conservative_limits(name: str) -> None:
    info = resolve(name, ENV).info
    assert (info.name, info.output, info.price_output) == (name, 8_192, 0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody/model", "anthropic/<model>"),
        ("model", "anthropic/<model>"),
        ("", "anthropic/<model>"),
        ("anthropic", "anthropic/<model>"),
        ("anthropic/", "anthropic/<model>"),
        ("claude-sonnet-4-5", "did you mean anthropic/claude-sonnet-4-5"),
        ("anthropic/gpt-5", "ANTHROPIC_BASE_URL"),
    ],
)
def test_an_unknown_name_is_told_what_is_known(name: str, words: str) -> None:
    with pytest.raises(UnknownModel, match=words):
        resolve(name, ENV)


def test_a_compatible_host_may_have_other_models() -> None:
    env = {**ENV, "ANTHROPIC_BASE_URL": "https://models.example/anthropic/"}
    assert repr(resolve("anthropic/other-model", env)) == "<HttpModel 'anthropic/other-model' at models.example>"


@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": " \n"}])
def test_a_missing_key_is_named(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="set the environment variable ANTHROPIC_API_KEY"):
        resolve("anthropic/claude-sonnet-4-5", env)


@pytest.mark.parametrize("key", [f"{CANARY}\nx-other: 1", f"{CANARY}é", f"{CANARY} x", f"{CANARY}\0"])
def test_a_key_that_is_no_header_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY") as caught:
        resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": key})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "models.example",
        "ftp://models.example",
        "https://",
        "https://a:b:c",
        "https://[",
        "https://x:0",
        "http://é.example",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_BASE_URL is no address"):
        resolve("anthropic/claude-sonnet-4-5", {**ENV, "ANTHROPIC_BASE_URL": url})


def test_and_not_shown_for_it_may_hold_a_password() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("anthropic/claude-sonnet-4-5", {**ENV, "ANTHROPIC_BASE_URL": f"ftp://user:{CANARY}@models.example"})
    assert CANARY not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    model = resolve(
        "anthropic/claude-sonnet-4-5", {**ENV, "ANTHROPIC_BASE_URL": f"https://user:{CANARY}@models.example"}
    )
    assert CANARY not in repr(model)
    assert CANARY not in "".join(repr(value) for value in vars(model).values())


def loaded_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_httpx_and_the_wire_format_are_imported_on_use() -> None:
    asked = loaded_after("import engine.providers.registry")
    assert not asked & {"httpx", "engine.providers.http", "engine.providers.anthropic"}
    used = loaded_after(
        "from engine.providers.registry import resolve\n"
        "resolve('anthropic/claude-sonnet-4-5', {'ANTHROPIC_API_KEY': 'x'})"
    )
    assert {"httpx", "engine.providers.anthropic"} <= used
    assert "asyncio" not in used
