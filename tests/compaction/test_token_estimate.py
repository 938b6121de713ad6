"""How full the window is: estimates, counts of hosts, what media take (T7)."""

from __future__ import annotations

import base64
import json
import struct
from functools import partial

import attrs
import pytest
import trio

from engine.compaction.compaction_policy import Keeper
from engine.compaction.media_tokens import image_tokens, media_tokens
from engine.compaction.token_counter import TokenCounter
from engine.compaction.token_estimate import WindowEstimate, text_tokens
from engine.core.llm_types import ModelInfo
from engine.core.messages import FilePart, ImagePart, ProviderPart, Transcript, Usage
from engine.core.protocols import ContextView
from tests.support.histories import answers, exchange, says, view, words

LARGE = ModelInfo(name="host/large", context=200_000, output=64_000)


def png(width: int, height: int) -> ImagePart:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return ImagePart(media_type="image/png", data=base64.b64encode(head + b"\x00" * 40).decode())


def wants(view_: ContextView) -> bool:
    return Keeper().wants_compaction(view_)


def counted(usage: Usage, info: ModelInfo = LARGE) -> ContextView:
    """A view after a request of which the host has counted *usage*."""
    sent = Transcript([says(words(usage.prompt))])
    return ContextView(
        transcript=sent.append(answers("It is so.")), counted=sent, last_usage=usage, model=info, max_output=8_192
    )


# -- what a text takes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        pytest.param("The quick brown fox jumps over the lazy dog. " * 100, 900, 1_300, id="prose"),
        pytest.param("def f(x):\n    return [y for y in x if y]\n" * 100, 900, 1_700, id="code"),
        pytest.param(
            json.dumps([{"id": n, "v": n * 7} for n in range(300)], separators=(",", ":")), 1_700, 3_500, id="json"
        ),
        pytest.param(base64.b64encode(bytes(range(256)) * 12).decode(), 2_000, 3_500, id="base64"),
        pytest.param(" ".join(f"{n * 7919 % 65536:04x}" for n in range(1_000)), 1_800, 3_000, id="a dump"),
        pytest.param("\n".join(f"{n * 7919 % 99991},{n * 31 % 997}" for n in range(500)), 1_900, 3_000, id="a table"),
        pytest.param(
            "\n".join(f"2026-11-19T01:51:{n % 60}.{n}Z INFO 10.0.0.{n} GET /v1/{n * 37} 200" for n in range(100)),
            1_900,
            3_200,
            id="a log",
        ),
        pytest.param("敏捷的棕色狐狸跳过了懒狗。" * 100, 900, 1_900, id="Chinese"),
        pytest.param("日本語のテキストはこのように書かれます。" * 60, 800, 1_700, id="Japanese"),
        pytest.param("Съешь же ещё этих мягких французских булок. " * 60, 900, 1_800, id="Russian"),
        pytest.param("Tiếng Việt có nhiều dấu thanh và chữ cái riêng. " * 60, 800, 1_500, id="Vietnamese"),
        pytest.param("🦊🐶🌳" * 300, 900, 2_500, id="emoji"),
        pytest.param("half \ud83d of a pair " * 100, 400, 900, id="a lone surrogate"),
        pytest.param("", 0, 0, id="nothing"),
    ],
)
def test_t7_an_estimate_is_sane_for(text: str, least: int, most: int) -> None:
    assert least <= text_tokens(text) <= most


def test_t7_long_text_is_sampled() -> None:
    text = words(200_000)
    assert text_tokens(text) == pytest.approx(200_000, rel=0.05)
    mixed = words(50_000) + "漢字" * 100_000
    assert text_tokens(mixed) == pytest.approx(50_000 + 210_000, rel=0.2)


# -- what is usable ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "max_output", "reserve", "usable"),
    [
        pytest.param(200_000, 8_192, None, 180_000, id="large"),
        pytest.param(200_000, 64_000, None, 136_000, id="long answers"),
        pytest.param(8_192, 8_192, None, 4_096, id="an answer may fill the window"),
        pytest.param(32_000, 4_000, None, 28_000, id="small"),
        pytest.param(200_000, 8_192, 50_000, 150_000, id="as configured"),
        pytest.param(1, 1, None, 1, id="no window at all"),
    ],
)
def test_t7_something_of_every_window_is_usable(
    context: int, max_output: int, reserve: int | None, usable: int
) -> None:
    info = ModelInfo(name="m", context=context, output=max_output)
    assert WindowEstimate.of(info, max_output, reserve) == WindowEstimate(context, usable)


def test_t7_cached_tokens_count() -> None:
    assert wants(counted(Usage(input=10_000, cache_read=180_000)))
    assert not wants(counted(Usage(input=10_000, cache_read=100_000)))


