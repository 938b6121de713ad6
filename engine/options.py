"""Groups of options for `open_engine`, a limit for many turns, and what a structured answer must fit."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.nursery.budget import SpendingLimit as SpendingLimit
    from engine.session.engine_options import ContextOptions as ContextOptions
    from engine.session.engine_options import FileOptions as FileOptions
    from engine.session.engine_options import FolderSetup as FolderSetup
    from engine.session.engine_options import PermissionOptions as PermissionOptions
    from engine.session.engine_options import Ports as Ports
    from engine.session.structured_output import OutputSpec as OutputSpec
    from engine.session.structured_output import answer_schema as answer_schema
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.nursery.budget": "SpendingLimit",
            "engine.session.engine_options": "ContextOptions FileOptions FolderSetup PermissionOptions Ports",
            "engine.session.structured_output": "OutputSpec answer_schema",
        },
    )
