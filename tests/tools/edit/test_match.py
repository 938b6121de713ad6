"""Where an edit belongs: exactly there, at the one place that must be meant, or nowhere."""

import ast
import textwrap
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.tools.edit.match import Ambiguous, Answer, Matched, Missing, find, find_lines
from engine.tools.edit.match_lines import SIMILARITY
from engine.tools.edit.source_text import SourceText
from engine.tools.edit.splices import Request


def edited(text: str, old: str, new: str) -> tuple[str, tuple[tuple[int, int], ...], str] | Answer:
    source = SourceText(text)
    answer = find(source, old, new)
    return (answer.tier, answer.lines, source.spliced(answer.splices)) if isinstance(answer, Matched) else answer


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a b c\n", "b", "x", ("exact", ((1, 1),), "a x c\n")),
        ("a\nb\nc\n", "a\nb\n", "x", ("exact", ((1, 2),), "xc\n")),
        ("a\nb\n", "\n", " ", Ambiguous("exact", (1, 2), 2)),
        ("aaa", "aa", "b", Ambiguous("exact", (1, 1), 2)),
        # Ambiguous is final: no tier may choose among exact places (#41872).
        ("  foo\nfoo bar\n", "foo", "x", Ambiguous("exact", (1, 2), 2)),
        # Line endings: found whatever they are, kept as they are.
        ("a\r\nb\r\nc", "a\nb", "x\ny\nz", ("exact", ((1, 2),), "x\r\ny\r\nz\r\nc")),
        ("a\r\nb\nc\n", "a\nb\nc", "a\nx\nc", ("exact", ((1, 3),), "a\r\nx\nc\n")),
        ("a\nb\r\nc\n", "a\r\nb\r\nc", "a\nx\ny\nc", ("exact", ((1, 3),), "a\nx\r\ny\r\nc\n")),
        ("a\nb\n", "a\r\nb", "x\r\ny", ("exact", ((1, 2),), "x\ny\n")),
        # Blanks are looked for exactly or not at all.
        ("a\n", "  ", "x", Missing("absent")),
    ],
)
def test_exact(text: str, old: str, new: str, expected: object) -> None:
    assert edited(text, old, new) == expected


def test_all_of_them() -> None:
    source = SourceText("aaa a\r\naa")
    answer = find(source, "aa", "x\ny", replace_all=True)
    assert isinstance(answer, Matched)
    assert (answer.tier, answer.lines) == ("exact", ((1, 1), (2, 2)))
    assert source.spliced(answer.splices) == "x\r\nya a\r\nx\r\ny"


@pytest.mark.parametrize("new", ["$&", r"\1", "$$", r"\g<0>", "$1", "\\n", "%s", "{0}"])
@pytest.mark.parametrize(
    ("text", "old"), [("a.c\n", "."), ("  a.c\n", " a.c "), ("a. b\n", "a.  b"), ("s\n  a.\ne\n", "s\na.\ne")]
)
def test_new_text_is_literal(text: str, old: str, new: str) -> None:
    after = edited(text, old, old.replace("a.", new) if "\n" in old else new)
    assert isinstance(after, tuple), after
    assert new in after[2]


PYTHON = """class A:
    def f(self):
        if x:
            return 1
        return 2

    def g(self):
        return 3
"""


