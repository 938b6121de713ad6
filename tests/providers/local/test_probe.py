"""Limits of local servers, queried from real servers on the loopback."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio

from engine.config.config import Config, HostConfig, ModelConfig, Prices
from engine.core.errors import ContextOverflow
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.auth.auth import KeyAuth, NoAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.local import probe as asking
from engine.providers.local.probe import list_models
from engine.providers.local.probe_parsing import ProbeRequest, ServerLimits, apply_limits, parse_limits, probe_requests
from engine.providers.registry import resolve
from tests.support.json_server import Hang, JsonServer

VARIABLES = {
    "ollama": "OLLAMA_HOST",
    "llamacpp": "LLAMACPP_BASE_URL",
    "lmstudio": "LMSTUDIO_BASE_URL",
    "vllm": "VLLM_BASE_URL",
    "litellm": "LITELLM_BASE_URL",
}


async def learn(
    nursery: trio.Nursery, server: JsonServer, name: str, config: Config | None = None, **env: str
) -> ModelInfo:
    url = await nursery.start(server.serve)
    model = resolve(name, {VARIABLES[name.partition("/")[0]]: url, **env}, config)
    assert isinstance(model, HttpModel)
    await model.learn()
    await model.aclose()
    await server.wait_closed()
    return model.info


QWEN_SHOWN = {"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960}}
RUNNING = {"models": [{"name": "other:latest", "model": "other:latest", "context_length": 2_048}]}


@pytest.mark.parametrize(
    ("name", "routes", "expected"),
    [
        (
            "ollama/qwen3",
            {"GET /api/ps": {"models": [{"name": "qwen3:latest", "context_length": 16_384}]}, "POST /api/show": QWEN_SHOWN},
            (16_384, 8_192, True),
        ),
        (
            "ollama/hf.co/unsloth/qwen3:q4",
            {"GET /api/ps": {"models": [{"model": "hf.co/unsloth/qwen3:q4", "context_length": 65_536}]}},
            (65_536, 8_192, True),
        ),
        (
            "ollama/qwen3",
            {"GET /api/ps": RUNNING, "POST /api/show": {**QWEN_SHOWN, "parameters": "stop x\nnum_ctx      12288\n"}},
            (12_288, 6_144, True),
        ),
        # The model could hold 40,960 tokens; what it is loaded with depends on the graphics card.
        ("ollama/qwen3", {"GET /api/ps": RUNNING, "POST /api/show": QWEN_SHOWN}, (8_192, 2_048, False)),
        # An Ollama that does not tell.
        ("ollama/qwen3", {"GET /api/ps": {"models": [{"name": "qwen3:latest"}]}}, (8_192, 2_048, False)),
        (
            "llamacpp/any",
            {"GET /props?model=any": {"default_generation_settings": {"n_ctx": 4_096}, "total_slots": 3}},
            (4_096, 2_048, True),
        ),
        (
            "lmstudio/qwen/qwen3-8b",
            {
                "GET /api/v0/models": {
                    "data": [
                        {"id": "qwen/qwen3-8b", "state": "not-loaded", "max_context_length": 131_072},
                        {"id": "qwen/qwen3-8b", "state": "loaded", "loaded_context_length": 16_384},
                    ]
                }
            },
            (16_384, 8_192, True),
        ),
        (
            "lmstudio/qwen/qwen3-8b",
            {"GET /api/v0/models": {"data": [{"id": "qwen/qwen3-8b", "state": "not-loaded", "max_context_length": 131_072}]}},
            (8_192, 2_048, False),
        ),
        (
            "vllm/Qwen/Qwen3-8B",
            {"GET /v1/models": {"data": [{"id": "lora"}, {"id": "Qwen/Qwen3-8B", "max_model_len": 32_768}]}},
            (32_768, 8_192, True),
        ),
        ("vllm/Qwen/Qwen3-8B", {"GET /v1/models": {"data": [{"id": "other", "max_model_len": 1}]}}, (8_192, 2_048, False)),
        (
            "litellm/gpt-5.2",
            {
                "GET /model/info": {
                    "data": [
                        {"model_name": "gpt-5.2", "model_info": {"max_input_tokens": 272_000, "max_output_tokens": 128_000}}
                    ]
                }
            },
            (272_000, 128_000, True),
        ),
    ],
)  # fmt: skip
async def test_server_reports_its_window(
    name: str, routes: Mapping[str, object], expected: tuple[int, int, bool], nursery: trio.Nursery
) -> None:
    info = await learn(nursery, JsonServer(routes), name)
    assert (info.context, info.output, info.is_known) == expected
    assert info.name == name


@pytest.mark.parametrize("name", ["ollama/qwen3", "llamacpp/any", "lmstudio/x", "vllm/x", "litellm/x"])
@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"data": 3}', b'{"data": [[]], "models": [1]}'])
async def test_nonsense_is_ignored(name: str, answer: bytes, nursery: trio.Nursery) -> None:
    paths = (
        "GET /api/ps",
        "POST /api/show",
        "GET /props?model=any",
        "GET /api/v0/models",
        "GET /v1/models",
        "GET /model/info",
    )
    info = await learn(nursery, JsonServer(dict.fromkeys(paths, answer)), name)
    assert (info.context, info.output, info.is_known) == (8_192, 2_048, False)


@pytest.mark.parametrize("value", [0, -1, "8192", 1.5, True, None])
async def test_invalid_window_is_ignored(value: object, nursery: trio.Nursery) -> None:
    info = await learn(
        nursery, JsonServer({"GET /v1/models": {"data": [{"id": "x", "max_model_len": value}]}}), "vllm/x"
    )
    assert (info.context, info.is_known) == (8_192, False)


async def test_slots_limit_concurrent_requests(nursery: trio.Nursery) -> None:
    props = {"default_generation_settings": {"n_ctx": 4_096}, "total_slots": 3}
    assert (await learn(nursery, JsonServer({"GET /props?model=any": props}), "llamacpp/any")).parallel == 3


async def test_proxy_reports_its_prices(nursery: trio.Nursery) -> None:
    row = {"max_input_tokens": 1_000, "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05}
    routes = {"GET /model/info": {"data": [{"model_name": "m", "model_info": row}]}}
    info = await learn(nursery, JsonServer(routes), "litellm/m")
    assert (info.price_input, info.price_output, info.price_cache_read) == pytest.approx((2.0, 10.0, 2.0))
    config = Config(models={"litellm/m": ModelConfig(prices=Prices(input=7.0, output=8.0))})
    info = await learn(nursery, JsonServer(routes), "litellm/m", config)
    assert (info.price_input, info.price_output, info.context) == (7.0, 8.0, 1_000)


async def test_configured_limits_are_not_probed(nursery: trio.Nursery) -> None:
    server = JsonServer({"GET /v1/models": {"data": [{"id": "x", "max_model_len": 1}]}})
    config = Config(models={"vllm/x": ModelConfig(context=50_000)})
    assert (await learn(nursery, server, "vllm/x", config)).context == 50_000
    assert server.requests == []


async def test_key_is_sent_if_present(nursery: trio.Nursery) -> None:
    server = JsonServer({"GET /v1/models": {"data": [{"id": "x", "max_model_len": 9_000}]}}, key="k")
    assert (await learn(nursery, server, "vllm/x", VLLM_API_KEY="k")).context == 9_000
    assert [request.headers.get("authorization") for request in server.requests] == ["Bearer k"]
    server = JsonServer({"GET /v1/models": {"data": [{"id": "x", "max_model_len": 9_000}]}}, key="k")
    assert not (await learn(nursery, server, "vllm/x")).is_known


async def test_a_derived_server_is_probed_like_its_base(nursery: trio.Nursery) -> None:
    server = JsonServer({"GET /v1/models": {"data": [{"id": "x", "max_model_len": 9_000}]}})
    url = await nursery.start(server.serve)
    model = resolve("gpu2/x", {}, Config(hosts={"gpu2": HostConfig(like="vllm", base_url=url)}))
    assert isinstance(model, HttpModel)
    assert (await model.learn()).context == 9_000


async def test_a_remote_host_is_not_probed() -> None:
    model = resolve(
        "anthropic/claude-sonnet-99x", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    )
    assert isinstance(model, HttpModel)
    assert not (await model.learn()).is_known


async def test_no_server() -> None:
    with trio.fail_after(30):
        model = resolve("ollama/qwen3", {"OLLAMA_HOST": "127.0.0.1:9"})
        assert isinstance(model, HttpModel)
        assert not (await model.learn()).is_known


@pytest.mark.slow
async def test_hanging_server_delays_nothing(nursery: trio.Nursery) -> None:
    """What it said before counts."""
    ps = {"models": [{"name": "qwen3:latest", "context_length": 16_384}]}
    started = trio.current_time()
    info = await learn(nursery, JsonServer({"GET /api/ps": ps, "POST /api/show": Hang()}), "ollama/qwen3")
    assert info.context == 16_384
    assert 1.9 < trio.current_time() - started < 30


async def test_cancelled_probe_leaves_nothing(nursery: trio.Nursery) -> None:
    server = JsonServer({"GET /v1/models": Hang()})
    url = await nursery.start(server.serve)
    model = resolve("vllm/x", {"VLLM_BASE_URL": url})
    assert isinstance(model, HttpModel)
    before = model.info
    with trio.fail_after(30):
        async with trio.open_nursery() as probing:
            probing.start_soon(model.learn)
            while not server.requests:
                await trio.sleep(0.001)
            probing.cancel_scope.cancel(reason="the request is on its way")
    assert model.info == before
    with trio.fail_after(30):
        await server.wait_closed()


# -- which models there are --------------------------------------------------------------------


async def test_a_server_names_its_models(nursery: trio.Nursery) -> None:
    routes = {"GET /v1/models": {"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}, {}]}}
    url = await nursery.start(JsonServer(routes).serve)
    assert await list_models(Endpoint(base_url=f"{url}/v1", auth=NoAuth()), 5) == ("a", "b")


async def test_a_server_that_requires_a_key_is_available(nursery: trio.Nursery) -> None:
    url = await nursery.start(JsonServer({}, key="k").serve)
    assert await list_models(Endpoint(base_url=f"{url}/v1", auth=KeyAuth("authorization", "other", "Bearer")), 5) == ()


async def test_missing_or_hanging_server_is_none(nursery: trio.Nursery) -> None:
    assert await list_models(Endpoint(base_url="http://127.0.0.1:9/v1", auth=NoAuth()), 5) is None
    url = await nursery.start(JsonServer({"GET /v1/models": Hang()}).serve)
    assert await list_models(Endpoint(base_url=f"{url}/v1", auth=NoAuth()), 0.05) is None


# -- pure --------------------------------------------------------------------------------------


def test_other_hosts_are_not_probed() -> None:
    assert probe_requests("", "m") == ()
    assert parse_limits("", "m", ()) == ServerLimits()


def test_a_name_is_quoted() -> None:
    assert probe_requests("llamacpp", "a/b c&d") == (ProbeRequest("GET", "/props?model=a%2Fb%20c%26d"),)


def test_unreported_limits_stay() -> None:
    info = ModelInfo(name="a/b", context=5, output=3, is_known=False, parallel=None, price_input=1.0)
    assert apply_limits(info, ServerLimits()) == info
    assert apply_limits(info, ServerLimits(parallel=4, prices={"price_input": 9.0})) == info
    assert apply_limits(info, ServerLimits(context=1)) == attrs.evolve(info, context=1, output=1, is_known=True)


async def test_a_large_answer_is_left(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_MAX_RESPONSE_BYTES", 1_000_000)
    listed = {"data": [{"id": "m", "max_model_len": 4_096, "x": "y" * 100}]}
    assert (await learn(nursery, JsonServer({"GET /v1/models": listed}), "vllm/m")).context == 4_096
    large = JsonServer({"GET /v1/models": {**listed, "more": "z" * 20_000_000}})
    assert not (await learn(nursery, large, "vllm/m")).is_known


async def test_no_compressed_response_is_requested(nursery: trio.Nursery) -> None:
    server = JsonServer({})
    await learn(nursery, server, "vllm/m")
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


async def test_an_invalid_proxy_counts_as_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for an answer says what is wrong with it."""
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1")
    endpoint = Endpoint(base_url="http://gpu.example/v1", auth=NoAuth())
    assert await list_models(endpoint, 0.5) is None


