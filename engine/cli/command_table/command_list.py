"""The commands, in the order of the help. It imports nothing: every start of the program reads it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The module of this folder that has the specification, its name there, and what the command does: at most 60
# characters, a verb first.
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "chat": ("chat_command", "CHAT", "talk to the agent at the terminal"),
    "run": ("run_commands", "RUN", "give the agent a task and watch it work"),
    "batch": ("batch_command", "BATCH", "run many tasks, a few at once, with a ledger"),
    "sessions": ("session_view_commands", "SESSIONS", "list, search, show, export, fork and delete sessions"),
    "stats": ("session_view_commands", "STATS", "show tokens and money spent, by day, model and session"),
    "trace": ("session_view_commands", "TRACE", "draw what ran when in a session"),
    "models": ("model_commands", "MODELS", "list the models you can use here, and what others need"),
    "tools": ("tool_commands", "TOOLS", "list the tools that the model can call"),
    "mcp": ("mcp_commands", "MCP", "add MCP servers, try them, approve their tools"),
    "plugins": ("plugin_commands", "PLUGINS", "list, add, update and remove plugins"),
    "agents": ("agent_commands", "AGENTS", "list agents and sub-agents"),
    "permissions": ("permission_commands", "PERMISSIONS", "show, explain and check rules; revoke grants"),
    "auth": ("auth_commands", "AUTH", "list, store, test and delete the keys of providers"),
    "doctor": ("doctor_command", "DOCTOR", "check the installation, and say how to repair it"),
    "config": ("config_commands", "CONFIG_COMMANDS", "show, explain and change the configuration"),
    "serve": ("server_commands", "SERVE", "serve sessions over a WebSocket, HTTP or a Unix socket"),
    "attach": ("server_commands", "ATTACH", "watch a session of a server, and talk to it"),
    "worker": ("fleet_commands", "WORKER", "run the tasks of a fleet's queue"),
    "fleet": ("fleet_commands", "FLEET", "add tasks for workers, and show how a fleet does"),
    "acp": ("acp_command", "ACP", "serve an editor that starts it: Zed, JetBrains, Neovim"),
    "completion": ("completion_commands", "COMPLETION", "print the completion script for bash, zsh or fish"),
    "schema": ("schema_command", "SCHEMA", "print the JSON Schema of records, events or configuration"),
    "demo": ("demo_commands", "DEMO", "see it work: offline, without a key"),
}


def summary(name: str) -> str:
    """Return what the command *name* does, in one line."""
    return COMMANDS[name][2]
