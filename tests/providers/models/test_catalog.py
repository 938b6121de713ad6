"""Limits and prices of models."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest

from engine.config.config import Config, ModelConfig, Prices
from engine.core.llm_types import LongPrices, ModelInfo, ModelOptions
from engine.core.messages import Usage
from engine.providers.hosts.host import Host
from engine.providers.hosts.host_table import BY_NAME, HOSTS
from engine.providers.models import prices
from engine.providers.models.catalog import info_of, list_models
from engine.providers.models.limits import UNKNOWN, limits_of

MILLION = 1_000_000


def test_a_listed_model_has_its_limits_and_prices() -> None:
    assert info_of("anthropic/claude-haiku-4-5") == ModelInfo(
        name="anthropic/claude-haiku-4-5",
        context=200_000,
        output=64_000,
        family="claude",
        host="anthropic",
        defers_tools=True,
        price_input=1.0,
        price_output=5.0,
        price_cache_read=0.1,
        price_cache_write=1.25,
    )


def test_a_long_prompt_costs_more() -> None:
    info = info_of("anthropic/claude-sonnet-4-5")
    assert info.cost(Usage(input=200_000, output=MILLION)) == pytest.approx(0.6 + 15.0)
    assert info.cost(Usage(input=1, cache_read=150_000, cache_write=50_000, output=MILLION)) == pytest.approx(
        (6 + 150_000 * 0.6 + 50_000 * 7.5) / MILLION + 22.5
    )


def test_last_reached_long_price_applies() -> None:
    long = (LongPrices(above=10, price_input=2.0), LongPrices(above=100, price_input=3.0))
    info = ModelInfo(name="a/b", price_input=1.0, long_prices=long)
    costs = [info.cost(Usage(input=tokens)) * MILLION for tokens in (10, 11, 100, 101)]
    assert costs == pytest.approx([10, 22, 200, 303])


@pytest.mark.parametrize("date", ["20251001", "latest"])
def test_dated_name_means_its_model(date: str) -> None:
    dated = info_of(f"anthropic/claude-haiku-4-5-{date}")
    assert dated.name.endswith(date)
    assert (dated.price_output, dated.output) == (5.0, 64_000)


@pytest.mark.parametrize(
    ("name", "context", "output", "price"),
    [
        ("openai/gpt-5.2", 400_000, 128_000, 1.75),
        ("openai-chat/gpt-4.1", 1_000_000, 32_768, 2.0),
        ("azure/gpt-5.2", 400_000, 128_000, 1.75),
        ("google/gemini-2.5-pro", 1_048_576, 65_536, 1.25),
        ("xai/grok-4.7", 500_000, 128_000, 2.0),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000, 3.3),
        ("openrouter/anthropic/claude-sonnet-4.5", 1_000_000, 64_000, 3.0),
        ("zai/glm-4.7", 204_800, 102_400, 0.6),
        ("moonshot/kimi-k2.5", 262_144, 65_536, 0.6),
        ("groq/openai/gpt-oss-120b", 131_072, 32_768, 0.15),
        # No table has its prices, but the family is known.
        ("vercel/anthropic/claude-opus-4.8", 1_000_000, 128_000, 0.0),
    ],
)
def test_models_of_other_hosts(name: str, context: int, output: int, price: float) -> None:
    info = info_of(name)
    assert (info.context, info.output, info.price_input, info.is_known) == (context, output, price, True)


def test_an_unknown_model_has_cautious_limits() -> None:
    info = info_of("anthropic/claude-sonnet-99x")
    assert (info.context, info.output, info.price_output, info.is_known) == (200_000, 8_192, 0.0, False)
    info = info_of("together/somebody/their-model")
    assert (info.context, info.output, info.is_known) == (UNKNOWN.context, UNKNOWN.output, False)


def test_local_window_is_the_servers_own() -> None:
    info = info_of("ollama/gpt-oss:20b")
    assert (info.context, info.output, info.is_known, info.parallel) == (8_192, 2_048, False, 1)
    assert info.cost(Usage(input=MILLION)) == 0.0


def test_configuration_overrides_everything() -> None:
    config = Config(
        models={
            "anthropic/claude-sonnet-4-5": ModelConfig(
                context=1_000_000, output=10_000, prices=Prices(output=99.0), options=ModelOptions(cache="1h")
            ),
            "azure/my-deployment": ModelConfig(same_as="openai/gpt-4o"),
            "ollama/qwen3": ModelConfig(context=32_768),
        }
    )
    info = info_of("anthropic/claude-sonnet-4-5", config=config)
    assert (info.context, info.output, info.price_input, info.price_output) == (1_000_000, 10_000, 3.0, 99.0)
    assert (info.price_cache_read, info.long_prices, info.options) == (0.3, (), ModelOptions(cache="1h"))
    assert info_of("azure/my-deployment", config=config).price_input == 2.5
    assert info_of("azure/my-deployment", config=config).output == 16_384
    assert info_of("ollama/qwen3", config=config).is_known
    assert info_of("ollama/qwen3", config=config).context == 32_768


def test_new_prices_drop_old_cache_prices() -> None:
    config = Config(models={"anthropic/claude-opus-5": ModelConfig(prices=Prices(input=2.0, cache_write=2.5))})
    info = info_of("anthropic/claude-opus-5", config=config)
    assert (info.price_input, info.price_cache_read, info.price_cache_write) == (2.0, 2.0, 2.5)


def test_the_listed_models_of_a_host() -> None:
    config = Config(models={"anthropic/mine": ModelConfig(context=5_000), "openai/other": ModelConfig()})
    names = [info.name for info in list_models(BY_NAME["anthropic"], config)]
    assert {"anthropic/claude-opus-5", "anthropic/mine"} <= set(names)
    assert all(name.startswith("anthropic/") for name in names)
    assert len(names) == len(set(names))
    assert list_models(BY_NAME["ollama"]) == []


# -- the tables --------------------------------------------------------------------------------


TABLE = json.loads(files("engine.providers.models").joinpath("prices.json").read_text(encoding="utf-8"))


def test_price_table_names_its_source() -> None:
    assert TABLE["source"].startswith("genai-prices ")
    assert prices.price_source() == f"{TABLE['source']}, {TABLE['date']}"


@pytest.mark.parametrize("host", sorted(TABLE["hosts"]))
def test_every_entry_matches_its_own_name(host: str) -> None:
    entries = prices.list_prices(host)
    assert entries
    for entry in entries:
        assert entry.base.price_output >= 0
        assert list(entry.long) == sorted(entry.long, key=lambda long: long.above)
    # A name that is a pattern's example, not a model's, is not found: a few.
    actual = [entry for entry in entries if prices.find_price(host, entry.name)]
    assert len(actual) >= len(entries) * 0.8


def test_every_priced_host_is_in_the_table() -> None:
    named = {host.prices for host in HOSTS if host.prices not in {"", "-"}}
    assert named <= set(TABLE["hosts"])
    unused = set(TABLE["hosts"]) - named - {host.name for host in HOSTS}
    assert unused == set()


@pytest.mark.parametrize(
    ("clause", "yes", "no"),
    [
        ("=abc", "abc", "abcd"),
        ("^ab", "abc", "xab"),
        ("$bc", "abc", "bcd"),
        ("~b", "abc", "xyz"),
        ("/^a.c$", "axc", "axcd"),
        ("/^abc-\\d+$", "abc-12", "xbc-12"),
        ("/^abc?$", "ab", "abcd"),
        ("/^abc|x", "yx", "y"),
        ("/^ab{0,1}$", "a", "abb"),
        (["|", "=a", "=b"], "b", "c"),
        (["&", "^a", "$c"], "abc", "abx"),
        (["|", ["&", "^a", "$c"], "=x"], "x", "ab"),
        (None, "own-name", "own"),
    ],
)
def test_names_are_normalised_like_the_table(clause: object, yes: str, no: str) -> None:
    assert prices._matches(clause, "Own-Name", yes)
    assert not prices._matches(clause, "Own-Name", no)


@pytest.mark.parametrize(
    ("name", "context", "output"),
    [
        ("claude-opus-4-5-20251101", 200_000, 64_000),
        ("claude-opus-4-1", 200_000, 32_000),
        ("us.anthropic.claude-opus-4-8", 1_000_000, 128_000),
        ("claude-sonnet-4-20250514", 200_000, 64_000),
        ("claude-3-7-sonnet-latest", 200_000, 64_000),
        ("claude-haiku-6", 1_000_000, 128_000),
        ("openai/gpt-5.4-mini", 400_000, 128_000),
        ("gpt-5-chat-latest", 128_000, 16_384),
        ("gpt-5.2-chat-latest", 128_000, 16_384),
        ("gpt-6-astra", 1_050_000, 128_000),
        ("o3-mini", 200_000, 100_000),
        ("accounts/fireworks/models/glm-5p2", 1_000_000, 131_072),
        ("moonshotai/Kimi-K3", 1_048_576, 131_072),
        ("mistral-large-latest", 262_144, 65_536),
        ("foo3-mini", UNKNOWN.context, UNKNOWN.output),
    ],
)
def test_limits_of_families(name: str, context: int, output: int) -> None:
    limits = limits_of(name)
    assert (limits.context, limits.output) == (context, output)


NO_AGENTS = re.compile(
    r"image|imagen|dall-e|realtime|tts|speech|whisper|transcribe|embed|moderation|veo|lyria|(?<![a-z])live|robotics|banana"
)


@pytest.mark.parametrize("host", BY_NAME.values(), ids=BY_NAME)
def test_only_models_for_agents_are_listed(host: Host) -> None:
    assert [info.name for info in list_models(host) if NO_AGENTS.search(info.name)] == []


def test_each_host_lists_what_speaks_its_format() -> None:
    def names(host: str) -> list[str]:
        return [info.name.partition("/")[2] for info in list_models(BY_NAME[host])]

    for host in ("google", "vertex"):
        assert names(host)
        assert [name for name in names(host) if not name.startswith(("gemini", "gemma"))] == []
    assert names("vertex-anthropic")
    assert [name for name in names("vertex-anthropic") if not name.startswith("claude")] == []
    only_responses = {"gpt-5-pro", "gpt-5.5-pro", "gpt-5.3-codex", "o3-pro"}
    assert only_responses <= set(names("openai"))
    assert only_responses.isdisjoint(names("openai-chat"))


def test_a_configured_model_is_always_listed() -> None:
    config = Config(models={"google/gemini-9-image": ModelConfig(context=1_000)})
    assert "google/gemini-9-image" in [info.name for info in list_models(BY_NAME["google"], config)]


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-opus-7",
        "anthropic/claude-sonnet-6-1",
        "openai/gpt-7",
        "openai/gpt-6.3-sol",
        "openai/gpt-5.9",
        "google/gemini-5-pro",
        "google/gemini-3.9-flash",
        "xai/grok-5",
        "deepseek/deepseek-v5",
        "moonshot/kimi-k5",
        "zai/glm-6",
        "minimax/MiniMax-M5",
    ],
)
def test_a_newer_version_is_unknown(name: str) -> None:
    assert not info_of(name).is_known


@pytest.mark.parametrize(
    "name",
    ["anthropic/claude-opus-5-5", "openai/gpt-6.1-sol", "openai/gpt-5.6", "google/gemini-3.8-flash", "xai/grok-4.7"],
)
def test_a_current_version_is_known(name: str) -> None:
    assert info_of(name).is_known