@pytest.mark.parametrize(
    ("tier", "text", "old", "new", "after"),
    [
        (
            "indentation-flexible",
            PYTHON,
            "if x:\n    return 1\nreturn 2",
            "if x:\n    return 1\nelif y:\n    while z:\n        pass\nreturn 4",
            PYTHON.replace(
                "        return 2\n",
                "        elif y:\n            while z:\n                pass\n        return 4\n",
            ),
        ),
        ("indentation-flexible", "a\n\tb\n\n\tc\n", "b\n\nc", "b\n\nd\ne", "a\n\tb\n\n\td\n\te\n"),
        ("indentation-flexible", "a\nb\n", "    a\n    b\n", "    a\n    c\n        d\n", "a\nc\n    d\n"),
        # Only one of two places that are equal but for blanks has the relative indentation of the request.
        ("indentation-flexible", "  a\n  b\n-\n  a\n    b\n", "a\nb", "a\nc", "  a\n  c\n-\n  a\n    b\n"),
        ("line-trimmed", "if x:\n    y()  \n", "if x:\n  y()", "if x:\n  y()\n  z()", "if x:\n    y()  \n    z()\n"),
        (
            "line-trimmed",
            "\tif x:\n\t\ty()\n",
            "if x:\n    y()\n",
            "if x:\n    y()\n    for a in b:\n        c()\n",
            "\tif x:\n\t\ty()\n\t\tfor a in b:\n\t\t\tc()\n",
        ),
        (
            "line-trimmed",
            "    if x:\n        y()\n",
            "\tif x:\n\t\ty()\n",
            "\tif x:\n\t\ty()\n\t\tif z:\n\t\t\tw()\n\tv()\n",
            "    if x:\n        y()\n        if z:\n            w()\n    v()\n",
        ),
        # The first line often lacks its blanks; that is not how all of it is indented.
        (
            "line-trimmed",
            "    if x:\n        y()\n",
            "if x: \n        y()",
            "while x:\n        y()\n    else:\n        z()",
            "    while x:\n        y()\n    else:\n        z()\n",
        ),
        # A file without any indentation tells nothing about it.
        ("line-trimmed", "a: \nb\n", "a:\nb\n", "a:\n\tc\nb\n", "a: \n\tc\nb\n"),
        ("whitespace-normalised", "x  =  1\ny = 2\n", "x = 1\ny  = 2", "x = 1\ny  = 3", "x  =  1\ny  = 3\n"),
        ("whitespace-normalised", "if f(a,   b): pass\n", "f(a, b)", "g()", "if g(): pass\n"),
        ("whitespace-normalised", "v = f(a,\tb)  # x\n", "  f(a, b)  ", "  g()  ", "v = g()  # x\n"),
        ("punctuation-normalised", "“a” – b…\nc\n", '"a" - b...\nc', '"a" - b...\nd', "“a” – b…\nd\n"),
        ("escape-normalised", 'p("a")\n', 'p(\\"a\\")', 'p(\\"b\\")', 'p("b")\n'),
        ("escape-normalised", "a\n\tb\n", "a\\n\\tb", "a\\n\\tc", "a\n\tc\n"),
        ("escape-normalised", "a $b `c` \\d\n", "a \\$b \\`c\\` \\\\d", "\\$", "$\n"),
        ("trimmed-boundary", "x = [a]\n", "\n [a]\n", "\n [c]\n", "x = [c]\n"),
        ("trimmed-boundary", "x = [a,\n  b]\n", " [a,\n  b]  ", " [c]  ", "x = [c]\n"),
        # The lines that the request keeps stay what they are, and what it changes is what it says.
        (
            "block-anchor",
            "begin\n    total += prices[i]\n\n    count = count + 1\nend\n",
            "begin\n    total += price[i]\n    count = count+1\nend\n",
            "begin\n    total += price[i]\n    count = 0\n    done()\nend\n",
            "begin\n    total += prices[i]\n\n    count = 0\n    done()\nend\n",
        ),
        # A line of the request that the file has not is not put in.
        (
            "block-anchor",
            "begin\nalpha\nbeta\ngamma\nend\n",
            "begin\nalpha\nbeta\ngamma\nimagined\nend",
            "begin\nalpha\nBETA\ngamma\nimagined\nend",
            "begin\nalpha\nBETA\ngamma\nend\n",
        ),
        ("block-anchor", "a\n\nb\n", "a\n\n\nb", "a\n\n\nc", "a\n\nc\n"),
        (
            "context-aware",
            "begin\none\ntwo\nentirely different\nand more\nend\n",
            "begin\none\ntwo\n1234\n5678\nend",
            "begin\none\nTWO\n1234\n5678\nend",
            "begin\none\nTWO\nentirely different\nand more\nend\n",
        ),
    ],
)
def test_tiers(tier: str, text: str, old: str, new: str, after: str) -> None:
    found = edited(text, old, new)
    assert isinstance(found, tuple), found
    assert (found[0], found[2]) == (tier, after)
    # With CR LF too.
    found = edited(text.replace("\n", "\r\n"), old, new)
    assert isinstance(found, tuple), found
    assert (found[0], found[2]) == (tier, after.replace("\n", "\r\n"))
    # And only if it is allowed.
    assert isinstance(find(SourceText(text), old, new, fuzzy=False), Missing)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        # Several places in the first tier that finds any.
        ("  a\n  b\n-\n    a\n    b\n", "a\nb", "a\nc", Ambiguous("indentation-flexible", (1, 4), 2)),
        ("x  =  1\nx =  1\n", "x = 1", "y", Ambiguous("whitespace-normalised", (1, 2), 2)),
        ("s\nabcd\ne\ns\nabce\ne\n", "s\nabcf\ne", "x", Ambiguous("block-anchor", (1, 4), 2)),
        # A part of a word is meant exactly, or not at all (#31785).
        ("max  = 10\n", "x = 1", "y", Missing("absent", (1, 1))),
        ("max  = 1\n", "x = 1", "y", Missing("absent", (1, 1))),
        ("foobar\n", " foo ", "x", Missing("absent", (1, 1))),
        # Escapes in the new text that the old one has not: nobody knows whether they are meant.
        ('p("a")\n', 'p(\\"a\\")', 'p(\\"b\\n\\")', Missing("absent", (1, 1))),
        # Much larger than asked for.
        (f"a{' ' * 600}b\n", "a b", "x", Missing("lossy", (1, 1))),
        # Lines would go that the request does not have.
        ("s\na\nb\nc\nKEPT\nd\ne\n", "s\na\nb\nc\nd\ne", "x", Missing("lossy", (1, 7))),
        ("s\na\nb\nc\nKEPT\nd\ne\n", "s\na\nb\nc\n\nd\ne", "x", Missing("lossy", (1, 7))),
        ("s\na\nb\nc\nKEPT\nd\ne\n", "s\na\nb\nc\n\nd\ne", "s\na\nb\nC\n\nd\ne", Missing("lossy", (1, 7))),
        ("s\na\nb\nwholly other\ne\n", "s\na\nb\n1\ne", "s\na\nb\n2\ne", Missing("lossy", (1, 5))),
        # No anchors, or too little between them that is equal.
        ("s\na\ne\n", "\nx\ne", "y", Missing("absent", (1, 3))),
        ("s\nabcd\nefgh\nijkl\ne\n", "s\nabcd\n1\n2\ne", "y", Missing("absent", (1, 5))),
        # A line of the file stands where the request has a blank one.
        ("s\na\nX\n\nY\nc\ne\n", "s\na\n\nq\nr\nc\ne", "s\nA\n\nq\nr\nc\ne", Missing("absent", (1, 7))),
        # Nothing at all.
        ("a\nb\n", "quite something else", "x", Missing("absent")),
        ("", "a", "b", Missing("absent")),
    ],
)
def test_uncertain_edit_is_refused(text: str, old: str, new: str, expected: Answer) -> None:
    assert edited(text, old, new) == expected


