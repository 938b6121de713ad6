"""Plugins in Python: what an entry point of the group `engine.plugins` gets and returns."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.plugins.plugin import Plugin as Plugin
    from engine.plugins.plugin import PluginContext as PluginContext
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__, {"engine.plugins.plugin": "Plugin PluginContext"})
