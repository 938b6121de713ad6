"""The values of the configuration. `engine.settings_file` reads them from a file; a host may build them in code."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.config.agent_config import AgentConfig as AgentConfig
    from engine.config.config import CompactionConfig as CompactionConfig
    from engine.config.config import Config as Config
    from engine.config.config import Defaults as Defaults
    from engine.config.config import HostConfig as HostConfig
    from engine.config.config import ModelConfig as ModelConfig
    from engine.config.config import Prices as Prices
    from engine.config.formatter_config import FileProgram as FileProgram
    from engine.config.instruction_config import Instructions as Instructions
    from engine.config.sandbox_config import Sandbox as Sandbox
    from engine.config.store_config import StoreConfig as StoreConfig
    from engine.core.llm_types import ModelOptions as ModelOptions
    from engine.core.settings import AnswerLimits as AnswerLimits
    from engine.core.settings import Limits as Limits
    from engine.core.settings import RetryPolicy as RetryPolicy
    from engine.core.settings import Settings as Settings
    from engine.core.settings import Timeouts as Timeouts
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.config.agent_config": "AgentConfig",
            "engine.config.config": "CompactionConfig Config Defaults HostConfig ModelConfig Prices",
            "engine.config.formatter_config": "FileProgram",
            "engine.config.instruction_config": "Instructions",
            "engine.config.sandbox_config": "Sandbox",
            "engine.config.store_config": "StoreConfig",
            "engine.core.llm_types": "ModelOptions",
            "engine.core.settings": "AnswerLimits Limits RetryPolicy Settings Timeouts",
        },
    )
