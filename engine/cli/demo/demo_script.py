"""The repository of the demo, with a bug in it, and the script that plays the model.

The script builds its answers from the requests: it quotes what the tools really
returned, and fails the request if that is not what the demo expects.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.core.messages import Usage
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, HttpFailure, Pause, ScriptItem, call, done, spread, text

WORKERS: Final = "pids"


@attrs.frozen(kw_only=True)
class Act:
    """An act of the demo.

    Attributes:
        title: its heading.
        watch: what to notice.
        prompt: what the user says; empty: the history is summarised.
        is_cancelled: the turn is cancelled in the middle.
    """

    title: str
    watch: str
    prompt: str = ""
    is_cancelled: bool = False


ACTS: Final = (
    Act(
        title="1. A bug to fix",
        watch="five calls that only read run at the same time. What runs a program or writes a file asks first. The second "
        "edit quotes a line with the wrong indentation, and finds it all the same.",
        prompt="The tests of this little shop fail. Find out why, fix it, and show that they pass.",
    ),
    Act(
        title="2. A command that would take minutes, cancelled while it runs",
        watch="what the cancel does to the call that runs, to the call that waits, and to the processes.",
        prompt="Now run the load test.",
        is_cancelled=True,
    ),
    Act(
        title="3. The same session continues",
        watch="the history is whole, so the model knows what was cancelled.",
        prompt="Forget the load test. Is the fix still there? Say in a sentence what was wrong.",
    ),
    Act(
        title="4. The history becomes too long",
        watch="a summary replaces it. This happens by itself when the model's window is full.",
    ),
    Act(
        title="5. Work continues with the summary",
        watch="the request holds the summary instead of all that was read.",
        prompt="Is anything left to do?",
    ),
)
_FACT: Final = "discounted() took a percentage for a fraction. It divides by 100 now, and the tests pass."

_OVER: Final = "This model is a script, and the script is over. With a key for a model, `engine serve` opens this page for real work."

_FILES: Final[Mapping[str, str]] = {
    "README.md": """\
# A little shop

Prices, and discounts in percent. `sh check` runs the tests, `sh load-test` a test that takes minutes.
""",
    "prices.py": '''\
"""Prices of a little shop."""


def discounted(price, percent):
    """Return *price* less *percent* percent of it."""
    return price - price * percent


def total(prices, percent=0):
    """Return what *prices* come to, less the discount."""
    return sum(discounted(price, percent) for price in prices)
''',
    "test_prices.py": """\
import unittest

from prices import discounted, total


class Prices(unittest.TestCase):
    def test_without_a_discount(self):
        self.assertEqual(total([20, 30]), 50)

    def test_ten_percent_off(self):
        self.assertEqual(discounted(200, 10), 180)


if __name__ == "__main__":
    unittest.main()
""",
    "load-test": f"""\
