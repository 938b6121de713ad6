"""Where the chunks of a patch belong: at the one place that the patch can mean."""

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.files.line_diff import differences
from engine.tools.edit.match import Ambiguous, Missing
from engine.tools.edit.patch_format import UpdateFile, parse_patch
from engine.tools.edit.patch_match import Placed, Unplaced, place_chunks
from engine.tools.edit.source_text import SourceText


def placed(text: str, body: str, *, fuzzy: bool = True) -> tuple[Placed, ...] | Unplaced:
    (update,) = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    assert isinstance(update, UpdateFile)
    return place_chunks(SourceText(text), update.chunks, fuzzy=fuzzy)


def patched(text: str, body: str, *, fuzzy: bool = True) -> str | Unplaced:
    found = placed(text, body, fuzzy=fuzzy)
    if isinstance(found, Unplaced):
        return found
    return SourceText(text).spliced(splice for one in found for splice in one.splices)


CODE = """\
class A:
    def f(self):
        x = 1
        return x

    def g(self):
        x = 1
        return x


class B:
    def f(self):
        x = 1
        return x
"""


@pytest.mark.parametrize(
    ("text", "body", "after"),
    [
        ("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"),
        ("a\nb\nc\n", "-b", "a\nc\n"),
        ("a\nb", "-b\n+c\n+d", "a\nc\nd"),
        ("a\r\nb\r\n", " a\n-b\n+c", "a\r\nc\r\n"),
        # In the order of the file; the second is looked for behind the first.
        ("a\nx\nb\nx\n", " a\n-x\n+1\n@@\n-x\n+2", "a\n1\nb\n2\n"),
        # Its context may be that of the one before it, too, if it is nowhere else.
        ("a\nb\nc\nd\n", "-a\n b\n c\n@@\n b\n c\n-d", "b\nc\n"),
        ("a\nx\nx\n", "-a\n x\n@@\n-x", "x\n"),
        # A header, and what belongs to it.
        (
            CODE,
            "@@ class B:\n-        x = 1\n+        x = 2",
            "x = 2".join(CODE.rsplit("x = 1", 1)),
        ),
        (
            CODE,
            "@@ class A:\n@@     def g(self):\n-        x = 1\n+        x = 2",
            CODE.replace("g(self):\n        x = 1", "g(self):\n        x = 2"),
        ),
        (
            CODE,
            "@@ class A:\n@@ def g\n-        x = 1\n+        x = 2",
            CODE.replace("g(self):\n        x = 1", "g(self):\n        x = 2"),
        ),
        (
            CODE,
            "@@ def g(self):\n     def g(self):\n-        x = 1",
            CODE.replace("g(self):\n        x = 1\n", "g(self):\n"),
        ),
        # A header whose lines are not indented: what follows it.
        ("x\n# one\nx\n# two\nx\n", "@@ # two\n-x", "x\n# one\nx\n# two\n"),
        # A header that is not there does not matter if the lines are, once.
        ("a\nb\n", "@@ nowhere\n-b", "a\n"),
        # Lines without context.
        ("a\nb\n", "+c", "a\nb\nc\n"),
        ("a\nb", "+c", "a\nb\nc"),
        ("", "+c", "c\n"),
        ("a\nb\n", "@@ a\n+c", "a\nc\nb\n"),
        ("a\nb\n", "@@ a\n+c\n*** End of File", "a\nb\nc\n"),
        # The end of the file.
        ("x\na\nx\n", "-x\n*** End of File", "x\na\n"),
        ("a\nx\nb\n", "-x\n*** End of File", "a\nb\n"),
        ("s\nab1\ne\ns\nab2\ne\n", " s\n-abx\n+new\n e\n*** End of File", "s\nab1\ne\ns\nnew\ne\n"),
        # Context of nothing.
        ("a\nb\n", " a\n@@\n-b", "a\n"),
        # Not exactly.
        ("  a\n  b\n", " a\n-b\n+c", "  a\n  c\n"),
        ("begin\nalpha beta\nend\n", " begin\n alpha beto\n-end\n+END", "begin\nalpha beta\nEND\n"),
    ],
)
def test_places(text: str, body: str, after: str) -> None:
    assert patched(text, body) == after


