"""Scripts that were written by hand, going through bash's manual, to be hard to scan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


def written(name: str = "written.txt") -> dict[str, list[str]]:
    """Return the scripts by the part of the manual that they are about.

    A line `## part` begins a part, and a line with `%` alone parts its scripts. Of "written_tools.txt", a part
    is the names of programs that are run for real.
    """
    _, *parts = re.split(r"^## (.*)\n", (HERE / name).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], (text.removesuffix("\n").split("\n%\n") for text in parts[1::2]), strict=True))


def ordinary() -> list[str]:
    """Return commands as developers and their agents run them every day: each a script of one line."""
    return [line for line in (HERE / "ordinary.txt").read_text().splitlines() if line]
