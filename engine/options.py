"""Groups of options for `open_engine`."""

from engine.core.facade import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.session.engine_options import ContextOptions as ContextOptions
    from engine.session.engine_options import FileOptions as FileOptions
    from engine.session.engine_options import PermissionOptions as PermissionOptions
    from engine.session.engine_options import Ports as Ports
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.session.engine_options": "ContextOptions FileOptions PermissionOptions Ports",
        },
    )
