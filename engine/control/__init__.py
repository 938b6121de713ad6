"""The control endpoint: clients in other processes drive and watch the sessions of an engine."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.control.listen import ServedAt as ServedAt
    from engine.control.listen import ServeOptions as ServeOptions
    from engine.control.listen import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.control.listen": "ServedAt ServeOptions serve",
        },
    )
