"""The system prompt: its layers (instructions, environment, skills, ...), custom commands, and reminders of changes."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.config.instruction_config import Instructions as Instructions
    from engine.core.prompt_section import PromptSection as PromptSection
    from engine.core.prompt_section import Stability as Stability
    from engine.prompt.layers import PromptLayers as PromptLayers
    from engine.prompt.skills import Skills as Skills
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.config.instruction_config": "Instructions",
            "engine.core.prompt_section": "PromptSection Stability",
            "engine.prompt.layers": "PromptLayers",
            "engine.prompt.skills": "Skills",
        },
    )
