"""Characters that look alike are matched, kept where the request leaves them alone, and named where they differ."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ToolError
from engine.tools.edit.replace import replace
from engine.tools.edit.unicode_forms import keep_forms, plain, plain_places

E = "e\u0301"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        # A changed line keeps its signs.
        ("say(“hello” – 1)\nnext\n", 'say("hello" - 1)\nnext', 'say("hello" - 2)\nnext', "say(“hello” – 2)\nnext\n"),
        ("  say(“hello”)\n", 'say("hello")', 'say("hello", "x")', '  say(“hello”, "x")\n'),
        ("it’s a…\n", "it's a...", "it's b...", "it’s b…\n"),
        # So does one that the request splits, or whose neighbour changes too.
        ("“a”; “b”\nc – d\n", '"a"; "b"\nc - d', '"a"\n"b"\nc - e', "“a”\n“b”\nc – e\n"),
        # A part of a line.
        ("x = “a” or “b”  # y\n", '"a" or "b"', '"a" and "b"', "x = “a” and “b”  # y\n"),
        # A sign that the request changes is changed.
        ("“a”\nb – c\n", '"a"\nb - c', "'a'\nb - c", "'a'\nb – c\n"),
        # Letters, composed or not.
        (f"caf{E} = 1\nb\n", "café = 1\nb", "café = 2\nb", f"caf{E} = 2\nb\n"),
        ("café = 1\n", f"caf{E} = 1", f"caf{E} = 2", "café = 2\n"),
        (f"the caf{E} is open\n", "café is", "café was", f"the caf{E} was open\n"),
        ("が = 1\n", unicodedata.normalize("NFD", "が = 1"), unicodedata.normalize("NFD", "が = 2"), "が = 2\n"),
        (
            unicodedata.normalize("NFD", "한글 = 1\n"),
            "한글 = 1",
            "한글 = 2",
            unicodedata.normalize("NFD", "한글 = 2\n"),
        ),
        # Blanks that don't break.
        ("a\u00a0b = 1\n", "a b = 1", "a b = 2", "a\u00a0b = 2\n"),
        # In a block that is remembered wrongly, too.
        (
            "begin\n  say(“hello”, count)\n  other = 1\nend\n",
            'begin\n  say("hello", counter)\n  other = 1\nend',
            'begin\n  say("hello", counter, 1)\n  other = 1\nend',
            "begin\n  say(“hello”, counter, 1)\n  other = 1\nend\n",
        ),
    ],
)
def test_files_form_is_kept(text: str, old: str, new: str, after: str) -> None:
    assert replace("f", text, old, new).text == after


@pytest.mark.parametrize(
    ("text", "old", "note"),
    [
        (f"caf{E} = 1\n", "café = 1", f"line 1 has {E} (U+0065 U+0301), not é (U+00E9)"),
        ("say(“a”)\n", 'say("a")', 'line 1 has “ (U+201C), not " (U+0022)'),
        ("a\u00a0b\n", "a b", "line 1 has U+00A0, not U+0020"),
        ("a\u200bb\n", "ab", "line 1 has U+200B, not nothing"),
    ],
)
def test_refusal_names_the_characters(text: str, old: str, note: str) -> None:
    with pytest.raises(ToolError) as caught:
        replace("f", text, old, "x", fuzzy=False)
    assert note in str(caught.value)


def test_several_places_are_refused() -> None:
    with pytest.raises(ToolError, match="2 places"):
        replace("f", "x “a” y\nz “a”\n", '"a"', "b")


def test_plain_places_end_between_characters() -> None:
    assert list(plain_places("a…b", "a.")) == []
    assert list(plain_places(f"a{E}b", "e")) == []


_text = st.text(f"aé{E}“”\"'’-–. …\n", max_size=12)


@given(_text, _text)
def test_places_have_the_plain_form(text: str, piece: str) -> None:
    for start, end in plain_places(text, piece or "é"):
        assert plain(text[start:end]) == plain(piece or "é")


# Dots before an ellipsis could be read in two ways.
_dotless = _text.map(lambda text: text.replace(".", ""))


@given(_dotless, _dotless)
def test_forms_change_only_forms(old: str, new: str) -> None:
    actual = plain(old)
    assert keep_forms(old, old, actual) == actual
    assert plain(keep_forms(old, new, actual)) == plain(new)
