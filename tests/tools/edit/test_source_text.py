"""The text of a file: splices touch nothing else, and line endings stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.edit.source_text import SourceText, Splice, unix

_texts = st.lists(st.sampled_from(["a", "b", "é", "\r\n", "\n", "\r", "\x0c"]), max_size=12).map("".join)


@st.composite
def _spliced(draw: st.DrawFn) -> tuple[SourceText, list[Splice]]:
    source = SourceText(draw(_texts))
    cuts = sorted(draw(st.lists(st.integers(0, len(source.text)), max_size=6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    new = st.text("xy\n", max_size=4)
    return source, [Splice(start, end, draw(new)) for start, end in pairs]


@given(_spliced())
def test_outside_of_the_splices_nothing_changes(drawn: tuple[SourceText, list[Splice]]) -> None:
    source, splices = drawn
    after = source.spliced(splices)
    assert source.spliced([]) == source.original
    # What was not replaced, carriage returns included, is still there, in this order and with only new texts between.
    at, rest = 0, after
    for splice in [*splices, Splice(len(source.text), len(source.text), "")]:
        kept = source.original[source._place(at) : source._place(splice.start)]
        assert rest.startswith(kept)
        rest = rest[len(kept) :]
        put = splice.text if rest.startswith(splice.text) else splice.text.replace("\n", "\r\n")
        assert rest.startswith(put)
        rest, at = rest[len(put) :], splice.end
    assert rest == ""


@given(_texts)
def test_lines_are_what_an_editor_shows(text: str) -> None:
    source = SourceText(text)
    assert "\n".join(source.lines) == unix(text).removesuffix("\n")
    assert [source.text[s : source.line_end(i)] for i, s in enumerate(source.starts)] == source.lines
    for offset in range(len(source.text)):
        assert source.line_at(offset) == source.text.count("\n", 0, offset) + 1


@pytest.mark.parametrize(
    ("text", "splice", "after"),
    [
        ("a\nb\nc", Splice(2, 3, "x\ny"), "a\nx\ny\nc"),
        ("a\r\nb\r\nc", Splice(2, 3, "x\ny"), "a\r\nx\r\ny\r\nc"),
        ("a\r\nb", Splice(2, 3, "x\ny"), "a\r\nx\r\ny"),  # no end behind it: the one before
        ("a\r\nb\nc\n", Splice(2, 3, "x\ny"), "a\r\nx\ny\nc\n"),  # mixed: that of its own line
        ("a\nb\r\nc\n", Splice(2, 3, "x\ny"), "a\nx\r\ny\r\nc\n"),
        ("a\r\nb\nc\n", Splice(0, 3, "x\ny"), "x\r\ny\nc\n"),  # that of the lines it replaces
        ("a\r\nb\r\nc\nd\n", Splice(0, 7, "x\ny"), "x\r\ny\n"),
        ("a\r\nb\nc\nd\n", Splice(0, 7, "x\ny"), "x\ny\n"),
        ("a\nb\nc\r\n", Splice(0, 5, "x\ny\nz"), "x\ny\nz\r\n"),
        ("a\r\nb", Splice(1, 2, " "), "a b"),  # a line end goes as a whole
        ("a\r\nb", Splice(1, 1, "x"), "ax\r\nb"),
        ("a\r\nb", Splice(2, 2, "x"), "a\r\nxb"),
        ("", Splice(0, 0, "x\n"), "x\n"),
        ("a", Splice(1, 1, "\nb"), "a\nb"),
    ],
)
def test_new_lines_end_like_those_around_them(text: str, splice: Splice, after: str) -> None:
    assert SourceText(text).spliced([splice]) == after


@pytest.mark.parametrize(
    ("text", "first", "last", "lines", "after"),
    [
        ("a\nb\nc\n", 1, 1, ["x", "y"], "a\nx\ny\nc\n"),
        ("a\nb\nc\n", 1, 2, [], "a\n"),
        ("a\nb\nc", 1, 2, [], "a"),
        ("a\nb", 0, 1, [], ""),
        ("a\nb", 0, 0, [], "b"),
        ("a\nb", 1, 1, ["x"], "a\nx"),
        ("a\r\nb\r\n", 0, 0, [], "b\r\n"),
    ],
)
def test_lines_are_replaced(text: str, first: int, last: int, lines: list[str], after: str) -> None:
    source = SourceText(text)
    assert source.spliced([source.replaced(first, last, lines)]) == after


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("a\nb\n", 0, "x\na\nb\n"),
        ("a\nb\n", 1, "a\nx\nb\n"),
        ("a\nb\n", 2, "a\nb\nx\n"),
        ("a\nb", 2, "a\nb\nx"),
        ("a\r\nb", 2, "a\r\nb\r\nx"),
        ("", 0, "x\n"),
    ],
)
def test_lines_are_inserted(text: str, before: int, after: str) -> None:
    source = SourceText(text)
    assert source.spliced([source.inserted(before, ["x"])]) == after


def test_splices_at_one_place_keep_their_order() -> None:
    assert SourceText("ab").spliced([Splice(1, 1, "1"), Splice(1, 1, "2")]) == "a12b"


@pytest.mark.parametrize(
    ("text", "is_mixed"), [("", False), ("a\n", False), ("a\r\n", False), ("a\r\nb\n", True), ("a\rb\n", False)]
)
def test_which_files_are_mixed(text: str, is_mixed: bool) -> None:
    assert SourceText(text).is_mixed is is_mixed
