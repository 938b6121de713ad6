"""A program to be killed while a command of its runs: `python -m tests.os.crashed MARKER TOKEN KIND`."""

import sys

import trio

from engine.process.procfs import ProcessId
from engine.process.run_tree import run_tree
from tests.os import trees

SCRIPTS = {
    # The leader, a child of its in the group, and one that left it.
    "plain": "sleep {t} & setsid sleep {t} & sleep 0.1; echo ready; wait",
    "deaf": "trap '' TERM; sleep {t} & setsid sleep {t} & sleep 0.1; echo ready; wait; sleep {t}",
    # Whoever does not know the leader's number finds nobody.
    "wiped": "exec env -i PATH=$PATH bash -c 'sleep {t} & setsid sleep {t} & sleep 0.1; echo ready; wait'",
}


async def main(marker: str, token: str, kind: str) -> None:
    leaders: list[ProcessId] = []

    def say(chunk: bytes) -> None:
        (leader,) = leaders
        print(f"{chunk.decode()}{leader.pid} {leader.start_time}", flush=True)

    argv = trees.bash(SCRIPTS[kind], t=token)
    await run_tree(argv, cwd="/", marker=marker, on_output=say, on_start=leaders.append)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
