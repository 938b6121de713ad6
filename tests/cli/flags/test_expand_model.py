"""Names of models as users write them, and the model that is used if nothing names one."""

from __future__ import annotations

import pytest
import trio

from engine.cli.flags.default_model import find_default_model, keyed_defaults, local_default
from engine.cli.flags.expand_model import expand_model
from engine.config.config import Config, HostConfig, ModelConfig
from engine.core.errors import UnknownModel
from engine.providers.models.model_names import match_names, nearest_names
from tests.support.fault_server import FaultServer, response

NAMES = ("a/gpt-6", "b/gpt-6", "b/gpt-6-mini", "c/x/sonnet-5", "c/x/claude-sonnet-5-5")
OPENAI = {"OPENAI_API_KEY": "k"}
# Characters of a line in a terminal (cli W8).
MAX_LINE = 100


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("b/gpt-6", ("b/gpt-6",)),
        ("GPT-6-mini", ("b/gpt-6-mini",)),
        ("gpt-6", ("a/gpt-6", "b/gpt-6")),
        ("sonnet-5", ("c/x/sonnet-5",)),
        ("sonnet-5-5", ("c/x/claude-sonnet-5-5",)),
        ("mini", ("b/gpt-6-mini",)),
        ("sonnet", ("c/x/sonnet-5", "c/x/claude-sonnet-5-5")),
        ("opus", ()),
    ],
)
def test_names_match_as_closely_as_they_can(name: str, matches: tuple[str, ...]) -> None:
    assert match_names(name, NAMES) == matches


def test_nearest_names_are_those_most_alike() -> None:
    assert nearest_names("gtp-6", NAMES, 2) == ("a/gpt-6", "b/gpt-6")
    assert nearest_names("zzzzzz", NAMES) == ()


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("openai/gpt-99-not-listed", "openai/gpt-99-not-listed"),
        ("local:model.gguf", "local:model.gguf"),
        ("openai", "openai/gpt-6.1-terra"),
        ("openai/", "openai/gpt-6.1-terra"),
        ("moonshot", "moonshot/kimi-k2.5"),
        ("gpt-6.1-terra", "openai/gpt-6.1-terra"),
        ("6.1-terra", "openai/gpt-6.1-terra"),
    ],
)
def test_a_name_that_means_one_model(name: str, full: str) -> None:
    assert expand_model(name, OPENAI, Config()) == full


def test_a_name_of_several_models_lists_them() -> None:
    with pytest.raises(
        UnknownModel, match=r"^Several models match 'gpt-6': openai/gpt-6.*\nNext: write more of the name"
    ):
        expand_model("gpt-6", OPENAI, Config())


def test_a_wrong_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownModel, match=r"^No model is called 'gpt-6.1-tera'. Nearest: openai/gpt-6.1-terra, "):
        expand_model("gpt-6.1-tera", OPENAI, Config())
    with pytest.raises(UnknownModel, match=r"^No model is called '§§§§'\nNext: engine models$"):
        expand_model("§§§§", OPENAI, Config())


@pytest.mark.parametrize(
    ("env", "config", "lines"),
    [
        (
            {**OPENAI, "MISTRAL_API_KEY": "k"},
            Config(),
            "Using openai/gpt-6.1-terra (found OPENAI_API_KEY)\nTo keep it: engine config set defaults.model openai/gpt-6.1-terra",
        ),
        (
            {"MOONSHOT_API_KEY": "k"},
            Config(),
            "Using moonshot/kimi-k2.5 (found MOONSHOT_API_KEY)\nTo keep it: engine config set defaults.model moonshot/kimi-k2.5",
        ),
        (
            {"LAB_KEY": "k"},
            Config(
                hosts={"lab": HostConfig(like="openai-chat", base_url="https://lab.example", key="LAB_KEY")},
                models={"lab/m": ModelConfig(context=1_000)},
            ),
            "Using lab/m (found LAB_KEY)\nTo keep it: engine config set defaults.model lab/m",
        ),
    ],
)
def test_first_provider_with_a_key_is_used(env: dict[str, str], config: Config, lines: str) -> None:
    found = find_default_model(env, config)
    assert found is not None
    assert f"{found.line}\n{found.advice}" == lines
    assert max(map(len, lines.splitlines())) <= MAX_LINE


def test_keys_are_found_in_the_fixed_order() -> None:
    env = {"GROQ_API_KEY": "k", "XAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    found = [model.found for model in keyed_defaults(env, Config())]
    assert found == ["ANTHROPIC_API_KEY", "XAI_API_KEY", "GROQ_API_KEY"]


def _nowhere(**places: str) -> dict[str, str]:
    names = ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM", "LITELLM")
    return {f"{name}_BASE_URL": "http://127.0.0.1:1/v1" for name in names} | places


async def test_server_on_this_machine_comes_last() -> None:
    names = [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}]
    server = FaultServer(response(200, {"data": names}))
    async with server.run() as port:
        env = _nowhere(VLLM_BASE_URL=f"http://127.0.0.1:{port}/v1")
        found = await local_default(env, Config(), timeout=30)
    assert found is not None
    assert (found.name, found.found) == ("vllm/qwen3:8b", "vLLM at 127.0.0.1")


async def test_silent_servers_cost_no_more_than_their_time() -> None:
    server = FaultServer(is_silent=True)
    async with server.run() as port:
        began = trio.current_time()
        assert await local_default(_nowhere(OLLAMA_BASE_URL=f"http://127.0.0.1:{port}/v1"), Config()) is None
        assert trio.current_time() - began < 10
        assert server.asked <= 1


async def test_servers_elsewhere_are_not_asked() -> None:
    assert await local_default(_nowhere(OLLAMA_BASE_URL="http://models.example/v1"), Config()) is None
