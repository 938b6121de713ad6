"""Diffs as styled lines: signs at the front, changed words in bold."""

from engine.cli.text.diff_view import diff_lines
from engine.cli.text.styled_text import PALETTE, Style, paint, plain_text
from engine.cli.text.themes import NO_THEME, THEMES

DIFF = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n same\n-let count = 1;\n+let total = 1;\n-- item\n++ item\n"


def test_signs_stay_without_colours() -> None:
    assert "\n".join(map(plain_text, diff_lines(DIFF))) == DIFF.rstrip("\n")


def test_changed_words_are_bold() -> None:
    lines = {plain_text(line): line for line in diff_lines(DIFF)}
    strong = {
        text: [span.text for span in line if Style.STRONG in span.style]
        for text, line in lines.items()
        if text.startswith(("-l", "+l"))
    }
    assert strong == {"-let count = 1;": ["count"], "+let total = 1;": ["total"]}
    assert paint(lines["+let total = 1;"], PALETTE).startswith("\x1b[32m+")


def test_removed_line_that_looks_like_a_heading() -> None:
    _, first, _ = diff_lines("@@ -1 +1 @@\n--- item\n+* item\n")
    assert first[0].style == Style.REMOVED


def test_long_diffs_are_cut() -> None:
    diff = "".join(f"+{n}\n" for n in range(100))
    lines = [plain_text(line) for line in diff_lines(diff, 20)]
    assert lines[19:] == ["+19", "… 80 more lines"]
    assert len(diff_lines("".join(f"+{n}\n" for n in range(21)), 20)) == 21


def test_control_characters_are_shown() -> None:
    assert "\x1b" not in plain_text(diff_lines("+\x1b[2J\n")[0])


def test_no_theme_says_by_colour_alone() -> None:
    # Each has a sign or a word, so a theme may leave the code out; none has a background.
    for theme in (*THEMES.values(), NO_THEME):
        for code in (*theme.styles.values(), *theme.colours.values(), *theme.context):
            assert all(not 40 <= int(part) < 50 and not int(part) >= 100 for part in code.split(";") if part)
    assert all(code not in {"31", "32", "91", "92"} for code in THEMES["color-blind"].styles.values())
    assert all(set(code.split(";")) <= {"1", "2", "3", "4", "9"} for code in THEMES["mono"].styles.values())