@pytest.mark.parametrize("blank", ["", "\n", "\n\n"])
@pytest.mark.parametrize(("equal", "is_accepted"), [(64, False), (65, True), (66, True)])
def test_the_similarity_of_a_block(equal: int, is_accepted: bool, blank: str) -> None:
    """Blank lines neither raise nor lower it."""
    assert SIMILARITY == 0.65
    text = f"begin\n{blank}{'a' * equal}{'b' * (100 - equal)}\n{blank}end\n"
    found = edited(text, f"begin\n{'a' * 100}\n{blank}end", "begin\nNEW\nend")
    assert isinstance(found, tuple if is_accepted else Missing)
    if isinstance(found, tuple):
        assert found[0] == "block-anchor"
        assert "NEW" in found[2]


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        # What it would make is there.
        ("begin\n  alpha two\nend\n", "begin\nalpha one\nend", "begin\nalpha two\nend", Missing("applied", (1, 3))),
        # One of several equal lines has gone.
        (
            "begin\n" + "alpha = 1\n" * 6 + "end\n",
            "begin\n" + "alpha=1\n" * 7 + "end\n",
            "begin\n" + "alpha=1\n" * 6 + "end\n",
            Missing("applied", (1, 8)),
        ),
        (
            "begin\n" + "alpha = 1\n" * 6 + "\nalpha = 1\nend\n",
            "begin\n" + "alpha=1\n" * 7 + "\nalpha=1\nend\n",
            "begin\n" + "alpha=1\n" * 6 + "\nalpha=1\nend\n",
            Missing("applied", (1, 10)),
        ),
        # Nothing would be put there but what is there.
        ('x = p("a")\n', 'p(\\"a\\")', 'p("a")', Missing("applied", (1, 1))),
        # It is there with another indentation, and would be indented once more.
        ("a\n        b\n", "a\n  b", "a\n    b", Missing("absent", (1, 2))),
        # It is there, and there is another place that is like the old one.
        (
            "f:\n  nothing\n  alike()\nend\nf:\n  item 4\n  walk()\nend\n",
            "f:\n  item 3\n  walked()\nend",
            "f:\n  nothing\n  alike()\nend",
            Missing("applied", (1, 4)),
        ),
    ],
)
def test_applied_edit_is_not_repeated(text: str, old: str, new: str, expected: Answer) -> None:
    assert edited(text, old, new) == expected


