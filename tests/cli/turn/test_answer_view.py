"""The model's text on a terminal, line by line, and elsewhere, as it comes."""

from hypothesis import given
from hypothesis import strategies as st

from engine.cli.text.styled_text import cell_width
from engine.cli.turn.answer_view import AnswerView


def test_text_elsewhere_is_printed_at_once() -> None:
    view = AnswerView(margin="| ")
    assert view.feed("**a") == "| **a"
    assert view.feed("** b\n\nc") == "** b\n|\n| c"
    assert view.is_line_open
    assert view.end() == "\n"
    assert view.end() == ""


def test_markdown_is_printed_by_lines() -> None:
    view = AnswerView(margin="| ", is_markdown=True, is_styled=True)
    assert view.feed("**a") == ""
    assert view.preview(0.0) == "| **a"
    assert view.feed("** b\n\nc") == "| \x1b[1ma\x1b[0m b\n|\n"
    assert not view.is_line_open
    assert view.end() == "| c\n"
    assert view.preview(1.0) == ""


def test_markdown_without_styles_keeps_its_marks() -> None:
    view = AnswerView(is_markdown=True)
    assert view.feed("**a**\n") == "**a**\n"


def test_discarded_text_is_not_printed() -> None:
    view = AnswerView(is_markdown=True)
    view.feed("partial")
    view.discard()
    assert view.feed("whole\n") == "whole\n"


@given(st.text(st.sampled_from("ab *`|\t日\n👩")), st.integers(3, 30))
def test_preview_takes_one_row(text: str, width: int) -> None:
    view = AnswerView(margin="> ", width=width, is_markdown=True)
    view.feed(text)
    row = view.preview(0.0)
    assert "\n" not in row
    assert "\t" not in row
    assert cell_width(row) < max(width, 5)
