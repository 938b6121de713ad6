"""The composer against a plain string: the cursor is always between grapheme clusters, and where pyte has it."""

import pyte
import wcwidth
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.cli.chat.editor.composer import Composer
from engine.cli.chat.editor.graphemes import boundaries
from engine.cli.chat.editor.wrapped_text import row_of

PIECES = st.sampled_from(
    [
        "a",
        " ",
        "word",
        "\n",
        "日",
        "e\u0301",
        "\u0301",
        "👩\u200d👩\u200d👧",
        "\u200d",
        "🇩🇪",
        "🇩",
        "שלום",
        "\t",
        "x" * 30,
    ]
)
MOVES = st.sampled_from(["left", "right", "line_start", "line_end", "up", "down", "word_left", "word_right"])
KILLS = [
    "kill_line_end",
    "kill_line_start",
    "kill_blank_word",
    "kill_word",
    "kill_word_back",
    "delete_back",
    "delete_forward",
]
OTHERS = ["yank", "yank_earlier", "undo", "swap", "upper_case", "newline"]


class ComposerModel(RuleBasedStateMachine):
    """What is typed and deleted, with a plain string beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.composer = Composer()
        self.composer.width = 20

    @property
    def parts(self) -> tuple[str, str]:
        buffer = self.composer.buffer
        return buffer.text[: buffer.cursor], buffer.text[buffer.cursor :]

    @rule(piece=PIECES)
    def type(self, piece: str) -> None:
        before, after = self.parts
        self.composer.type(piece)
        assert self.composer.text == before + piece + after
        assert self.composer.buffer.cursor >= len(before + piece)

    @rule(name=MOVES)
    def move(self, name: str) -> None:
        text = self.composer.text
        self.composer.perform(name)
        assert self.composer.text == text

    @rule(name=st.sampled_from(KILLS))
    def kill(self, name: str) -> None:
        before, after = self.parts
        self.composer.perform(name)
        text = self.composer.text
        assert len(text) <= len(before + after)
        if name in {"kill_line_end", "kill_word", "delete_forward"}:
            assert text.startswith(before)
            assert after.endswith(text[len(before) :])
        else:
            assert text.endswith(after)
            assert before.startswith(text[: len(text) - len(after)])

    @rule(name=st.sampled_from(OTHERS))
    def edit(self, name: str) -> None:
        self.composer.perform(name)

    @rule(name=st.sampled_from([*KILLS, *OTHERS]))
    def undo(self, name: str) -> None:
        text = self.composer.text
        self.composer.perform(name)
        if name != "undo" and self.composer.text != text:
            self.composer.perform("undo")
            assert self.composer.text == text

    @invariant()
    def cursor_stands_between_clusters(self) -> None:
        buffer = self.composer.buffer
        start = buffer.text.rfind("\n", 0, buffer.cursor) + 1
        line = buffer.text[start:].partition("\n")[0]
        assert buffer.cursor - start in boundaries(line)

    @invariant()
    def rows_hold_the_text(self) -> None:
        rows, text = self.composer.rows, self.composer.buffer.text
        assert "".join(text[row.start : row.end] for row in rows) == text.replace("\n", "")
        assert all(wcwidth.width(row.shown) <= 20 for row in rows)
        row = rows[row_of(rows, self.composer.buffer.cursor)]
        assert 0 <= row.column_of(self.composer.buffer.cursor) < 20


ComposerModel.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestComposer = ComposerModel.TestCase


@given(st.lists(st.sampled_from(["a", " ", "日", "e\u0301", "ש"]), max_size=30))
@settings(max_examples=30, deadline=None)
def test_cursor_is_where_the_terminal_has_it(pieces: list[str]) -> None:
    """Clusters of several wide characters are left out: pyte shows their parts."""
    composer = Composer()
    composer.width = 20
    composer.type("".join(pieces))
    rows = composer.rows
    index = row_of(rows, composer.buffer.cursor)
    screen = pyte.Screen(21, 5)
    pyte.Stream(screen).feed(rows[index].shown)
    assert screen.cursor.x == rows[index].column_of(composer.buffer.cursor)


def test_long_paste_is_a_label_and_sent_whole() -> None:
    composer = Composer()
    text = "\n".join(map(str, range(1_204)))
    composer.type("see ")
    composer.paste(text)
    assert composer.rows[0].shown == "see [Pasted 1,204 lines #1]"
    assert composer.take() == f"see {text}"


def test_history_keeps_whole_entries_and_the_draft() -> None:
    composer = Composer()
    composer.type("first\nentry")
    composer.take()
    composer.type("draft")
    composer.perform("up")
    assert composer.text == "first\nentry"
    composer.perform("down")
    assert composer.text == "draft"


def test_kills_in_a_row_are_yanked_together() -> None:
    composer = Composer()
    composer.type("one two three")
    composer.perform("kill_blank_word")
    composer.perform("kill_blank_word")
    composer.perform("yank")
    assert composer.text == "one two three"