@pytest.mark.parametrize(
    ("text", "body", "answer", "header"),
    [
        ("x\na\nx\n", "-x", Ambiguous("exact", (1, 3), 2), None),
        (CODE, "@@ class A:\n-        x = 1", Ambiguous("exact", (3, 7), 2), None),
        (CODE, "@@ def f(self):\n-        x = 1", Ambiguous("exact", (3, 13), 2), None),
        (CODE, "@@     def f(self):\n+        y = 1", None, "def f(self):"),
        ("a\nb\n", "@@ nowhere\n+b", None, "nowhere"),
        ("a\nb\nb\n", "@@ nowhere\n-b", None, "nowhere"),
        ("a\nb\n", "-b\n@@\n-a", Missing("absent", (1, 1)), None),  # not in the order of the file
        ("a\nb\nc\n", " a\n-b\n c\n@@\n b\n-c", Missing("absent", (2, 3)), None),  # nor may it need a line that is gone
        ("a\nb\n", "-c", Missing("absent"), None),
        ("  a\n  b\n-\n a\n b\n", " a\n-b", Ambiguous("indentation-flexible", (1, 4), 2), None),
        ("s\na\nNEW\nb\ne\n", " s\n-a\n b\n e", Missing("lossy", (1, 5)), None),
    ],
)
def test_uncertain_match_is_refused(text: str, body: str, answer: object, header: str | None) -> None:
    found = placed(text, body)
    assert isinstance(found, Unplaced)
    assert (found.answer, found.header) == (answer, header)


@pytest.mark.parametrize("between", [0, 300])
@pytest.mark.parametrize("body", ["@@ def f():\n-    x = 1\n+    x = 2", "@@ def f():\n+    x = 2"])
def test_long_header_matches_nothing(between: int, body: str) -> None:
    text = "def f():\n    x = 1\n" + "def f():\n    y = 1\n" * between + "def f():\n    x = 1\n"
    assert isinstance(placed(text, body), Unplaced)


def test_exactly_only() -> None:
    assert isinstance(placed("  a\n  b\n", " a\n-b", fuzzy=False), Unplaced)


_lines = st.lists(st.sampled_from(["a", "b", "  a", "", "c"]), max_size=12)


def body_of(old: list[str], new: list[str], context: int) -> str:
    """Return a patch as a program would write it."""
    parts: list[str] = []
    for difference in differences(old, new):
        before = old[max(0, difference.start - context) : difference.start]
        behind = old[difference.end : difference.end + context]
        parts += ["@@", *(f" {line}" for line in before)]
        parts += [f"-{line}" for line in old[difference.start : difference.end]]
        parts += [f"+{line}" for line in new[difference.new_start : difference.new_end]]
        parts += [f" {line}" for line in behind]
    return "\n".join(parts)


@given(_lines, _lines, st.integers(0, 20))
def test_patch_gives_new_text_or_is_refused(old: list[str], new: list[str], context: int) -> None:
    assume(old != new)
    # Contexts of two changes must not overlap: such a patch has them in one.
    context = context if len(differences(old, new)) == 1 else 0
    text = "".join(f"{line}\n" for line in old)
    after = patched(text, body_of(old, new, context), fuzzy=False)
    if context == 20:  # all of the file
        assert isinstance(after, Unplaced) or after == "".join(f"{line}\n" for line in new)


@given(st.integers(1, 30), st.data())
def test_with_lines_that_differ_it_is_always_placed(size: int, data: st.DataObject) -> None:
    old = [f"line {n}" for n in range(size)]
    new = list(old)
    for index in sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=3)), reverse=True):
        new[index : index + 1] = data.draw(st.sampled_from([[], ["new"], ["new", "newer"], [old[index], "added"]]))
    assume(old != new)
    text = "".join(f"{line}\n" for line in old)
    gaps = differences(old, new)
    assume(all(gap.start != gap.end for gap in gaps))
    after = patched(text, body_of(old, new, 0))
    assert after == "".join(f"{line}\n" for line in new)


def test_many_headers_take_no_long() -> None:
    text = "}\n" * 20_000
    start = time.process_time()
    assert isinstance(placed(text, "@@ }\n@@ }\n-x"), Unplaced)
    assert time.process_time() - start < 2
