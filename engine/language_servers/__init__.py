"""Language servers: `LanguageServers` is for `engine.options.FileOptions(diagnostics=…)`; `LanguageServer` configures one."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.config.language_server_config import LanguageServer as LanguageServer
    from engine.language_servers.language_servers import LanguageServers as LanguageServers
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.config.language_server_config": "LanguageServer",
            "engine.language_servers.language_servers": "LanguageServers",
        },
    )