# Workers of three kinds: one that goes when it is asked to, one that ignores being asked, and one that has left
# the process group. Each would run for five minutes.
sleep 300 & echo $! >>{WORKERS}
(trap '' TERM; exec sleep 300) & echo $! >>{WORKERS}
if command -v setsid >/dev/null; then setsid sleep 300 & echo $! >>{WORKERS}; fi
echo "load test: the workers are running"
wait
""",
}


def write_repository(folder: Path) -> None:
    """Write the repository into a new folder."""
    folder.mkdir()
    for name, content in _FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    # -E: variables like PYTHONPATH must not decide whether a test passes.
    tests = f"exec {shlex.quote(sys.executable)} -E -B -m unittest\n"
    (folder / "check").write_text(tests, encoding="utf-8")


def usage_of(step: int) -> Usage:
    """Return the usage that the server reports for answer number *step*, counted from 0."""
    return Usage(input=900 + 350 * step, output=60 + 10 * step)


def answer(step: int, request: ReceivedRequest, *, is_served: bool = False) -> Answer:
    """Return answer number *step*, counted from 0, for *request*; *is_served*: users may ask more than the script."""
    if is_served and step >= len(_STEPS):
        return [*_say(_OVER), *done("stop", usage=usage_of(step))]
    # The request must contain the results of the real tools, or the demo would prove nothing.
    make, expected = _STEPS[step] if step < len(_STEPS) else (None, "")
    if make is None or expected not in _everything(request):
        # Status 400: the provider does not retry it.
        return [HttpFailure(400, f"the demo's script expected {expected!r} in request number {step + 1}")]
    return [*make(request), *done("calls" if step not in _LAST_OF_TURN else "stop", usage=usage_of(step))]


def _everything(request: ReceivedRequest) -> str:
    return request.body.decode()


def _say(words: str) -> tuple[ScriptItem, ...]:
    # In small pieces with pauses, as a real model streams.
    return spread(text(words, pieces=max(1, len(words) // 12)), 0.02)


def _look(_: ReceivedRequest) -> Answer:
    return [
        *_say("I'll look at everything at once: these five calls only read, so they may run side by side."),
        *call("list", {"path": "."}, id="look_1"),
        *call("grep", {"pattern": "percent", "glob": "*.py"}, id="look_2"),
        *call("read", {"path": "README.md"}, id="look_3"),
        *call("read", {"path": "prices.py"}, id="look_4"),
        *call("read", {"path": "test_prices.py"}, id="look_5"),
    ]


def _summarise(_: ReceivedRequest) -> Answer:
    headings = ("Objective", "Decisions", "Done", "In progress", "Blocked", "Next steps", "Files", "Facts")
    known = {"Objective": "Make the shop's tests pass.", "Done": _FACT, "Files": "prices.py"}
    return _say("\n\n".join(f"## {heading}\n\n{known.get(heading, 'None.')}" for heading in headings))


def _nothing_left(_: ReceivedRequest) -> Answer:
    return _say("Nothing: the fix is in, and the tests pass. The load test was cancelled on purpose.")


def _run_the_tests(_: ReceivedRequest) -> Answer:
    return [
        *_say("A discount is in percent, but `price * percent` takes all of it. Let me see what the tests say."),
        *call("bash", {"command": "sh check"}, id="tests_1"),
    ]


def _fix(request: ReceivedRequest) -> Answer:
    failure = re.search(r"AssertionError: (.*)", request.results[-1])
    return [
        *_say(
            f"It failed with `{failure[1] if failure else '?'}`.\n"
            "I'll divide by 100, correct a docstring, and run the tests again: calls that write run one after the other."
        ),
        *call(
            "edit",
            {
                "path": "prices.py",
                "old_string": "return price - price * percent",
                "new_string": "return price - price * percent / 100",
            },
            id="fix_1",
        ),
        # The model has lost the indentation: the file has four spaces.
        *call(
            "edit",
            {
                "path": "prices.py",
                "old_string": '  """Return what *prices* come to, less the discount."""\n'
                "  return sum(discounted(price, percent) for price in prices)",
                "new_string": '  """Return what *prices* come to, less *percent* percent."""\n'
                "  return sum(discounted(price, percent) for price in prices)",
            },
            id="fix_2",
        ),
        *call("bash", {"command": "sh check"}, id="fix_3"),
    ]


def _report(request: ReceivedRequest) -> Answer:
    count = re.search(r"Ran \d+ tests?", request.results[-1])
    return [
        *_say(f"Fixed. {count[0] if count else '?'}: all of them pass. A percentage was used as if it were a fraction.")
    ]


def _run_the_load_test(_: ReceivedRequest) -> Answer:
    return [
        *_say("It takes minutes. A second call waits for it to be over."),
        *call("bash", {"command": "sh load-test", "timeout": 300}, id="load_1"),
        *call("bash", {"command": "echo the load test is over"}, id="load_2"),
    ]


def _look_again(_: ReceivedRequest) -> Answer:
    return [
        *_say("The load test was cancelled, as its result says. I'll look at the file."),
        *call("read", {"path": "prices.py"}, id="again_1"),
    ]


def _finish(_: ReceivedRequest) -> Answer:
    return [
        *_say("The fix is there. The discount was multiplied by 10 where it should have been 10 percent."),
        Pause(0.05),
    ]


# Each answer, and the text that its request must hold: what the tools really did.
_STEPS: Final[tuple[tuple[Callable[[ReceivedRequest], Answer], str], ...]] = (
    (_look, ACTS[0].prompt),
    (_run_the_tests, "return price - price * percent"),
    (_fix, "AssertionError: -1800 != 180"),
    (_report, "OK\\n[exit code 0"),
    (_run_the_load_test, ACTS[1].prompt),
    (_look_again, "load test: the workers are running"),
    (_finish, "price * percent / 100"),
    (_summarise, ACTS[2].prompt),
    (_nothing_left, _FACT),
)
_LAST_OF_TURN: Final = frozenset({3, 6, 7, 8})