def test_t7_decision_depends_on_totals_only() -> None:
    for whole in (150_000, 179_000, 179_999, 180_001, 190_000):
        parted = Usage(input=whole - 100_000, cache_read=60_000, cache_write=40_000)
        assert wants(counted(Usage(input=whole))) == wants(counted(parted))


def test_t7_oversized_result_is_noticed_before_the_request() -> None:
    steps = exchange(1, "read", words(150_000))
    sent = Transcript([says(words(100_000)), steps[0]])
    now = ContextView(
        transcript=sent.append(steps[1]),
        counted=Transcript([says(words(100_000))]),
        last_usage=Usage(input=100_000),
        model=LARGE,
        max_output=8_192,
    )
    assert wants(now)


def test_t7_output_counts_as_well() -> None:
    sent = Transcript([says("go")])
    now = ContextView(
        transcript=sent.append(answers("short")),
        counted=sent,
        last_usage=Usage(input=6, output=5_000),
        model=LARGE,
    )
    assert TokenCounter().tokens(now) >= 5_006


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_t7_host_counts_correct_the_estimate() -> None:
    gauge = TokenCounter()
    sent = Transcript([says(words(10_000))])
    seen = ContextView(transcript=sent.append(answers("ok")), counted=sent, last_usage=Usage(input=15_000), model=LARGE)
    gauge.tokens(seen)
    assert gauge.ratio(LARGE.name) == pytest.approx(1.5, rel=0.02)
    fresh = view([says(words(10_000))], info=LARGE)
    assert gauge.tokens(fresh) == pytest.approx(15_000, rel=0.02), "also where nothing was counted yet"
    assert gauge.ratio("another/model") == 1.0


@pytest.mark.parametrize("usage", [Usage(), Usage(input=3), Usage(input=9_000_000)], ids=["none", "tiny", "huge"])
def test_t7_missing_or_invalid_counts_are_estimated(usage: Usage) -> None:
    gauge = TokenCounter()
    sent = Transcript([says(words(50_000))])
    seen = ContextView(transcript=sent.append(answers("ok")), counted=sent, last_usage=usage, model=LARGE)
    assert gauge.tokens(seen) == pytest.approx(50_010, rel=0.01)
    assert not gauge.is_exact(seen)


def test_t7_hosted_tool_tokens_are_not_counted() -> None:
    gauge = TokenCounter()
    sent = Transcript([says(words(10_000))])
    item = ProviderPart(id=answers("x").parts[0].id, kind="web_search", data="{}")
    answer = answers("found")
    seen = ContextView(
        transcript=sent.append(type(answer)(id=answer.id, parts=(item, *answer.parts), model="m")),
        counted=sent,
        last_usage=Usage(input=40_000),
        model=LARGE,
    )
    assert not gauge.is_exact(seen)
    assert gauge.tokens(seen) < 11_000


def test_t7_rejected_request_raises_the_estimate() -> None:
    gauge = TokenCounter()
    refused = view([says(words(100_000))], info=LARGE)
    gauge.reject(refused)
    assert gauge.tokens(refused) >= 199_000


def test_t7_shrinking_host_counts_are_ignored() -> None:
    gauge = TokenCounter()
    first = Transcript([says(words(10_000))])
    one = first.append(answers("ok"))
    gauge.tokens(ContextView(transcript=one, counted=first, last_usage=Usage(input=10_000), model=LARGE))
    more = one.append(says(words(2_000), id="u2"))
    # All but this was in the host's cache, and it tells only what was not.
    seen = ContextView(
        transcript=more.append(answers("so")), counted=more, last_usage=Usage(input=4_000, output=1), model=LARGE
    )
    assert not gauge.is_exact(seen)
    assert gauge.tokens(seen) == pytest.approx(12_000, rel=0.02)
    assert gauge.ratio(LARGE.name) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not counted"])
def test_t7_smaller_window_is_learned_from_rejection(counts: bool) -> None:
    keeper = Keeper()
    sent = Transcript([says(words(30_000))])
    now = sent.append(answers("ok"))
    usage = Usage(input=30_000) if counts else Usage()
    seen = ContextView(transcript=now, counted=sent, last_usage=usage, model=LARGE, max_output=3_000)
    refused = attrs.evolve(seen, failure="overflow")
    assert not keeper.wants_compaction(seen)
    assert trio.run(partial(keeper.collapse, refused, forced=True)) is None
    assert 29_000 < keeper.report(seen).context < 31_000
    assert keeper.wants_compaction(seen), "the next time it is foreseen"
    other = attrs.evolve(seen, model=attrs.evolve(LARGE, name="host/other"))
    assert not keeper.wants_compaction(other)
    assert keeper.report(other).context == 200_000
    grown = now.append(says(words(40_000), id="u2"))
    taken = attrs.evolve(
        seen, transcript=grown.append(answers("so")), counted=grown, last_usage=Usage(input=70_000, output=3)
    )
    assert keeper.report(taken).context == 200_000, "it has taken more than that meanwhile"


