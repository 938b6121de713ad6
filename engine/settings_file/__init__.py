"""The configuration file."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.settings_file.config_file import load_config as load_config
    from engine.settings_file.config_file import read_config as read_config
    from engine.settings_file.config_file import usual_path as usual_path
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.settings_file.config_file": "load_config read_config usual_path",
        },
    )
