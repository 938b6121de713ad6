"""What every test can count on: Hypothesis profiles, counters, soak runs, and the folder of shared material."""

import codecs
import functools
import gc
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol

import attrs
import hypothesis
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# They assert as tests do, and tests outside of their folder import them.
pytest.register_assert_rewrite("tests.store.suite", "tests.store.full_suite")

# ---- Hypothesis ------------------------------------------------------------------------------------------------------

# No deadline: an example runs a whole Trio program. Too slow is for `make bench` to say, not for a loaded machine.
_COMMON = hypothesis.settings(deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The same examples in each run: a change must not fail by what another one has broken. `make soak` looks for new ones.
hypothesis.settings.register_profile("full", _COMMON, derandomize=True, database=None, max_examples=100)
# A sample: two hundred properties, most of which fail within the first examples if they fail at all.
hypothesis.settings.register_profile("default", hypothesis.settings.get_profile("full"), max_examples=30)


# ---- the user's folders ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An engine keeps long outputs in the user's cache, and sweeps it; sessions in their data: not of who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("ENGINE_STORE", raising=False)
        yield


@pytest.fixture
def home_with_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has a folder `~/project`, as in the documentation."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()


# ---- users ---------------------------------------------------------------------------------------------------------------

NOBODY = 65534


@functools.cache
def _prepare_for_nobody() -> None:
    """Look for what is looked for once in each process, while we may: codecs, which Python finds in a folder that may be
    root's, and what makes sandboxes here. What nobody did not find would be missing in all tests that come later.
    """
    import trio

    from engine.sandbox.backends import choose_backend

    for name in ("ascii", "idna", "latin-1", "punycode", "utf-16", "utf-32"):
        codecs.lookup(name)
    # In a thread: the test that steps down may run in Trio already.
    thread = threading.Thread(target=trio.run, args=(choose_backend, "auto"))
    thread.start()
    thread.join()


@pytest.fixture
def not_root(tmp_path: Path) -> Iterator[None]:
    """Be a user who may not do everything: root steps down to nobody for the length of a test."""
    if os.geteuid() != 0:
        yield
        return
    _prepare_for_nobody()
    for folder in tmp_path.parents:
        if folder.owner() == "root" and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    os.chown(tmp_path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


# ---- options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("engine")
    group.addoption(
        "--soak-seconds",
        type=float,
        default=float(os.environ.get("ENGINE_SOAK") or 0),
        help="how long each test that uses the `soak` fixture goes on (default: $ENGINE_SOAK, or as briefly as it can)",
    )
    group.addoption(
        "--soak-seed",
        type=int,
        default=None,
        help="the first seed of soak tests (default: 0, or a random one if they go on for seconds)",
    )
    group.addoption(
        "--full",
        action="store_true",
        help="enumerate everything, where an ordinary run takes a sample (see the `is_full` fixture)",
    )
    group.addoption("--live", action="store_true", help="run the tests that talk to real providers")
    group.addoption(
        "--require-runs",
        type=int,
        default=0,
        metavar="N",
        help="fail unless the tests made at least N cancelled runs together",
    )


def pytest_configure(config: pytest.Config) -> None:
    # As a shell starts what it runs in the background, or `nohup`: signals would reach neither the tests nor their programs.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if config.option.soak_seed is None:  # decided here, before xdist hands the options to its workers
        config.option.soak_seed = random.randrange(2**32) if config.option.soak_seconds else 0
    if config.option.soak_seconds:
        # An example is worth about 20 ms: fill the time given, roughly, for tests that do not bound their examples.
        most = max(100, int(config.option.soak_seconds * 50))
        hypothesis.settings.register_profile("soak", _COMMON, max_examples=most)
        hypothesis.settings.load_profile("soak")
    else:
        hypothesis.settings.load_profile("full" if runs_in_full(config) else "default")


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.option.soak_seconds:
        return None
    return f"soak: {config.option.soak_seconds:g} s for each test, from seed {config.option.soak_seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected away from the garbage collector: each of its passes would look at twenty thousand tests."""
    gc.disable()
    try:
        collected = yield
        gc.collect()
        gc.freeze()
        return collected
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Keep it away again where a test has released it, and with it what each file has loaded: many tests run the collector."""
    handled = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return handled


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A long test that begins last would cost its whole length: the other worker has nothing left to do meanwhile.
    items.sort(key=_is_short)
    if config.option.live:
        return
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.skip(reason="talks to a real provider: give --live"))


def _is_short(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is None


# ---- samples ---------------------------------------------------------------------------------------------------------


def runs_in_full(config: pytest.Config) -> bool:
    """Tell whether enumerations are to be complete: under `make full` and `make soak`."""
    return bool(config.option.full or config.option.soak_seconds)


@pytest.fixture(scope="session")
def is_full(pytestconfig: pytest.Config) -> bool:
    """Whether a test that enumerates tries everything; otherwise it takes a sample, for the sake of `make test`."""
    return runs_in_full(pytestconfig)


# ---- the shared folder -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The material shared between projects (recorded traffic, corpora): $ENGINE_SHARED, or `shared` beside the tree."""
    folder = Path(os.environ.get("ENGINE_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip("no shared folder: set ENGINE_SHARED to it")
    return folder


# ---- soak ------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Soak:
    """A source of seeds that lasts as long as the run is meant to."""

    seconds: float
    first: int
    current: int | None = None

    def seeds(self, at_least: int) -> Iterator[int]:
        """Yield `at_least` seeds in an ordinary run; under `make soak` go on until the time is up.

        A failing test reports the seed it was at, and `--soak-seed` begins with it.
        """
        until = time.monotonic() + self.seconds
        for index in itertools.count():
            if index >= at_least and time.monotonic() >= until:
                return
            self.current = self.first + index
            yield self.current


@pytest.fixture
def soak(pytestconfig: pytest.Config) -> Soak:
    """Seeds for a test marked `soak`: `for seed in soak.seeds(at_least=20): ...`."""
    return Soak(seconds=pytestconfig.option.soak_seconds, first=pytestconfig.option.soak_seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    used = getattr(item, "funcargs", {}).get("soak")
    if report.failed and isinstance(used, Soak) and used.current is not None:
        again = f"pytest '{item.nodeid}' --soak-seed {used.current}"
        report.sections.append(("soak", f"failed at seed {used.current}; to begin there: {again}"))
    return report


# ---- counters --------------------------------------------------------------------------------------------------------

_CANCELLED_RUNS = "cancelled runs"
_counters = pytest.StashKey[Counter[str]]()
_WORKER_OUTPUT = "engine_counters"


class CountRuns(Protocol):
    """What the `count_runs` fixture gives: a function that adds to a figure of the final summary."""

    def __call__(self, n: int, what: str = _CANCELLED_RUNS) -> None: ...


@pytest.fixture(scope="session")
def count_runs(pytestconfig: pytest.Config) -> CountRuns:
    """Add to a counter that the summary of the whole run prints, whichever processes the tests ran in."""
    counters = _counters_of(pytestconfig)

    def count(n: int, what: str = _CANCELLED_RUNS) -> None:
        counters[what] += n

    return count


def _counters_of(config: pytest.Config) -> Counter[str]:
    return config.stash.setdefault(_counters, Counter())


def pytest_sessionfinish(session: pytest.Session) -> None:
    counters = _counters_of(session.config)
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of xdist: its controller adds them up
        output[_WORKER_OUTPUT] = dict(counters)
    elif counters[_CANCELLED_RUNS] < session.config.option.require_runs and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class _Node(Protocol):
    config: pytest.Config


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: _Node) -> None:
    output: dict[str, dict[str, int]] = getattr(node, "workeroutput", {})
    _counters_of(node.config).update(output.get(_WORKER_OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counters = _counters_of(config)
    for what, n in sorted(counters.items()):
        terminalreporter.write_line(f"{what}: {n:,}")
    required = config.option.require_runs
    if counters[_CANCELLED_RUNS] < required:
        terminalreporter.write_line(f"FAILED: at least {required:,} {_CANCELLED_RUNS} were required", red=True)