def test_t7_image_bytes_may_explain_a_rejection() -> None:
    gauge = TokenCounter()
    gauge.reject(view([says("look", media=[png(9, 9)])], info=LARGE))
    assert (gauge.window(LARGE), gauge.ratio(LARGE.name)) == (LARGE, 1.0)


def test_t7_models_are_measured_separately() -> None:
    gauge = TokenCounter()
    sent = Transcript([says(words(10_000))])
    for name, exact in (("a/one", 8_000), ("b/two", 20_000)):
        info = ModelInfo(name=name)
        gauge.tokens(
            ContextView(transcript=Transcript(sent).append(answers("ok")), counted=None, last_usage=Usage(), model=info)
        )
        own = Transcript(sent)
        gauge.tokens(
            ContextView(transcript=own.append(answers("ok")), counted=own, last_usage=Usage(input=exact), model=info)
        )
    assert gauge.ratio("a/one") == pytest.approx(0.8, rel=0.02)
    assert gauge.ratio("b/two") == pytest.approx(2.0, rel=0.02)


# -- media -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "sizes", "tokens"),
    [
        ("anthropic/claude-sonnet-4-5", (1_000, 1_000), 1_334),
        ("anthropic/claude-sonnet-4-5", (200, 200), 54),
        ("anthropic/claude-sonnet-4-5", (8_000, 8_000), 1_600),
        ("openai/gpt-4o", (512, 512), 255),
        ("openai/gpt-4o", (1_024, 1_024), 765),
        ("google/gemini-2.5-pro", (300, 300), 258),
        ("google/gemini-2.5-pro", (1_536, 800), 1_032),
        ("anthropic/claude-sonnet-4-5", None, 1_600),
    ],
)
def test_t7_images_are_counted_by_the_hosts_rules(model: str, sizes: tuple[int, int] | None, tokens: int) -> None:
    assert image_tokens(sizes, model) == tokens


JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF"
    + b"\x00" * 10
    + b"\xff\xc0\x00\x11\x08"
    + struct.pack(">HH", 480, 640)
    + b"\x03"
    + b"\x00" * 12
)
WEBP = (
    b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"
    + (639).to_bytes(3, "little")
    + (479).to_bytes(3, "little")
)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\x00" * 10


@pytest.mark.parametrize("data", [JPEG, WEBP, GIF], ids=["jpeg", "webp", "gif"])
def test_t7_the_sizes_of_an_image_are_read(data: bytes) -> None:
    part = ImagePart(media_type="image/x", data=base64.b64encode(data).decode())
    assert media_tokens(part, "anthropic/claude") == image_tokens((640, 480), "anthropic/claude")


@pytest.mark.parametrize("data", ["", "not base64!", "aGk=", "/9j/", "UklGRgAAAABXRUJQ"])
def test_t7_unreadable_image_counts_as_large(data: str) -> None:
    assert media_tokens(ImagePart(media_type="image/png", data=data), "m") == 1_600


def test_t7_a_document_is_counted_by_its_pages() -> None:
    pdf = b"%PDF-1.4 " + b"<< /Type /Pages >> " + b"<< /Type /Page >> " * 3
    part = FilePart(media_type="application/pdf", data=base64.b64encode(pdf).decode())
    assert media_tokens(part, "anthropic/claude") == 3 * 2_250
    assert media_tokens(part, "google/gemini-2.5-pro") == 3 * 258
    large = FilePart(media_type="application/pdf", data=base64.b64encode(b"%PDF" + b"\0" * 6_000_000).decode())
    assert media_tokens(large, "anthropic/claude") == 100 * 2_250
    assert media_tokens(FilePart(media_type="audio/wav", data="A" * 64_000), "google/gemini") == 96


LOSSLESS = b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + (639 | 479 << 14).to_bytes(4, "little") + b"\x00" * 8
LOSSY = (
    b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 640, 480) + b"\x00" * 8
)


@pytest.mark.parametrize("data", [LOSSLESS, LOSSY], ids=["lossless", "lossy"])
def test_t7_every_kind_of_webp_is_read(data: bytes) -> None:
    part = ImagePart(media_type="image/webp", data=base64.b64encode(data).decode())
    assert media_tokens(part, "anthropic/claude") == 410


def test_t7_other_files_are_counted_as_texts() -> None:
    assert media_tokens(FilePart(media_type="application/zip", data="A" * 4_000), "m") == 750
    unknown = b"RIFF\x00\x00\x00\x00WEBPXXXX" + b"\x00" * 30
    assert media_tokens(ImagePart(media_type="image/webp", data=base64.b64encode(unknown).decode()), "m") == 1_600
