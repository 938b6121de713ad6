"""vi's keys: each case is a text, the keys, and the text with the cursor after them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.chat.editor.composer import Composer
from engine.cli.chat.editor.graphemes import boundaries


def composer_with(text: str) -> Composer:
    """A composer in normal mode; `|` in *text* is the cursor."""
    composer = Composer()
    composer.use_vi()
    composer.vi_escape()
    composer.replace(text.replace("|", "", 1), text.index("|"))
    return composer


def press(composer: Composer, keys: str) -> None:
    for key in keys:
        if key == "\x1b":
            composer.vi_escape()
        else:
            composer.type(key)


def shown(composer: Composer) -> str:
    buffer = composer.buffer
    return f"{buffer.text[: buffer.cursor]}|{buffer.text[buffer.cursor :]}"


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        # motions
        ("|one two", "w", "one |two"),
        ("|one, two", "w", "one|, two"),
        ("|one, two", "W", "one, |two"),
        ("one two| three", "b", "one |two three"),
        ("|one two", "e", "on|e two"),
        ("|one two three", "2w", "one two |three"),
        ("one |two", "0", "|one two"),
        ("|one two", "$", "one tw|o"),
        ("  one| two", "^", "  |one two"),
        ("|a,b,c", "f,", "a|,b,c"),
        ("|a,b,c", "2f,", "a,b|,c"),
        ("|a,b,c", "t,;", "|a,b,c"),
        ("|a,b,c", "f,;", "a,b|,c"),
        ("|a,b,c", "f,;,", "a|,b,c"),
        ("a,b,|c", "F,", "a,b|,c"),
        ("a\nb\n|c", "gg", "|a\nb\nc"),
        ("|a\nb\nc", "G", "a\nb\n|c"),
        ("|a\nb\nc", "2G", "a\n|b\nc"),
        ("|a日👩\u200d👩\u200d👧b", "lll", "a日👩\u200d👩\u200d👧|b"),
        ("a\nb|c\nd", "k", "|a\nbc\nd"),
        # operators
        ("|one two", "dw", "|two"),
        ("|one two three", "d2w", "|three"),
        ("|one two three", "2dw", "|three"),
        ("one |two", "d0", "|two"),
        ("one |two\nthree", "dw", "one| \nthree"),
        ("|one two", "de", "| two"),
        ("|one two", "d$", "|"),
        ("one| two", "D", "on|e"),
        ("a(|b, c)d", "dt)", "a(|)d"),
        ("a\n|b\nc", "dd", "a\n|c"),
        ("a\nb\n|c", "dd", "a\n|b"),
        ("|a\nb\nc", "2dd", "|c"),
        ("|a\nb\nc", "dj", "|c"),
        ("a\n|b\nc", "dG", "|a"),
        ("o|ne two", "diw", "| two"),
        ("one t|wo three", "daw", "one |three"),
        ('say "he|llo" now', 'di"', 'say "|" now'),
        ('say "he|llo" now', 'da"', "say | now"),
        ("f(a, (b|))", "di(", "f(a, (|))"),
        ("f(a|, (b))", "dib", "f(|)"),
        ("{a|}", "daB", "|"),
        ("|one two", "cwsix\x1b", "si|x two"),
        ("o|ne two", "ciwsix\x1b", "si|x two"),
        ("one |two\nb", "ccx\x1b", "|x\nb"),
        ("one |two", "Cx\x1b", "one |x"),
        # small ones
        ("|abc", "x", "|bc"),
        ("|abc", "2x", "|c"),
        ("ab|c", "X", "a|c"),
        ("|abc", "rx", "|xbc"),
        ("|abc", "2rx", "x|xc"),
        ("|abc", "sx\x1b", "|xbc"),
        ("|abc", "~", "A|bc"),
        ("|a\n  b", "J", "a| b"),
        ("|ab", "xp", "b|a"),
        ("|ab", "xP", "|ab"),
        ("a|\nb", "yyp", "a\n|a\nb"),
        ("|a\nb", "ddp", "b\n|a"),
        ("|one two", "ywP", "one| one two"),
        ("|a", "ob\x1b", "a\n|b"),
        ("|a", "Ob\x1b", "|b\na"),
        ("|ab", "aX\x1b", "a|Xb"),
        ("|ab", "AX\x1b", "ab|X"),
        ("a|b", "IX\x1b", "|Xab"),
        # repeat and undo
        ("|a b c d", "dw..", "|d"),
        ("|one two", "cwx y\x1bw.", "x y x |y"),
        ("|one two", "dwu", "|one two"),
        ("|one", "Aa b c\x1bu", "on|e"),
        # what is no command does nothing
        ("|one", "dq", "|one"),
        ("|one", "d\x1bx", "|ne"),
        ("|one", "dc", "|one"),
        ("o|ne", "fz", "o|ne"),
    ],
)
def test_keys_do_what_vi_does(before: str, keys: str, after: str) -> None:
    composer = composer_with(before)
    press(composer, keys)
    assert shown(composer) == after


def test_escape_is_left_to_the_chat_in_normal_mode() -> None:
    composer = Composer()
    composer.use_vi()
    composer.type("a")
    assert composer.vi_escape()
    assert not composer.vi_escape()
    composer.type("2d")
    assert composer.vi_escape()
    assert not composer.vi_escape()


def test_each_message_begins_in_insert_mode() -> None:
    composer = composer_with("|one")
    assert composer.take() == "one"
    composer.type("dw")
    assert composer.text == "dw"


@given(
    st.lists(st.sampled_from(["a", " ", "日", "e\u0301", "👩\u200d👩\u200d👧", "ש", "\n", "(", ")", '"']), max_size=20),
    st.lists(
        st.sampled_from([*"hjklwbe0$^G;,xXpPuJ~.DY", "dw", "dd", "yy", "diw", 'da"', "di(", "cwz\x1b", "fa", "oz\x1b"])
    ),
)
@settings(max_examples=60, deadline=None)
def test_cursor_stands_between_clusters(pieces: list[str], keys: list[str]) -> None:
    composer = composer_with("|" + "".join(pieces))
    for each in keys:
        press(composer, each)
    buffer = composer.buffer
    start = buffer.text.rfind("\n", 0, buffer.cursor) + 1
    assert buffer.cursor - start in boundaries(buffer.text[start:].partition("\n")[0])
