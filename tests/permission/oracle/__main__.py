"""`python -m tests.permission.oracle`: run random scripts, scan them, and show what the scans did not tell.

With `--file`, each script of a JSON list instead; with `--show`, what one script on standard input does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import get_args

from tests.permission.oracle.grammar import Mode, script
from tests.permission.oracle.measure import measure, smallest
from tests.permission.oracle.run import sandbox
from tests.permission.oracle.scanners import scan_in_project
from tests.permission.oracle.stubs import why_not
from tests.permission.oracle.written import written


def main() -> int:
    """Run the comparison; return 1 if a scan missed something."""
    parser = argparse.ArgumentParser(prog="python -m tests.permission.oracle", description=__doc__)
    parser.add_argument("--mode", choices=get_args(Mode), default="wild")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--file", type=Path, help="a JSON list of scripts to run instead")
    parser.add_argument("--written", action="store_true", help="run what was written by hand instead")
    parser.add_argument("--real", default="", help="programs that are run for real, parted by commas")
    parser.add_argument("--show", action="store_true", help="tell what the script on standard input does")
    parser.add_argument("--reasons", action="store_true", help="tell why scripts were opaque")
    parser.add_argument("--shrunk", type=int, default=10, help="how many of the failures to make small")
    options = parser.parse_args()
    if lacking := why_not():
        parser.error(lacking)
    with sandbox(real=tuple(filter(None, options.real.split(",")))) as box:
        if options.show:
            text = sys.stdin.read()
            print(*box.run((text,)), scan_in_project(text), sep="\n")
            return 0
        if options.written:
            scripts = [text for part in written().values() for text in part]
        elif options.file:
            scripts = json.loads(options.file.read_text())
        else:
            scripts = [script(seed, options.mode) for seed in range(options.seed, options.seed + options.count)]
        figures = measure(box, scan_in_project, scripts)
        print(f"{options.mode} from seed {options.seed}: {figures}")
        if options.reasons:
            print(*(f"  {count:6} {reason}" for reason, count in figures.reasons.most_common(60)), sep="\n")
        for failure in figures.failures[: options.shrunk]:
            small = smallest(box, scan_in_project, failure)
            print(json.dumps(small.script, ensure_ascii=False), small.verdict, sep="\n    ")
    return 1 if figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
