"""Markdown on a terminal: what the lines look like, and that they do not depend on how the text was streamed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.text.markdown_view import MarkdownView
from engine.cli.text.styled_text import PALETTE, PLAIN, Line, Style, cell_width, paint, plain_text

_TOKENS = (
    *("*", "**", "***", "_", "__", "~~", "`", "``", "[", "](u)", "](", "!", "\\", "<", "|", "|--|", "https://x.y/z_a"),
    *("\n", "\n\n", "\r\n", "\n|a|b|\n", "\n|:-|-:|\n", "\n```\n", "~~~", "- ", "1. ", "# ", "> ", "    ", "\t", " "),
    *("word", "a b c d e f g h", "日本語", "e\u0301", "\x1b[31m", "x" * 30, "---", "👩\u200d🚀"),
)
texts = st.lists(st.sampled_from(_TOKENS), max_size=80).map("".join)


def lines_of(*pieces: str, width: int = 40, keeps_marks: bool = False, is_linear: bool = False) -> list[Line]:
    view = MarkdownView(width, keeps_marks=keeps_marks, is_linear=is_linear)
    lines = [line for piece in pieces for line in view.feed(piece)]
    return lines + view.finish()


def shown(text: str, width: int = 40, *, keeps_marks: bool = False, is_linear: bool = False) -> list[str]:
    return [plain_text(line) for line in lines_of(text, width=width, keeps_marks=keeps_marks, is_linear=is_linear)]


@given(texts, st.sampled_from([1, 7, 40, 200]), st.booleans(), st.booleans(), st.data())
def test_lines_do_not_depend_on_the_pieces(
    text: str, width: int, keeps_marks: bool, is_linear: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20), label="cuts"))
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = lines_of(text, width=width, keeps_marks=keeps_marks, is_linear=is_linear)
    assert lines_of(*pieces, width=width, keeps_marks=keeps_marks, is_linear=is_linear) == whole
    assert lines_of(*text, width=width, keeps_marks=keeps_marks, is_linear=is_linear) == whole


@given(texts)
def test_nothing_reaches_the_terminal_unescaped(text: str) -> None:
    for line in lines_of(text):
        assert "\x1b" not in paint(line, PLAIN)
        assert "\n" not in paint(line, PLAIN)


def test_long_line_does_not_depend_on_the_pieces() -> None:
    for text in ("- " + "long *line* `of` text " * 700 + "\nend", "    " + "code " * 2_000 + "\n- x", "|a" * 5_000):
        whole = lines_of(text)
        assert lines_of(*(text[index : index + 61] for index in range(0, len(text), 61))) == whole


@pytest.mark.parametrize(
    ("text", "styled"),
    [
        ("a **b c** d", "a \x1b[1mb c\x1b[0m d"),
        ("*a* _b_ __c__", "\x1b[3ma\x1b[0m \x1b[3mb\x1b[0m \x1b[1mc\x1b[0m"),
        ("***a***", "\x1b[1;3ma\x1b[0m"),
        ("**a *b* c**", "\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m\x1b[1m c\x1b[0m"),
        ("~~a~~", "\x1b[9ma\x1b[0m"),
        ("use `a*b*` now", "use \x1b[36ma*b*\x1b[0m now"),
        ("`` a`b ``", "\x1b[36ma`b\x1b[0m"),
        ("# Title", "\x1b[1m# Title\x1b[0m"),
        ("[docs](https://x.y)", "\x1b[4mdocs\x1b[0m\x1b[2m (https://x.y)\x1b[0m"),
        ("<https://x.y/a_b_c>", "\x1b[4mhttps://x.y/a_b_c\x1b[0m"),
        ("see https://x.y/a_b_.", "see \x1b[4mhttps://x.y/a_b\x1b[0m_."),
    ],
)
def test_styles(text: str, styled: str) -> None:
    assert [paint(line, PALETTE) for line in lines_of(text)] == [styled]


@pytest.mark.parametrize(
    "text",
    [
        "snake_case_name",
        "2 * 3 * 4",
        "a ** b",
        "*open",
        "`open",
        "[not a link]",
        "[a] (b)",
        "5 < 6",
        "a_b_ c",
        "\\",
        "1.5",
    ],
)
def test_plain_text_stays(text: str) -> None:
    assert shown(text) == [text]


def test_escaped_marker_is_text() -> None:
    assert shown(r"\*a\* \_b") == ["*a* _b"]


def test_prose_is_wrapped_at_spaces() -> None:
    assert shown("one two three four", width=9) == ["one two", "three", "four"]
    assert shown("- one two three", width=9) == ["- one two", "  three"]
    assert shown("12. one two", width=8) == ["12. one", "    two"]
    assert shown("> one two", width=6) == ["> one", "> two"]
    assert max(map(cell_width, shown("word " * 100, width=300))) <= 100


def test_url_is_never_cut() -> None:
    url = "https://example.org/" + "x" * 50
    assert shown(f"see {url} now", width=20) == ["see", url, "now"]


def test_wide_characters_are_counted() -> None:
    assert shown("日本語日本語", width=6) == ["日本語", "日本語"]


def test_code_is_kept_as_it_is() -> None:
    text = "```python\ndef f(*args):\n\treturn  1 " + "x" * 100 + "\n```\nend"
    assert shown(text, width=20) == ["```python", "def f(*args):", "\treturn  1 " + "x" * 100, "```", "end"]


def test_fence_ends_with_its_own_kind() -> None:
    lines = lines_of("~~~\n```\n*a*\n~~~\n*b*")
    assert [plain_text(line) for line in lines] == ["~~~", "```", "*a*", "~~~", "b"]


def test_text_after_a_list_item_is_no_code() -> None:
    assert shown("- a\n\n    *b*\n\nc\n\n    *d*") == ["- a", "", "    b", "", "c", "", "    *d*"]


TABLE = "| Name | Count |\n|:--|--:|\n| a `b` | 1 |\n| long name | 1000 |\n"


def test_table_is_aligned() -> None:
    expected = ["Name       Count", "---------  -----", "a b            1", "long name   1000"]
    assert shown(TABLE) == expected


def test_wide_table_is_a_list() -> None:
    expected = ["Name: a b", "Count: 1", "", "Name: long", "  name", "Count: 1000"]
    assert shown(TABLE, width=12) == expected


def test_linear_table_is_a_list() -> None:
    assert shown(TABLE, is_linear=True)[:2] == ["Name: a b", "Count: 1"]


def test_table_is_held_until_its_end() -> None:
    view = MarkdownView(40)
    assert view.feed(TABLE) == []
    assert [plain_text(line) for line in view.feed("\n")][:1] == ["Name       Count"]


def test_long_table_is_not_held() -> None:
    view = MarkdownView(40)
    lines = view.feed("|a|b|\n|-|-|\n" + "|1|2|\n" * 300)
    assert [plain_text(line) for line in lines] == ["a  b", "-  -", *["1  2"] * 300]
    assert view.finish() == []


def test_bars_without_delimiter_are_text() -> None:
    assert shown("| a |\n| b |\nc") == ["| a |", "| b |", "c"]


def test_marks_are_kept_without_styles() -> None:
    text = "**a** `b` [c](d) _e_"
    lines = lines_of(text, keeps_marks=True)
    assert [paint(line, PLAIN) for line in lines] == [text]


def test_rows_come_before_the_line_ends() -> None:
    view = MarkdownView(20)
    assert [plain_text(line) for line in view.feed("some words that take more than one row of")] == [
        "some words that take"
    ]
    assert [plain_text(line) for line in view.preview] == ["more than one row of"]


def test_open_emphasis_holds_its_row() -> None:
    view = MarkdownView(20)
    assert view.feed("some words **that take more than one row of") == []
    lines = view.feed("** the screen")
    assert lines == []  # they come with the next newline, or with more words
    assert view.finish()[0][-1].style == Style.STRONG


def resized(first: str, rest: str) -> list[str]:
    """The rows of a text, of which *rest* comes after the window has become 20 columns wide."""
    view = MarkdownView(40)
    lines = view.feed(first)
    view.resize(20)
    return [plain_text(line) for line in (*lines, *view.feed(rest), *view.finish())]


def test_new_width_reaches_the_next_line() -> None:
    assert resized("one\n", "many words that are wrapped") == ["one", "many words that are", "wrapped"]


def test_new_width_reaches_a_line_not_shown() -> None:
    assert resized("many words", " that are wrapped") == ["many words that are", "wrapped"]


def test_line_keeps_the_width_of_its_first_rows() -> None:
    rows = resized("word " * 12, "word " * 8 + "\n" + "word " * 8)
    assert rows == ["word word word word word word word word"] * 2 + ["word word word word"] * 3
