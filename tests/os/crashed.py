"""A program to be killed while a command of its runs: `python -m tests.os.crashed MARKER TOKEN`."""

import sys

import trio

from engine.tools.process import run_tree
from engine.tools.strays import Stray
from tests.os import trees

# The leader, a child of its in the group, and one that left it.
SCRIPT = "sleep {t} & setsid sleep {t} & sleep 0.1; echo ready; wait"


async def main(marker: str, token: str) -> None:
    leaders: list[Stray] = []

    def say(chunk: bytes) -> None:
        (leader,) = leaders
        print(f"{chunk.decode()}{leader.pid} {leader.start_time}", flush=True)

    argv = trees.bash(SCRIPT, t=token)
    await run_tree(argv, cwd="/", marker=marker, on_output=say, on_start=leaders.append)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
