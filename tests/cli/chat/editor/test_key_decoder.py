"""Bytes of a terminal become keys, text and pastes, however they are split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.chat.editor.key_decoder import Key, KeyDecoder, KeyInput, PastedText, TypedText


def decoded(*chunks: bytes) -> list[KeyInput]:
    decoder, events, now = KeyDecoder(), list[KeyInput](), 0.0
    for chunk in chunks:
        events += decoder.feed(chunk, now)
        now += 1.0
        if decoder.deadline is not None:
            events += decoder.expire(now)
    return events


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\r", "enter"),
        (b"\n", "ctrl+j"),
        (b"\x1b", "escape"),
        (b"\x1b\r", "alt+enter"),
        (b"\x03", "ctrl+c"),
        (b"\x1f", "ctrl+_"),
        (b"\x7f", "backspace"),
        (b"\x1b[A", "up"),
        (b"\x1bOA", "up"),
        (b"\x1b[1;5D", "ctrl+left"),
        (b"\x1b[Z", "shift+tab"),
        (b"\x1b[3~", "delete"),
        (b"\x1bb", "alt+b"),
        (b"\x1b\x7f", "alt+backspace"),
        (b"\x1b[13;2u", "shift+enter"),
        (b"\x1b[27;2;13~", "shift+enter"),
        (b"\x1b[99;5u", "ctrl+c"),
        (b"\x1b[27u", "escape"),
    ],
)
def test_key_is_named(data: bytes, name: str) -> None:
    assert decoded(data) == [Key(name)]


def test_reports_are_dropped() -> None:
    assert decoded(b"\x1b[I", b"\x1b[O", b"\x1b[<0;1;1M", b"\x1b[?62c", b"\x1b[97;1:3u") == []


def test_two_escapes_are_two_keys() -> None:
    assert decoded(b"\x1b\x1b") == [Key("escape"), Key("escape")]


def test_split_characters_are_joined() -> None:
    assert decoded(*(bytes([each]) for each in "é日👩".encode())) == [TypedText("é"), TypedText("日"), TypedText("👩")]


def test_paste_is_one_event() -> None:
    assert decoded(b"\x1b[200~one\rtwo\r\n\x1b[Athree\x1b[201~") == [PastedText("one\ntwo\n\x1b[Athree")]


def test_end_within_a_paste_types_nothing() -> None:
    """A text may hold the end of a paste, to have the rest taken for keys."""
    assert decoded(b"\x1b[200~safe\x1b[201~rm -rf /\r\x1b[201~") == [PastedText("saferm -rf /\n")]


def test_enter_right_after_a_paste_is_text() -> None:
    assert decoded(b"\x1b[200~safe\x1b[201~\r") == [PastedText("safe"), TypedText("\n")]


def test_paste_without_brackets_sends_nothing() -> None:
    assert Key("enter") not in decoded(b"one\rtwo\rthree\r")


def test_typed_line_is_sent() -> None:
    assert decoded(b"one\r", b"two\r") == [TypedText("one"), Key("enter"), TypedText("two"), Key("enter")]


@given(st.text(), st.data())
def test_paste_survives_any_split(text: str, data: st.DataObject) -> None:
    text = text.replace("\x1b", "")
    raw = b"\x1b[200~" + text.encode(errors="replace") + b"\x1b[201~"
    cut = data.draw(st.integers(0, len(raw)))
    decoder = KeyDecoder()
    events = [*decoder.feed(raw[:cut], 0.0), *decoder.feed(raw[cut:], 0.001)]
    expected = raw[6:-6].decode().replace("\r\n", "\n").replace("\r", "\n")
    assert events == [PastedText(expected)]


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_any_bytes_are_decoded(chunks: list[bytes]) -> None:
    for event in decoded(*chunks):
        assert isinstance(event, (Key, TypedText, PastedText))


def test_ten_megabytes_are_one_paste() -> None:
    data = b"\x1b[200~" + b"line of a log\r" * 750_000 + b"\x1b[201~"
    decoder = KeyDecoder()
    events = [event for at in range(0, len(data), 4096) for event in decoder.feed(data[at : at + 4096], 0.0)]
    assert events == [PastedText("line of a log\n" * 750_000)]


def test_quick_answer_to_what_an_enter_did_is_sent() -> None:
    """A program that types waits for what the first Enter does, and that takes longer than a paste's next line."""
    decoder = KeyDecoder()
    events = [*decoder.feed(b"a\r", 0.0), *decoder.expire(0.010), *decoder.feed(b"b\r", 0.012), *decoder.expire(0.022)]
    assert events == [TypedText("a"), Key("enter"), TypedText("b"), Key("enter")]
