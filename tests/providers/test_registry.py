from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio

from engine.config.config import Config, HostConfig, ModelConfig, Prices
from engine.core.errors import ConfigError, ProviderError, UnknownModel
from engine.core.llm_types import ModelOptions, ModelRequest
from engine.core.messages import Transcript
from engine.providers.auth.auth import ExtraHeadersAuth, KeyAuth, NoAuth
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.http.endpoint import Endpoint
from engine.providers.registry import resolve, split_name, unusable_reason
from tests.support.json_server import JsonServer
from tests.support.transcripts import model_message, result, results, tool_call, user_message

CANARY = "sk-ant-canary-3141592653589793"
ENV = {"ANTHROPIC_API_KEY": CANARY}
LAB = Config(
    hosts={
        "lab": HostConfig(base_url="http://gpu.lab:8000", wire="anthropic", key="LAB_KEY", parallel=2),
        "gpu2": HostConfig(like="ollama", base_url="http://gpu2:11434/v1"),
        "anthropic": HostConfig(base_url="https://gateway.example/anthropic/v1", headers={"x-team": "$TEAM_TOKEN"}),
    },
    models={
        "lab/mine": ModelConfig(
            same_as="anthropic/claude-opus-4-8",
            context=100_000,
            prices=Prices(input=1.0, output=2.0),
            options=ModelOptions(effort="high"),
        )
    },
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody/model", "write host/model, for example anthropic/"),
        ("antropic/claude-sonnet-4-5", "did you mean anthropic"),
        ("open-router/gpt-5", "did you mean openrouter"),
        ("model", "`engine models` lists the hosts"),
        ("open-router/gpt-5", "did you mean openrouter?"),
        ("bedrock/..", "a part of it is '.' or '..'"),
        ("google/../../x", "a part of it is '.' or '..'"),
        ("openrouter/a/./b", "a part of it is '.' or '..'"),
        ("", "write host/model"),
        ("anthropic", "anthropic is a host; add a model's name, for example anthropic/claude-sonnet-4-5"),
        ("anthropic/", "anthropic is a host"),
        ("claude-sonnet-4-5", "did you mean anthropic/claude-sonnet-4-5"),
        ("gpt-5.2", "did you mean openai/gpt-5.2"),
        ("gemini-3-pro", "did you mean google/"),
        ("grok-4", "did you mean xai/"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(name: str, words: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve(name, ENV)
    assert words in str(caught.value)


def test_a_model_s_own_name_may_have_slashes() -> None:
    host, own_name = split_name("openrouter/anthropic/claude-sonnet-4.5:beta", Config())
    assert (host.name, own_name) == ("openrouter", "anthropic/claude-sonnet-4.5:beta")


def test_a_compatible_host_may_have_other_models() -> None:
    env = {**ENV, "ANTHROPIC_BASE_URL": "https://models.example/anthropic/"}
    assert repr(resolve("anthropic/other-model", env)) == "<HttpModel 'anthropic/other-model' at models.example>"


@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": " \n"}])
def test_a_missing_key_is_named(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="no key for anthropic: set the environment variable ANTHROPIC_API_KEY"):
        resolve("anthropic/claude-sonnet-4-5", env)


@pytest.mark.parametrize("key", [f"{CANARY}\nx-other: 1", f"{CANARY}é", f"{CANARY} x", f"{CANARY}\0"])
def test_an_invalid_key_is_refused_but_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY") as caught:
        resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": key})
    assert CANARY not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    model = resolve(
        "anthropic/claude-sonnet-4-5", {**ENV, "ANTHROPIC_BASE_URL": f"https://user:{CANARY}@models.example"}
    )
    assert CANARY not in repr(model)
    assert CANARY not in "".join(repr(value) for value in vars(model).values())


# -- the configuration -----------------------------------------------------------------------


def test_a_host_of_the_user_s_own() -> None:
    model = resolve("lab/mine", {"LAB_KEY": "k"}, LAB)
    info = model.info
    assert repr(model) == "<HttpModel 'lab/mine' at gpu.lab>"
    assert (info.host, info.parallel, info.context, info.output) == ("lab", 2, 100_000, 50_000)
    assert (info.price_input, info.price_output, info.price_cache_read) == (1.0, 2.0, 1.0)
    assert info.options == ModelOptions(effort="high")


def test_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match="no key for lab: set the environment variable LAB_KEY"):
        resolve("lab/mine", {}, LAB)


def test_the_configured_address_goes_before_the_environment_s() -> None:
    env = {**ENV, "ANTHROPIC_BASE_URL": "https://elsewhere.example", "TEAM_TOKEN": "t"}
    assert repr(resolve("anthropic/claude-opus-5", env, LAB)).endswith("at gateway.example>")


def test_secret_headers_come_from_the_environment() -> None:
    model = resolve("anthropic/claude-opus-5", {**ENV, "TEAM_TOKEN": CANARY}, LAB)
    assert CANARY not in "".join(repr(value) for value in vars(model).values())
    with pytest.raises(ConfigError, match="TEAM_TOKEN is not set"):
        resolve("anthropic/claude-opus-5", ENV, LAB)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (HostConfig(wire="openai_chat"), "needs `base_url` and either"),
        (HostConfig(base_url="http://x"), "needs `base_url` and either `wire` or `like`"),
        (HostConfig(like="olama", base_url="http://x"), "did you mean ollama"),
        (HostConfig(like="ollama", quirks={"effortss": ()}), "unknown quirk 'effortss': did you mean efforts"),
        (HostConfig(like="ollama", quirks={"user_media": ("smell",)}), "must be one of 'image', 'pdf'"),
        (HostConfig(like="ollama", quirks={"strict_tools": 1}), "must be like False, not 1"),
        (HostConfig(like="ollama", quirks={"reasoning_field": "thoughts"}), "must be one of '', 'reasoning_content'"),
    ],
)
def test_a_host_that_can_t_be_is_refused(host: HostConfig, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        split_name("mine/model", Config(hosts={"mine": host}))
    assert words in str(caught.value)
    assert "host mine" in str(caught.value)


def test_derived_host_keeps_quirks_not_address() -> None:
    host, _ = split_name("gpu2/qwen3", LAB)
    ollama = BY_NAME["ollama"]
    assert (host.quirks, host.is_local, host.parallel) == (ollama.quirks, True, 1)
    assert (host.title, host.base_variables) == ("gpu2", ())


def test_overrides_change_nothing_else() -> None:
    config = Config(
        hosts={"ollama": HostConfig(parallel=0, quirks={"efforts": ("low",), "default_temperature": 0.5}, key="")}
    )
    host, _ = split_name("ollama/qwen3", config)
    listed = BY_NAME["ollama"]
    assert (host.parallel, host.auth) == (None, "none")
    assert (host.quirks.efforts, host.quirks.default_temperature) == (("low",), 0.5)
    assert (host.title, host.base_url, host.is_local) == (listed.title, listed.base_url, True)


def test_another_wire_format_has_other_quirks() -> None:
    host, _ = split_name("deepseek/x", Config(hosts={"deepseek": HostConfig(wire="anthropic")}))
    assert (host.wire, host.quirks.reasoning_always, host.key_variables) == ("anthropic", False, ("DEEPSEEK_API_KEY",))


@pytest.mark.parametrize(
    ("host", "env", "words"),
    [
        ("openai", {}, "set the environment variable OPENAI_API_KEY"),
        ("openai", {"OPENAI_API_KEY": "k"}, ""),
        ("google", {"GOOGLE_API_KEY": "k"}, ""),
        ("anthropic", {"ANTHROPIC_AUTH_TOKEN": "t"}, ""),
        ("azure", {"AZURE_OPENAI_API_KEY": "k"}, "AZURE_OPENAI_ENDPOINT or AZURE_OPENAI_RESOURCE"),
        ("azure", {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"}, ""),
        ("bedrock", {"AWS_BEARER_TOKEN_BEDROCK": "k"}, "AWS_REGION"),
        ("ollama", {}, ""),
    ],
)
def test_why_a_host_can_t_be_used(host: str, env: dict[str, str], words: str) -> None:
    why = unusable_reason(BY_NAME[host], env)
    assert words in why
    assert bool(why) == bool(words)


# -- what is imported --------------------------------------------------------------------------


def loaded_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


WIRES = {"anthropic", "openai_chat", "openai_responses", "gemini", "bedrock", "cohere"}


def wires_of(modules: set[str]) -> set[str]:
    return {name for name in WIRES if f"engine.providers.{name}.wire" in modules}


def test_httpx_and_formats_are_imported_on_use() -> None:
    requested = loaded_after(
        "from engine.providers.registry import unusable_reason\n"
        "from engine.providers.hosts.host_table import HOSTS\n"
        "[unusable_reason(host, {}) for host in HOSTS if host.auth != 'google']"
    )
    assert not requested & {"httpx", "engine.providers.http.http_model", "tomllib", "platformdirs"}
    assert wires_of(requested) == set()


@pytest.mark.parametrize("host", ["anthropic", "openai", "google", "openrouter", "cohere"])
def test_one_host_imports_one_format(host: str) -> None:
    env = dict.fromkeys(BY_NAME[host].key_variables, "x")
    used = loaded_after(f"from engine.providers.registry import resolve\nresolve('{host}/some-model', {env})")
    assert "httpx" in used
    assert wires_of(used) == {BY_NAME[host].wire}
    assert "asyncio" not in used


def test_hidden_key_is_masked_once() -> None:
    """A short key may be a part of the word that stands for it."""
    endpoint = Endpoint(base_url="http://x", auth=ExtraHeadersAuth(KeyAuth("k", "key"), {"a": "e/y"}))
    assert endpoint.redact("the key e/y, e%2Fy") == "the [key] [key], [key]"
    assert Endpoint(base_url="http://x", auth=NoAuth()).redact("the key") == "the key"


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("ollama/qwen3", {}, '""'),
        ("llamacpp/default", {}, '""'),
        ("openai-chat/any", {}, '""'),
        ("lab/any", {"wire": "openai_chat", "local": True}, '""'),
        ("lab/any", {"like": "vllm"}, '""'),
        ("lab/any", {"like": "vllm", "quirks": {"empty_content": False}}, "null"),
    ],
)
async def test_local_servers_get_empty_content(
    name: str, config: dict[str, Any], expected: str, nursery: trio.Nursery
) -> None:
    server = JsonServer({})
    url = await nursery.start(server.serve)
    host = name.partition("/")[0]
    overrides = HostConfig(base_url=f"{url}/v1", **config)
    model = resolve(name, {"OPENAI_API_KEY": "k"}, Config(hosts={host: overrides}))
    transcript = Transcript([user_message("hi"), model_message(tool_call(), model=name), results(result())])
    with pytest.raises(ProviderError):
        await model.open(ModelRequest(model=name, system="", transcript=transcript))
    assert f'"content":{expected}' in server.requests[-1].body.decode()
    await model.aclose()
    await server.wait_closed()


def test_makers_get_no_empty_content() -> None:
    assert [host.name for host in BY_NAME.values() if host.quirks.empty_content and not host.is_local] == [
        "ollama-cloud",
        "gpustack",
    ]


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        ("anthropic/claude-sonnet-4-5", None),
        ("anthropic/claude-opus-4-8", None),
        ("anthropic/claude-opus-5", "high"),
        ("anthropic/claude-opus-5-5", "medium"),
        ("bedrock/us.anthropic.claude-sonnet-5-5", "high"),
        ("openai/gpt-5.2", "medium"),
        ("openai-chat/gpt-5.2", None),
        ("openai-chat/o4-mini", "medium"),
        ("google/gemini-3.8-flash", "high"),
        ("google/gemini-2.5-flash-lite", "none"),
        ("deepseek/deepseek-v4-pro", "medium"),
        ("openrouter/x-ai/grok-4-fast", "medium"),
        ("ollama/qwen3:8b", "medium"),
        ("ollama/qwen3-coder", None),
        ("openai-chat/gpt-4.1", None),
    ],
)
def test_models_that_think_unasked(name: str, effort: str | None) -> None:
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY")
    aws = {"AWS_REGION": "us-east-1", "AWS_BEARER_TOKEN_BEDROCK": "k"}
    assert resolve(name, dict.fromkeys(keys, "k") | aws).info.unasked_effort == effort


@pytest.mark.parametrize(
    ("name", "variables", "defers"),
    [
        ("openai/gpt-5.4", {}, True),
        ("openai/gpt-5.6-mini", {}, True),
        ("openai/gpt-6.1", {}, True),
        ("openai/gpt-5.3", {}, False),
        ("openai/gpt-5.4-nano", {}, False),
        ("openai/gpt-5.4-pro", {}, False),
        ("openai/gpt-5.4", {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, False),
        ("openai-chat/gpt-5.4", {}, False),
        ("xai/gpt-5.4", {}, False),
        ("anthropic/claude-sonnet-4-5", {}, True),
        ("anthropic/claude-3-haiku", {}, False),
    ],
)
def test_models_that_take_deferred_tools(name: str, variables: dict[str, str], defers: bool) -> None:
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "XAI_API_KEY"), "k")
    info = resolve(name, keys | variables).info
    assert info.defers_tools is defers
    # Responses get the tools that were found, and no others.
    assert info.sends_deferred is not name.startswith(("openai/", "xai/"))