ANSWER = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}


async def ask(model: HttpModel) -> None:
    message = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hi"),))
    stream = await model.open(ModelRequest(model=model.info.name, system="", transcript=Transcript([message])))
    try:
        while await stream.receive():
            pass
    finally:
        await stream.aclose()


async def test_window_is_learned_after_first_answer(nursery: trio.Nursery) -> None:
    """A fresh Ollama: the model is loaded by the first request, and listed only then."""
    routes: dict[str, object] = {"GET /api/ps": {"models": []}, "POST /v1/chat/completions": ANSWER}
    server = JsonServer(routes)
    model = resolve("ollama/qwen3", {"OLLAMA_HOST": await nursery.start(server.serve)}, None)
    assert isinstance(model, HttpModel)
    await model.learn()
    await ask(model)
    assert not model.info.is_known
    routes["GET /api/ps"] = {"models": [{"name": "qwen3:latest", "context_length": 65_536}]}
    await ask(model)
    assert (model.info.context, model.info.is_known) == (65_536, True)
    await model.aclose()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.", 4_096),
        ("request (26221 tokens) exceeds the available context size (8192 tokens), try increasing it", 8_192),
        (
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            4_096,
        ),
    ],
)
async def test_window_is_learned_from_a_refusal(message: str, window: int, nursery: trio.Nursery) -> None:
    server = JsonServer({"POST /v1/chat/completions": {"error": {"message": message, "code": 400}}})
    model = resolve("lmstudio/any", {"LMSTUDIO_BASE_URL": await nursery.start(server.serve)}, None)
    assert isinstance(model, HttpModel)
    with pytest.raises(ContextOverflow):
        await ask(model)
    assert (model.info.context, model.info.is_known) == (window, True)
    await model.aclose()
    await server.wait_closed()