# -- properties -------------------------------------------------------------------------------

_line = st.sampled_from(["a", "b", "  a", "\tb", "a  b", "", "x = 1", "x = 2", "end"])
_text = st.lists(_line, max_size=10).map("\n".join)


@given(_text, _text.filter(bool), _text)
def test_outside_of_the_place_nothing_changes(text: str, old: str, new: str) -> None:
    assume(old != new)
    source = SourceText(text)
    answer = find(source, old, new)
    if not isinstance(answer, Matched):
        return
    ((first, last),) = answer.lines
    before, after = text.split("\n"), source.spliced(answer.splices).split("\n")
    assert after[: first - 1] == before[: first - 1]
    # A deleted line takes its end along, and the text may end before the place does.
    behind = before[last + 1 :] if answer.tier == "exact" else before[last:]
    assert after[len(after) - len(behind) :] == behind


@given(_text, st.text("ab \n", min_size=1, max_size=5), st.text("ab \n", max_size=5))
def test_exact_means_exact(text: str, old: str, new: str) -> None:
    source = SourceText(text)
    places = [i for i in range(len(text)) if text.startswith(old, i)]
    answer = find(source, old, new)
    if len(places) == 1:
        assert isinstance(answer, Matched)
        assert answer.tier == "exact"
        assert source.spliced(answer.splices) == text[: places[0]] + new + text[places[0] + len(old) :]
    elif places:
        assert isinstance(answer, Ambiguous)
        assert len(answer.lines) == len(places)
    elif isinstance(answer, Matched):
        assert answer.tier != "exact"


