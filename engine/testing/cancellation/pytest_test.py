"""One marked test: it is set up, run with a cancel, and torn down, again and again.

Each run has fresh fixtures of function scope, as if it were a test of its own. With pytest-trio, asynchronous fixtures
live inside of the run, around the test function, and only the test function is cancelled.
"""

# pyright: reportPrivateUsage=false
# pytest offers no public way to set a test up again.

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import pytest
import trio

from engine.testing.cancellation.complaints import Complaints
from engine.testing.cancellation.enumeration import (
    CancelPlan,
    NoSuchPoint,
    NotRepeatable,
    PromiseBroken,
    TooManyPoints,
    seeds_from,
)
from engine.testing.cancellation.error_text import described, leaves
from engine.testing.cancellation.everywhere import describe_function, function_plan, run_options
from engine.testing.cancellation.function_run import (
    AsyncFunction,
    FunctionRun,
    RunOptions,
    check_run,
    new_run,
    perform,
    strike_function,
)
from engine.testing.cancellation.injections import Injection, parse_injection
from engine.testing.cancellation.subject_runs import RunSubject, run_everywhere

_OPTIONS = frozenset({"by", "every", "seconds", "schedules", "limit", "raises", "most_points", "repeatable"})
_OUTCOMES = (pytest.skip.Exception, pytest.xfail.Exception)


class AsyncTest(Protocol):
    """A test function, with its fixtures as arguments."""

    def __call__(self, **fixtures: object) -> Awaitable[object]:
        """Run it."""
        ...


class _Once(Protocol):
    def __call__(self, **fixtures: object) -> object: ...


