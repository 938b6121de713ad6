"""What of a text is found in PostgreSQL, and what is shown of it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.postgres.full_text import SearchQuery, tokenize, tsvector_text
from engine.store.search_text import MATCH_MARKS
from engine.store.session_row import SNIPPET_TOKENS


def words(text: str) -> list[str]:
    return [token.word for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("engine/store/postgres_words.py:12", ["engine", "store", "postgres", "words", "py", "12"]),
        ("e-mail me@example.com, 1.5e3 -7", ["e", "mail", "me", "example", "com", "1", "5e3", "7"]),
        ("Überprüfe STRASSE Straße ﬁx", ["uberprufe", "strasse", "strasse", "fix"]),
        ("u\u0308ber", ["uber"]),  # composed of two characters
        ("日本語 text", ["日", "本", "語", "text"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("한국어", ["한국어"]),
        ("⑴ ½", ["1", "12"]),
        ("\u0301 \u200b _ 'a' \\b & | !", ["a", "b"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words(text) == [unicodedata.normalize("NFKD", word) for word in expected]


def shown(words: str, text: str) -> str | None:
    snippet = SearchQuery.of(words).snippet(text)
    return None if snippet is None else snippet.replace(MATCH_MARKS[0], "[").replace(MATCH_MARKS[1], "]")


@pytest.mark.parametrize(
    ("asked", "text", "expected"),
    [
        ("b c", "a b c d", "a [b] [c] d"),
        ("c b", "a b c d", "a [b] [c] d"),
        ("b-c", "a b c d", "a [b c] d"),  # what is written without a blank is one phrase
        ("c-b", "a b c d", None),
        ("a pars", "parse a parser", "[parse] [a] [parser]"),
        ("pars ", "a parser", None),
        ("b", "a, (b)!", "a, ([b])!"),
        ("a", "a a-a", "[a] [a]-[a]"),
        ("a a-a", "b a a-a", "b [a a-a]"),  # phrases that share words are shown as one
        ("x", "a", None),
    ],
)
def test_a_snippet(asked: str, text: str, expected: str | None) -> None:
    assert shown(asked, text) == expected


def test_snippet_shows_most_search_words() -> None:
    text = " ".join(["first", *["x"] * 50, "first", "second", *["y"] * 50])
    found = shown("second first", text)
    assert found is not None
    assert found.startswith("…")
    assert found.endswith("…")
    assert "[first] [second] y" in found
    assert len(found.split()) <= SNIPPET_TOKENS + 1


@given(text=st.text(max_size=60), at=st.integers(0, 10), length=st.integers(1, 4))
def test_any_stored_text_is_found(text: str, at: int, length: int) -> None:
    """By the index as by the snippet; and the text between the marks is the text."""
    every = list(tokenize(text))
    part = every[at : at + length]
    if not part:
        return
    wanted = SearchQuery.of(text[part[0].begin : part[-1].end])
    snippet = wanted.snippet(text)
    assert snippet is not None
    assert {word for phrase in wanted.phrases[:-1] for word in phrase} <= set(tsvector_text(text).split(" "))
    plain = snippet.replace(MATCH_MARKS[0], "").replace(MATCH_MARKS[1], "").strip("…")
    assert plain.replace(MATCH_MARKS[0], "") in text.replace(MATCH_MARKS[0], "").replace(MATCH_MARKS[1], "")


@given(st.text(max_size=80))
def test_typed_text_is_never_an_operator(text: str) -> None:
    query = SearchQuery.of(text).query
    assert not set(query.replace("':*", "").replace("' & '", "").strip("'")) & set("'\\ &|!():*<>")
