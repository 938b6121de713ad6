"""Random scripts, run by the real bash: what they run and write is what their scans tell, or the scan says that it can't."""

import random
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conftest import CountRuns, Soak
from tests.permission.oracle import stubs
from tests.permission.oracle.compare import Verdict, compare
from tests.permission.oracle.grammar import Mode, script
from tests.permission.oracle.measure import Figures, measure, smallest
from tests.permission.oracle.run import Done, Sandbox, Started, sandbox
from tests.permission.oracle.scanners import scan_in_project
from tests.permission.oracle.shrink import shrink
from tests.permission.oracle.written import ordinary, written

QUICK: Final = 150
AT_ONCE: Final = 500
TOOLS: Final = written("written_tools.txt")
MARKED: Final = re.compile(r"p\d+|victim")
LONG: Final = 20_000  # scripts, at least, of the soak run
MOST_ORDINARY: Final = 0.02
MOST_OPAQUE: Final = {"plain": 0.15, "wild": 1.0}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    if lacking := stubs.why_not():
        pytest.skip(f"no sandbox to run scripts in: {lacking}")
    with sandbox() as opened:
        yield opened


@pytest.mark.os
@pytest.mark.parametrize("mode", ["plain", "wild"])
def test_random_scripts_match_their_scans(box: Sandbox, mode: Mode, count_runs: CountRuns) -> None:
    first = random.SystemRandom().randrange(2**32)
    figures = measure(box, scan_in_project, [script(seed, mode) for seed in range(first, first + QUICK)])
    count_runs(figures.scripts, f"random {mode} scripts")
    again = f"python -m tests.permission.oracle --mode {mode} --count {QUICK} --seed {first}"
    print(again, figures, sep="\n")
    assert [smallest(box, scan_in_project, failure) for failure in figures.failures[:3]] == [], again
    # Twice as much in one small sample is chance; the long run holds the mean.
    assert figures.opacity < 2 * MOST_OPAQUE[mode], again


@pytest.mark.os
@pytest.mark.parametrize(("part", "scripts"), written().items(), ids=list(written()))
def test_hard_scripts_match_their_scans(box: Sandbox, part: str, scripts: list[str]) -> None:
    figures = measure(box, scan_in_project, scripts)
    assert [smallest(box, scan_in_project, failure) for failure in figures.failures[:3]] == [], part


def test_everyday_commands_are_not_opaque() -> None:
    opaque = {line: result.opaque for line in ordinary() if (result := scan_in_project(line)).opaque}
    assert len(opaque) <= len(ordinary()) * MOST_ORDINARY, opaque


@pytest.mark.soak
@pytest.mark.os
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["plain", "wild"])
def test_soak_random_scripts_match_their_scans(box: Sandbox, mode: Mode, soak: Soak, count_runs: CountRuns) -> None:
    if not soak.seconds:
        pytest.skip("a long run: make soak")
    total = Figures()
    for part in soak.seeds(at_least=LONG // AT_ONCE // 2):
        seeds = range(part * AT_ONCE, (part + 1) * AT_ONCE)
        figures = measure(box, scan_in_project, [script(seed, mode) for seed in seeds])
        assert [smallest(box, scan_in_project, failure) for failure in figures.failures[:3]] == [], seeds
        total.scripts += figures.scripts
        total.opaque += figures.opaque
    count_runs(total.scripts, f"random {mode} scripts")
    assert total.opacity < MOST_OPAQUE[mode]


@pytest.mark.soak
@pytest.mark.os
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("programs", "scripts"), TOOLS.items(), ids=[names.split()[0] for names in TOOLS])
def test_soak_programs_match_their_analysis(programs: str, scripts: list[str], soak: Soak) -> None:
    if not soak.seconds:
        pytest.skip("a long run: make soak")
    if lacking := stubs.why_not():
        pytest.skip(f"no sandbox to run scripts in: {lacking}")
    untold: dict[str, list[str]] = {}
    for text in scripts:
        # They leave more behind than the shell does, so each has a sandbox of its own.
        with sandbox(real=programs.split(), seconds=6) as opened:
            (done,) = opened.run((text,))
        # What they start besides, such as gzip or a pager, is their own business.
        missed = [name for name in compare(scan_in_project(text), done).missed if MARKED.fullmatch(name)]
        if missed:
            untold[text] = missed
    assert untold == {}


@pytest.mark.os
def test_oracle_records_programs_and_writes(box: Sandbox) -> None:
    (done, *_rest) = box.run((
        "cd /tmp && env A=1 \\\n w''get $'\\x41' > ../out/n.txt; : >> old.txt; echo hidden >/dev/null; cat <<< x 2>~/err",
    ))  # fmt: skip
    assert done == Done(
        script=done.script,
        code=0,
        started=(
            Started(name="env", argv=("env", "A=1", "wget", "A")),
            Started(name="wget", argv=("wget", "A")),
            Started(name="cat", argv=("cat",)),
        ),
        written=frozenset({"/out/n.txt", "/tmp/old.txt", "/home/dev/err"}),
        printed="x\n",
    )


@pytest.mark.os
def test_sandbox_is_reset_between_scripts(box: Sandbox) -> None:
    first, second = box.run(
        ("echo changed > a.txt; echo > new.txt; (while :; do :; done) & cd /tmp", "cat a.txt new.txt; pwd")
    )
    assert first.written == {f"{stubs.PROJECT}/a.txt", f"{stubs.PROJECT}/new.txt"}
    assert second.printed == f"alpha\n{stubs.PROJECT}\n"


def test_shrinking_keeps_the_failure() -> None:
    assert shrink("echo one; rm two && three", lambda script: "rm" in script and "&" in script) == "rm&"


def test_same_seed_makes_same_script() -> None:
    assert [script(seed, "wild") for seed in range(20)] == [script(seed, "wild") for seed in range(20)]
    assert len({script(seed, mode) for seed in range(100) for mode in ("plain", "wild")}) > 190


def test_empty_verdict_is_right() -> None:
    assert Verdict().is_right
    assert not Verdict(missed=("rm",)).is_right