@attrs.define(eq=False, kw_only=True)
class MarkedTest(RunSubject):
    """A test that `cancel_everywhere` marks.

    Attributes:
        item: pytest's test.
        function: the test function.
        plan: which cancels to try.
        options: of its runs.
        is_trio: pytest-trio runs it, with its fixtures.
    """

    item: pytest.Function
    function: AsyncTest
    plan: CancelPlan
    options: RunOptions
    is_trio: bool
    seed: int
    _once: _Once | None = attrs.field(default=None, init=False)
    _run: FunctionRun | None = attrs.field(default=None, init=False)
    _run_seed: int = attrs.field(default=0, init=False)
    _is_set_up: bool = attrs.field(default=True, init=False)
    _cancelled_runs: int = attrs.field(default=0, init=False)
    _points: int = attrs.field(default=0, init=False)
    _stash: dict[pytest.StashKey[object], object] = attrs.field(
        factory=dict["pytest.StashKey[object]", object], init=False
    )

    @classmethod
    def of(cls, item: pytest.Function, marker: pytest.Mark) -> MarkedTest:
        """Return the test of *item*. Fails the test if it can't be run in this way."""
        function = item.obj
        unallowed_keywords = [*map(repr, marker.args), *sorted(marker.kwargs.keys() - _OPTIONS)]
        if unallowed_keywords:
            allowed_keywords = ", ".join(sorted(_OPTIONS))
            pytest.fail(
                f"cancel_everywhere takes the keywords {allowed_keywords}, not {unallowed_keywords[0]}", pytrace=False
            )
        _refuse_other_tests(item)
        is_trio = _belongs_to_pytest_trio(item)
        if not is_trio:
            _refuse_async_fixtures(item)
        plan, options = _plan(item.config, marker)
        test = cls(item=item, function=function, plan=plan, options=options, is_trio=is_trio, seed=plan.seeds[0])
        test.name, test.location = describe_function(function)
        folder: Path | None = item.config.getoption("--cancel-everywhere-svg")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = "".join(letter if letter.isalnum() else "-" for letter in item.nodeid)
            test.svg = folder / f"{name}.svg"
        if is_trio:
            # pytest-trio takes the function from the item, and `run` from its marker.
            item.obj = test.armed()
            item.add_marker(pytest.mark.trio(run=test.run_in_trio), append=False)
        return test

    def armed(self) -> AsyncTest:
        """Return the test function, inside what can cancel it."""

        @functools.wraps(self.function)
        async def armed(**arguments: object) -> None:
            assert self._run is not None
            body = functools.partial(self.function, **arguments)
            await strike_function(self._run, self.options, body, name=self.name.rpartition(".")[2])

        return armed

    def replace_call(self, counts: dict[str, int]) -> None:
        """Let the call of the test function be a run for each cancel."""
        self._once = self.item.obj if self.is_trio else self._call_without_plugin

        # pytest passes the arguments of the first run by their names; each run looks for its own.
        def everything(**_: object) -> None:
            text = ""
            _skip_asyncio(self.item)
            try:
                counts["missed"] += run_everywhere(self, self.plan).missed
            except (PromiseBroken, NotRepeatable, TooManyPoints, NoSuchPoint) as error:
                text = str(error)
            self._add_to(counts, is_safe=not text)
            if text:
                # Outside of the handler: the text is all that there is to read.
                pytest.fail(text, pytrace=False)

        self.item.obj = everything

    def _add_to(self, counts: dict[str, int], *, is_safe: bool) -> None:
        counts["tests"] += 1
        counts["runs"] += self._cancelled_runs
        counts["points"] += self._points
        # The point before the first step is always there.
        counts["without_points"] += is_safe and self._points < 2

    # ---- one run -----------------------------------------------------------------------------------------------------

    def play(
        self, injection: Injection | None, seed: int, complaints: Complaints, *, is_detailed: bool = False
    ) -> FunctionRun:
        """Set the test up, run it, and tear it down."""
        if not self._is_set_up:
            self._set_up()
        run = self._run = new_run(injection, self.options, is_detailed=is_detailed)
        self._run_seed = seed
        self._cancelled_runs += injection is not None
        check_run(run, self.options, complaints, self._run_and_tear_down)
        if injection is None:
            self._points = max(self._points, len(run.points.names))
        self._run = None
        return run

    def again(self, injection: Injection | None, seed: int) -> str:
        """Return the command that repeats exactly one run."""
        only = "" if injection is None else f" --cancel-everywhere-only={shlex.quote(str(injection))}"
        return f"pytest {shlex.quote(self.item.nodeid)}{only} --cancel-everywhere-seed={seed}"

    def _set_up(self) -> None:
        self._is_set_up = True
        self.item._initrequest()
        self.item.session._setupstate.setup(self.item)

    def _run_and_tear_down(self) -> None:
        assert self._run is not None
        assert self._once is not None
        arguments = {name: self.item.funcargs[name] for name in self.item._fixtureinfo.argnames}
        try:
            self._once(**arguments)
        except _OUTCOMES:
            raise
        except Exception as error:  # noqa: BLE001  # of a fixture; the function's own are noted where they are raised
            self._note(error, "a fixture")
        finally:
            del arguments
            self._tear_down()

    def _tear_down(self) -> None:
        self._is_set_up = False
        # `tmp_path` removes at its teardown what pytest has noted about the test once: note it again.
        storage = self.item.stash._storage
        self._stash.update({key: value for key, value in storage.items() if key not in self._stash})
        storage.update(self._stash)
        try:
            # Everything but the module and the class of the test.
            self.item.session._setupstate.teardown_exact(self.item.parent)  # type: ignore[arg-type]  # it needs a chain
        except Exception as error:  # noqa: BLE001  # a fixture that does not like what the cancel has left
            self._note(error, "the teardown")

    def _note(self, error: BaseException, what: str) -> None:
        assert self._run is not None
        self._run.problems.append(f"{what} raised {'; '.join(map(described, leaves(error)))}")

    def run_in_trio(
        self, function: AsyncFunction, *, clock: trio.abc.Clock | None, instruments: Sequence[trio.abc.Instrument]
    ) -> None:
        """Run the test with its fixtures in Trio; pytest-trio calls this instead of `trio.run`."""
        assert self._run is not None

        def trio_run(
            body: AsyncFunction, /, *, clock: trio.abc.Clock | None, instruments: list[trio.abc.Instrument]
        ) -> object:
            return trio.run(body, clock=clock, instruments=[*others, *instruments])

        others = list(instruments)
        perform(self._run, function, seed=self._run_seed, clock=clock, trio_run=trio_run)

    def _call_without_plugin(self, **arguments: object) -> None:
        clocks = [value for value in arguments.values() if isinstance(value, trio.abc.Clock)]
        body = functools.partial(self.armed(), **arguments)
        try:
            self.run_in_trio(body, clock=clocks[0] if clocks else None, instruments=())
        except BaseExceptionGroup as group:
            _raise_outcome(group)
            raise


