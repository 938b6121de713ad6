"""Tools: what a tool is, and those that come with the engine."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.core.schema import doc as doc
    from engine.process.run_tree import FinishedProcess as FinishedProcess
    from engine.process.run_tree import run_tree as run_tree
    from engine.prompt.skills import Skills as Skills
    from engine.tools.builtin.bash import BASH as BASH
    from engine.tools.builtin.bash import bash_tool as bash_tool
    from engine.tools.builtin.builtin_tools import builtin_tools as builtin_tools
    from engine.tools.builtin.skill import skill_tool as skill_tool
    from engine.tools.builtin.task import Agent as Agent
    from engine.tools.builtin.task import Agents as Agents
    from engine.tools.builtin.task import task_tool as task_tool
    from engine.tools.builtin.task_jobs import task_tools as task_tools
    from engine.tools.builtin.web_search import configured_web_search as configured_web_search
    from engine.tools.builtin.web_search import web_search_tool as web_search_tool
    from engine.tools.builtin.web_search_hosts import SearchProvider as SearchProvider
    from engine.tools.call_values import Need as Need
    from engine.tools.call_values import ToolOutput as ToolOutput
    from engine.tools.claude_hooks.load import load_hooks as load_hooks
    from engine.tools.editor_files import EditorFiles as EditorFiles
    from engine.tools.external import external_tool as external_tool
    from engine.tools.foreign import JsonArguments as JsonArguments
    from engine.tools.foreign import foreign_tool as foreign_tool
    from engine.tools.tool import Tool as Tool
    from engine.tools.tool import ToolOptions as ToolOptions
    from engine.tools.tool_context import ToolContext as ToolContext
    from engine.tools.tool_source import SourceScope as SourceScope
    from engine.tools.tool_source import ToolSource as ToolSource
    from engine.tools.tool_source import TurnSource as TurnSource
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.core.schema": "doc",
            "engine.process.run_tree": "FinishedProcess run_tree",
            "engine.prompt.skills": "Skills",
            "engine.tools.builtin.bash": "BASH bash_tool",
            "engine.tools.builtin.builtin_tools": "builtin_tools",
            "engine.tools.builtin.skill": "skill_tool",
            "engine.tools.builtin.task": "Agent Agents task_tool",
            "engine.tools.builtin.task_jobs": "task_tools",
            "engine.tools.builtin.web_search": "configured_web_search web_search_tool",
            "engine.tools.builtin.web_search_hosts": "SearchProvider",
            "engine.tools.call_values": "Need ToolOutput",
            "engine.tools.claude_hooks.load": "load_hooks",
            "engine.tools.editor_files": "EditorFiles",
            "engine.tools.external": "external_tool",
            "engine.tools.foreign": "JsonArguments foreign_tool",
            "engine.tools.tool": "Tool ToolOptions",
            "engine.tools.tool_context": "ToolContext",
            "engine.tools.tool_source": "SourceScope ToolSource TurnSource",
        },
    )
