"""How an attempt may end: a closed set, in which faults of the infrastructure are apart from what the agent did."""

from __future__ import annotations

from typing import Final, Literal, get_args

# passed, failed: what the task's check decided. finished: the turn completed, and there is no check. stopped: the agent
# ended otherwise, see the stop reason. timeout: the task's time was over. infra: nothing is known about the agent.
BatchStatus = Literal["passed", "failed", "finished", "stopped", "timeout", "infra", "cancelled", "bad_task"]
STATUSES: Final[tuple[BatchStatus, ...]] = get_args(BatchStatus)
# A task with one of these is done: the same command does not run it again.
DONE_STATUSES: Final[frozenset[BatchStatus]] = frozenset({"passed", "failed", "finished", "stopped", "timeout"})

InfraClass = Literal[
    "setup",
    "folder",
    "worker_lost",
    "provider_auth",
    "provider_rate",
    "provider_outage",
    "store",
    "disk",
    "mcp_required",
]
INFRA_CLASSES: Final[tuple[InfraClass, ...]] = get_args(InfraClass)
# What a second attempt a moment later would meet again.
LASTING: Final[frozenset[InfraClass]] = frozenset({"provider_auth"})

# How a task's check ended, whatever the status is; "": it has none, or it did not run.
CheckResult = Literal["", "passed", "failed", "timeout"]
# What an attempt's time is spent on. wait: before its folder is ready.
Phase = Literal["wait", "setup", "model", "tools", "questions", "check"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
# Which folders of tasks stay: of none, of those without a good end, of all.
Keep = Literal["none", "failed", "all"]
