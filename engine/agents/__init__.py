"""Agents: their configuration, their files, and those that run in the background."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult as AgentResult
    from engine.agents.agent_result import AgentStatus as AgentStatus
    from engine.agents.background import AgentJob as AgentJob
    from engine.agents.background import AgentJobs as AgentJobs
    from engine.agents.discovery import LoadedAgent as LoadedAgent
    from engine.agents.discovery import LoadedAgents as LoadedAgents
    from engine.agents.discovery import load_agents as load_agents
    from engine.agents.markdown_file import AgentFile as AgentFile
    from engine.agents.markdown_file import AgentFileError as AgentFileError
    from engine.agents.markdown_file import parse_agent as parse_agent
    from engine.config.agent_config import AgentConfig as AgentConfig
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.agents.background": "AgentJob AgentJobs",
            "engine.agents.discovery": "LoadedAgent LoadedAgents load_agents",
            "engine.agents.markdown_file": "AgentFile AgentFileError parse_agent",
            "engine.config.agent_config": "AgentConfig",
            "engine.agents.agent_result": "AgentResult AgentStatus",
        },
    )
