"""What runs without a question works in the box: each of the ordinary reading commands, in each back end."""

import os
import re
import sys
from pathlib import Path
from typing import Final, get_args

import pytest
import trio

from engine.config.sandbox_config import SECRETS
from engine.process.run_tree import run_tree
from engine.process.start import Launch
from engine.sandbox.backends import choose_backend
from engine.sandbox.reader import Backend, launch_reader
from tests.os import trees
from tests.permission.test_questions import REFUSED_BY_A_BOX
from tests.support.reading_project import READING, make_reading_project

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="boxes are for Linux")]

# They work in the box, too, but take a second each.
_SLOW: Final = re.compile(r"pip |python3 -m pip|pytest --help|npm --help")
UNASKED: Final = [one for one in READING if one not in REFUSED_BY_A_BOX and not _SLOW.match(one)]
# They tell about the moment, the processes or the mounts.
DIFFERENT: Final = re.compile(r"(?:ps|free|uptime|time|df|date|ls -la|ls -lt|pytest --help)\b|.*/proc/meminfo")
# In the script it is written otherwise: `ps` shows that.
_END, _WRITTEN = "=== end of {}: ", '=== ""end of {}: '


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_reading_project(tmp_path_factory.mktemp("reading"))


@pytest.fixture(scope="module")
def plain(project: Path) -> dict[str, tuple[str, str]]:
    return trio.run(_run_all, Launch(argv=trees.bash(_script())), project)


async def _run_all(launch: Launch, project: Path) -> dict[str, tuple[str, str]]:
    """Run the commands one after the other in one shell; return the exit code and the output of each."""
    output = bytearray()
    finished = await run_tree(
        launch.argv,
        cwd=str(project),
        marker=trees.marker(),
        env={**os.environ, **launch.environment},
        confine=launch.confine,
        limits=launch.limits,
        on_output=output.extend,
        timeout=120,
    )
    assert finished.exit_code == 0
    found: dict[str, tuple[str, str]] = {}
    left = output.decode(errors="replace")
    for number, command in enumerate(UNASKED):
        text, _, left = left.partition(_END.format(number))
        code, _, left = left.partition("\n")
        found[command] = code, text
    return found


def _script() -> str:
    return "\n".join(
        f'( {command}\n) < /dev/null 2>&1; echo "{_WRITTEN.format(number)}$?"' for number, command in enumerate(UNASKED)
    )


@pytest.mark.parametrize("backend", get_args(Backend))
def test_reading_commands_work_in_the_box(backend: Backend, plain: dict[str, tuple[str, str]], project: Path) -> None:
    if trio.run(choose_backend, backend).backend is None:
        pytest.skip(f"{backend} does not work here")
    launch = launch_reader(backend, trees.bash(_script()), cwd=str(project), home=str(Path.home()), hidden=SECRETS)
    boxed = trio.run(_run_all, launch, project)
    assert {name: code for name, (code, _) in boxed.items()} == {name: code for name, (code, _) in plain.items()}
    same = [name for name in UNASKED if not DIFFERENT.match(name)]
    assert {name: boxed[name] for name in same} == {name: plain[name] for name in same}
