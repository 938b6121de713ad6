"""The scripts of `make check` and `make docs`: the checks of words and of shape, and the API reference."""

import ast
import sys
from pathlib import Path

import attrs
import pytest

from scripts import api_reference, async_rules, check_messages, check_shape, check_words

HERE = Path("here.py")


BAD_ASYNC = """
import trio
async def generator():
    async with trio.open_nursery():
        yield 1
async def clean_up():
    try:
        pass
    finally:
        await trio.sleep(1)
async def ignored():
    try:
        pass
    finally:
        await trio.sleep(1)  # noqa: ASYNC102
"""


def test_async_rules_find_what_flake8_async_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(BAD_ASYNC)
    for codes, count in (("ASYNC101", 1), ("ASYNC102", 1), ("ASYNC101,ASYNC102,ASYNC900,ASYNC911", 3)):
        monkeypatch.setattr(sys, "argv", ["any", "--enable", codes, str(file)])
        found = [(main(), capsys.readouterr().out) for main in (async_rules.flake8_async.main, async_rules.main)]
        assert found[0] == found[1]
        assert (found[0][0], found[0][1].count("ASYNC")) == (1, count)


def test_names_are_split_at_underscores_and_capitals() -> None:
    assert check_words.words_of("_toldHTTPError_GIVEN") == ["told", "http", "error", "given"]


def test_private_words_in_names_are_reported() -> None:
    text = "def told(is_known: bool, unknown: int) -> None:\n    raise SessionNotFound(told=1)\n"
    found = check_words.names_in(HERE, text, frozenset({"is_known"}))
    assert [(finding.line, finding.text) for finding in found] == [(1, "told"), (2, "told")]


def test_tags_of_events_are_allowed() -> None:
    assert {"PermissionAsked", "CallJudged", "is_known"} <= check_words.allowed_names()


def test_messages_are_checked_and_docstrings_are_not() -> None:
    text = '"""Nobody."""\nx = 1\n"""Nobody here."""\nraise ValueError(f"nobody answers {x}")\nSQL = "asked_anew"\n'
    assert [finding.line for finding in check_words.messages_in(HERE, text)] == [4]


def test_pages_are_checked_and_code_in_them_is_not() -> None:
    page = "# Nobody\n\n`told` it\n\n```text\nnobody\n```\n\nIt goes\non; meanwhile it\ngoes on.\n"
    assert list(check_words.in_page(page)) == [(1, "Nobody"), (10, "meanwhile"), (11, "goes on")]


def test_pages_have_no_private_words() -> None:
    assert list(check_words.in_pages()) == []


def test_code_lines_are_counted_without_comments_and_docstrings() -> None:
    assert check_words.code_lines('"""A docstring\n\nof three lines."""\n\n# why\nx = [\n    1,\n]\n') == 3


def test_every_branch_counts() -> None:
    text = """
def f(x):
    if x and x.a or x.b:
        return [y for y in x if y]
    elif x:
        def inner():
            if x: pass
    for y in x:
        try:
            y = 1 if x else 2
        except ValueError:
            pass
    while x: pass
    match x:
        case 1: pass
"""
    function = ast.parse(text).body[0]
    assert check_shape.branches(function) == 12
    assert check_shape.nesting(function) == 2


def test_elif_is_not_nested() -> None:
    text = "def f(x):\n if x:\n  pass\n elif x:\n  if x:\n   pass\n else:\n  with x: pass\n"
    assert check_shape.nesting(ast.parse(text).body[0]) == 2


def test_public_members_are_counted() -> None:
    text = "class C:\n a: int = 1\n _b = 2\n def c(self):\n  self.d = self._e = 1\n @property\n def f(self): ...\n"
    (cls,) = ast.parse(text).body
    assert isinstance(cls, ast.ClassDef)
    assert check_shape.members(cls) == 4
    (value,) = ast.parse("@attrs.frozen\n" + text).body
    assert isinstance(value, ast.ClassDef)
    assert check_shape.members(value) == 2


def test_comments_for_tools_do_not_count() -> None:
    assert check_shape.comments("x = 1  # noqa: E501\n# why\ny = 2  # type: ignore[x]\n") == 1