@st.composite
def _blocks(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Lines of Python that parse, with blocks in blocks."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, 99))
        if depth < 3 and draw(st.booleans()):
            head = draw(st.sampled_from(["if x{}:", "while y{}:", "def f{}():", "for z in g({}):"]))
            lines.append(head.format(number))
            lines += ["    " + line for line in draw(_blocks(depth + 1))]
        else:
            lines.append(f"v{number} = {draw(st.integers(0, 9))}")
        if draw(st.integers(0, 5)) == 0:
            lines.append("")
    while not lines[-1]:
        lines.pop()
    return lines


def _reindented(lines: list[str], unit: str, prefix: str) -> str:
    """Return lines as somebody writes them who indents otherwise."""
    widths = [len(line) - len(line.lstrip()) for line in lines]
    return "\n".join(
        prefix + unit * (width // 4) + line.lstrip() if line else "" for line, width in zip(lines, widths, strict=True)
    )


@given(
    before=_blocks(),
    block=_blocks(),
    replacement=_blocks(),
    keeps=st.booleans(),
    depth=st.integers(0, 3),
    file_unit=st.sampled_from(["  ", "    ", "\t"]),
    request_unit=st.sampled_from(["  ", "    ", "\t"]),
    prefix=st.sampled_from(["", "  ", "        "]),
)
def test_python_still_parses(
    before: list[str],
    block: list[str],
    replacement: list[str],
    keeps: bool,
    depth: int,
    file_unit: str,
    request_unit: str,
    prefix: str,
) -> None:
    """A block is replaced, or added to, by a request that indents it in a way of its own."""
    heads = [f"class C{level}:" for level in range(depth)]
    nested = [f"{'    ' * level}{head}" for level, head in enumerate(heads)]
    inner = [("    " * depth + line) if line else "" for line in [*before, "marker()", *block]]
    text = _reindented([*nested, *inner], file_unit, "") + "\n"
    new_lines = ["marker()", *block, *replacement] if keeps else ["marker()", *replacement]
    old, new = _reindented(["marker()", *block], request_unit, prefix), _reindented(new_lines, request_unit, prefix)
    assume(old != new)
    source = SourceText(text)
    answer = find(source, old, new)
    if not isinstance(answer, Matched):
        assert isinstance(answer, Ambiguous) or answer.why == "applied"
        return
    if answer.tier == "exact" and not (request_unit == file_unit or all(not line.startswith(" ") for line in block)):
        return
    if answer.tier == "exact" and (request_unit != file_unit or prefix != file_unit * depth):
        return  # taken literally, as it is a part of a line or has no second line that tells
    after = source.spliced(answer.splices)
    ast.parse(after)
    wanted = _reindented(
        [*nested, *[("    " * depth + line) if line else "" for line in [*before, *new_lines]]], "    ", ""
    )
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(wanted))


_code = st.lists(
    st.sampled_from(["alpha = 1", "beta(alpha)", "gamma[beta]", "if delta:", "    epsilon()", "", "return zeta"]),
    min_size=1,
    max_size=8,
)


@given(_code, _code, _code, st.data())
def test_applying_it_again_is_refused(head: list[str], block: list[str], tail: list[str], data: st.DataObject) -> None:
    """Unless the new text has the old one in it, exactly."""
    sloppy = data.draw(
        st.sampled_from([lambda line: line, str.strip, lambda line: line.replace(" = ", "="), lambda line: line[:-1]])
    )
    index = data.draw(st.integers(0, len(block) - 1))
    text = "\n".join([*head, "begin()", *block, "finish()", *tail])
    old = "\n".join(["begin()", *map(sloppy, block), "finish()"])
    edit = data.draw(st.sampled_from(["replace", "insert", "delete"]))
    changed = [*map(sloppy, block)]
    changed[index : index + (edit != "insert")] = [] if edit == "delete" else ["    changed(everything)"]
    new = "\n".join(["begin()", *changed, "finish()"])
    assume(new not in text)
    assume(old not in new)
    source = SourceText(text)
    first = find(source, old, new)
    if isinstance(first, Matched):
        again = SourceText(source.spliced(first.splices))
        second = find(again, old, new)
        assert not isinstance(second, Matched), again.spliced(second.splices)


# -- whole lines, for patches -------------------------------------------------------------------


def test_whole_lines_within_a_range() -> None:
    source = SourceText("ab\na\nb\n-\na\nb\n  a\n")
    a = Request(("a",), ("x",))
    assert find_lines(source, a, (range(7),)) == Ambiguous("exact", (2, 5), 2)
    answer = find_lines(source, a, (range(2, 7),))
    assert isinstance(answer, Matched)
    assert source.spliced(answer.splices) == "ab\na\nb\n-\nx\nb\n  a\n"
    answer = find_lines(source, a, (range(7),), at_end=True)
    assert isinstance(answer, Matched)
    assert (answer.tier, source.spliced(answer.splices)) == ("indentation-flexible", "ab\na\nb\n-\na\nb\n  x\n")
    assert find_lines(source, a, (range(7),), at_end=True, fuzzy=False) == Missing("absent", (2, 2))
    assert find_lines(source, Request(("c",), ()), (range(7),)) == Missing("absent")
    answer = find_lines(source, Request(("-", "a", "b"), ()), (range(7),))
    assert isinstance(answer, Matched)
    assert source.spliced(answer.splices) == "ab\na\nb\n  a\n"


# -- many places, many lines ----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_many_places(end: str) -> None:
    text = f"ab{end}" * 5_000
    assert find(SourceText(text), "ab", "x") == Ambiguous("exact", tuple(range(1, 1_001)), 5_000)
    source = SourceText(text)
    answer = find(source, "ab", "x\\1\ny", replace_all=True)
    assert isinstance(answer, Matched)
    assert (len(answer.lines), answer.count) == (1_000, 5_000)
    assert source.spliced(answer.splices) == f"x\\1{end}y{end}" * 5_000
    mixed = SourceText(f"{text}\r\n\n")
    answer = find(mixed, "ab\nab", "x\ny", replace_all=True)
    assert isinstance(answer, Matched)
    assert mixed.spliced(answer.splices) == f"x{end}y{end}" * 2_500 + "\r\n\n"


def test_very_long_file_needs_an_exact_match() -> None:
    text = "a\n" * 500_001
    assert find(SourceText(text), " a \n b", "x") == Missing("long")
    answer = find(SourceText(f"{text}b"), "b", "x")
    assert isinstance(answer, Matched)
    assert answer.lines == ((500_002, 500_002),)


@pytest.mark.parametrize("between", [0, 100, 300, 3_000])
@pytest.mark.parametrize("changed", [" = 2", "nothing at all like it"], ids=["block-anchor", "context-aware"])
def test_ambiguous_blocks_are_refused(between: int, changed: str) -> None:
    """However many others stand between two that are alike, and are not worth comparing."""
    block = "begin\n  a = 1\n  b = 1\n  c = 1\nend\n"
    text = block + "begin\n  xxxxx\n  yyyyy\n  zzzzz\nend\n" * between + block
    old = block.replace("b = 1", f"b{changed}")
    answer = find(SourceText(text), old, old.replace("c = 1", "c = 2"))
    assert not isinstance(answer, Matched)


@pytest.mark.parametrize(
    ("text", "old", "after"),
    [
        ("x\n\ta  =\t b + c\n", "a = b  +", "x\n\tNEW c\n"),
        ("é  a\r\n  b ü  c d\r\n", "ü c", "é  a\r\n  b NEW d\r\n"),
        ("a b ab  a", "b  ab a", "a NEW"),
        ("ab  c\n", "b c", None),
        ("a  bc\n", "a b", None),
        ("a\nb\n", "a  b", None),
    ],
)
def test_different_spacing_between_words(text: str, old: str, after: str | None) -> None:
    source = SourceText(text)
    answer = find(source, old, "NEW")
    assert (source.spliced(answer.splices) if isinstance(answer, Matched) else None) == after


# -- time ---------------------------------------------------------------------------------------


def test_bad_input_takes_no_long() -> None:
    """Many equal lines, long lines, anchors everywhere: the work is bounded."""
    same = "x = 1\n" * 20_000
    cases = [
        (same, "x = 2\n" * 500, "y"),
        (same, "x = 1 \n" * 500, "y"),
        ("}\n{\n" * 10_000, "}\n" + "a\n" * 300 + "}\n", "y"),
        ("a " * 500_000, "a  b", "y"),
        ("a " * 100_000, "a  " * 5_000 + "b", "y"),
        ("- a " * 100_000, " " + "- a " * 5_000 + "b", "y"),
        (("a" + " " * 999) * 500, "a b", "y"),
        ("begin\n" + "y" * 1_000_000 + "\nend\n", "begin\n" + "x" * 1_000_000 + "\nend", "z"),
    ]
    for text, old, new in cases:
        start = time.process_time()
        assert not isinstance(find(SourceText(text), old, new), Matched)
        assert time.process_time() - start < 10


def test_five_thousand_lines_are_quick() -> None:
    text = "".join(f"def f{n}(a, b):\n    x = a + {n}\n    y = b * {n}\n\n    return x - y\n" for n in range(1_000))
    old = textwrap.dedent("""
        def f777(a, b):
            x = a+777
            y = bb * 777
            return x - y
        """).strip()
    start = time.process_time()
    answer = find(SourceText(text), old, old.replace("x - y", "x + y"))
    assert time.process_time() - start < 2
    assert isinstance(answer, Matched)
    assert (answer.tier, answer.lines) == ("block-anchor", ((3_886, 3_890),))
