"""Many engines behind one database: `sweep` looks after the sessions of those that have died."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.fleet.sweeper import sweep as sweep
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.fleet.sweeper": "sweep",
        },
    )