# ---- the API reference -----------------------------------------------------------------------------------------------


@attrs.frozen
class Base:
    """A value."""

    name: str


@attrs.frozen(kw_only=True)
class Point(Base):
    """A place.

    It has two numbers.

    Attributes:
        x: the first one,
            in two lines.
    """

    x: int = 0
    y: "list[int]" = attrs.field(factory=list[int])

    async def move(self, by: int, /, *, fast: bool = False) -> None:
        """Move it.

        Example::

            await point.move(1)
        """


def test_a_class_is_described_with_its_members() -> None:
    assert "\n".join(api_reference._describe("Point", Point)).split("\n") == [
        "## Point",
        "",
        "```text",
        "Point(*, x: int = 0, y: list[int] = ...)",
        "```",
        "",
        "A place.",
        "",
        "It has two numbers.",
        "",
        "**Attributes**",
        "",
        "- `x`: the first one,",
        "  in two lines.",
        "",
        "### Point.move",
        "",
        "```text",
        "async move(by: int, /, *, fast: bool = False) -> None",
        "```",
        "",
        "Move it.",
        "",
        "**Example**",
        "",
        "```text",
        "await point.move(1)",
        "```",
        "",
    ]


def test_the_api_reference_is_up_to_date() -> None:
    assert api_reference.PAGE.read_text(encoding="utf-8") == api_reference.overview(), "run `make surface`"


def test_every_public_name_is_listed() -> None:
    page = api_reference.overview()
    for module, names in api_reference.public_names().items():
        section = page.partition(f"\n## `{module}`\n")[2].partition("\n## ")[0]
        assert all(f"\n- `{name}`: " in section for name in names), module


def problems(source: str) -> list[str]:
    return [finding.problem for finding in check_messages.findings(HERE, source)]


def test_an_error_without_advice_is_found() -> None:
    assert problems('print_error(f"engine run: unknown file {x}")') == ["an error without a line `Next: …`"]
    assert problems('print_error(f"engine run: unknown file {x}\\nNext: engine help run")') == []
    assert problems('_HINTS: Final = {A: "(try it again)"}') == ["an error without a line `Next: …`"]
    assert problems('raise ConfigError("no such file")') == ["an error without a line `Next: …`"]
    assert problems('raise SessionNotFound("no session here")') == []
    # A notice, a text that was made elsewhere, and what a user asked for.
    for text in ('"waiting for a line"', 'f"engine run: {error}"', '"engine run: cancelled: nothing has changed"'):
        assert problems(f"print_error({text})") == []


def test_advice_can_be_pasted_or_done() -> None:
    for advice in (
        "engine run --continue --model MODEL",
        "engine config set KEY VALUE",
        "export A=b",
        "free some space",
    ):
        assert problems(f'print_error("engine run: no\\nNext: {advice}")') == []
        assert problems(f'x = Situation("no", ("{advice}",))') == []
    assert problems('print_error("engine run: no\\nNext: engine runs")') == ["not a command ('runs')"]
    assert problems('x = Situation("no", ("engine run --bad",))') == ["not a command (unknown flag: --bad)"]
    assert problems('print_error("engine run: no\\nNext: engine run, or wait")') == ["several ways in a line"]
    assert problems('print_error("engine run: no\\nNext: --force overwrites it")') == ["neither a command nor an act"]


def test_riddles_and_exclamations_are_found() -> None:
    assert problems('x = f"{model} goes on with it"') == ["a riddle (goes on with)"]
    assert problems('print_text("Done! Go on.")') == ["an exclamation (e!)"]
    assert problems('raise SessionNotFound("sorry, no file")') == ["blame or ornament (sorry)"]
    assert problems('"""Nobody told us, sorry!"""\nSQL = "told"\n') == []


def test_long_errors_are_found() -> None:
    assert problems(f'raise SessionNotFound("{"word " * 21}")') == ["105 characters in a line, more than 100"]
    assert problems('raise SessionNotFound("a b\\nc\\nd\\ne")') == ["4 lines, more than 3"]
    assert problems(f'x = "{"word " * 21}"') == []


def test_the_command_line_has_no_bad_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert (check_messages.main(), capsys.readouterr().out) == (0, "")