def _raise_outcome(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise the outcome that a group holds, such as a skip."""
    for one in leaves(group):
        if isinstance(one, _OUTCOMES):
            raise one


def _refuse_other_tests(item: pytest.Function) -> None:
    """Fail a test that can't be run again and again in Trio."""
    function = item.obj
    if hasattr(function, "hypothesis"):
        reason = "does not go together with Hypothesis's given: engine.testing.TrioMachine draws cancels as data"
    elif item.get_closest_marker("asyncio") is not None:
        reason = "is for tests that run in Trio: this one is marked for asyncio"
    elif inspect.isasyncgenfunction(function):
        reason = "is for async tests: this one has a yield, which makes it a generator"
    elif not inspect.iscoroutinefunction(function):
        reason = "is for async tests: this one is not async"
    else:
        return
    pytest.fail(f"cancel_everywhere {reason}", pytrace=False)


def _skip_asyncio(item: pytest.Function) -> None:
    """Skip a test of anyio that is to run in asyncio."""
    backend: object = item.funcargs.get("anyio_backend")
    name = backend[0] if isinstance(backend, tuple) else backend  # pyright: ignore[reportUnknownVariableType]
    if item.get_closest_marker("anyio") is not None and name == "asyncio":
        pytest.skip("cancel_everywhere runs tests in Trio only")


def _belongs_to_pytest_trio(item: pytest.Function) -> bool:
    """Tell whether pytest-trio runs the test, with its fixtures; where it is installed it need not be asked to."""
    if item.get_closest_marker("trio") is not None:
        return True
    return item.config.pluginmanager.hasplugin("trio") and item.get_closest_marker("anyio") is None


def _refuse_async_fixtures(item: pytest.Function) -> None:
    for name, definitions in item._fixtureinfo.name2fixturedefs.items():
        function = definitions[-1].func
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            pytest.fail(
                f"cancel_everywhere can't repeat the asynchronous fixture {name!r} of this test: its loop outlives a run. "
                "Use pytest-trio, or open what it makes inside of the test",
                pytrace=False,
            )


def _plan(config: pytest.Config, marker: pytest.Mark) -> tuple[CancelPlan, RunOptions]:
    values = marker.kwargs
    only: str | None = config.getoption("--cancel-everywhere-only")
    first: int = config.getoption("--cancel-everywhere-seed") or 0
    try:
        plan, _ = function_plan(
            values.get("by"),
            None if only is None else parse_injection(only),
            seeds=seeds_from(first, values.get("schedules", 1)),
            every=values.get("every", 1),
            gaps=values.get("seconds", (1, 7)),
            repeatable=values.get("repeatable", True),
        )
        options = run_options(
            limit=values.get("limit", 10.0),
            raises=values.get("raises", ()),
            most_points=values.get("most_points", 100_000),
            by_place=plan.by_place,
            passes=_OUTCOMES,
        )
    except ValueError as error:
        problem = str(error)
    else:
        return plan, options
    # Outside of the handler: the text is all that there is to read.
    pytest.fail(f"cancel_everywhere: {problem}", pytrace=False)
