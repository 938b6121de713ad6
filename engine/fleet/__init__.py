"""Many engines behind one database: `enqueue` adds a task to its queue, and the `Worker` of any engine runs it.

`sweep` looks after the sessions of engines that have died. Above sessions: only commands and hosts import from here.
"""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.fleet.enqueue_task import enqueue as enqueue
    from engine.fleet.sweeper import sweep as sweep
    from engine.fleet.worker import Worker as Worker
    from engine.store.work_queue import QueuedTask as QueuedTask
    from engine.store.work_queue import TaskSpec as TaskSpec
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.fleet.sweeper": "sweep",
            "engine.fleet.enqueue_task": "enqueue",
            "engine.fleet.worker": "Worker",
            "engine.store.work_queue": "QueuedTask TaskSpec",
        },
    )
