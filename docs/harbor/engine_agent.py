"""engine as an installed agent of Harbor: it runs `engine run` in a task's container, and leaves a trajectory (ATIF).

    harbor run --path TASK --agent engine_agent:EngineAgent --model anthropic/claude-sonnet-4-5 --agent-kwarg wheel=FILE

Written for Harbor 0.25.
"""

import json
import os
import shlex
from pathlib import Path

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trial.paths import EnvironmentPaths

# The keys that a container gets if the environment of `harbor` has them; --agent-env adds others.
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY")
# With these codes, `engine run` says how the agent fared; with others, that its surroundings have failed.
CODES_OF_THE_AGENT = "0|1|3|4|5|9|10"


class EngineAgent(BaseInstalledAgent):
    """Installs engine in the container and gives it the task.

    Further arguments (`--agent-kwarg`): `wheel`, a file to install instead of the published package; `flags`, of `engine run`,
    such as "--max-cost 2 --effort high".
    """

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, *args: object, wheel: str = "", flags: str = "", **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._wheel = Path(wheel).expanduser() if wheel else None
        self._flags = flags

    @staticmethod
    def name() -> str:
        return "engine"

    def get_version_command(self) -> str:
        return f"{PATH}; engine --version"

    async def install(self, environment: BaseEnvironment) -> None:
        await self.exec_as_root(
            environment, command=f"{{ command -v curl && command -v git; }} >/dev/null || {{ {PACKAGES}; }}"
        )
        package = f"nursery-engine=={self._version}" if self._version else "nursery-engine"
        if self._wheel is not None:
            package = f"/tmp/{self._wheel.name}"
            await environment.upload_file(self._wheel, package)
        command = (
            f"set -e; {PATH}; command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
            f"uv tool install --python 3.12 {shlex.quote(package)}"
        )
        await self.exec_as_agent(environment, command=command)

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        logs = EnvironmentPaths.agent_dir.as_posix()
        store = f"--store {shlex.quote(f'{logs}/sessions.db')}"
        model = f"--model {shlex.quote(self.model_name)}" if self.model_name else ""
        # The container is the sandbox, and what a task may change is in it.
        command = (
            f"{PATH}; engine run --no-input --profile full --sandbox off --no-snapshots --quiet {store} {model} "
            f"--output json -o {shlex.quote(f'{logs}/result.json')} {self._flags} -- {shlex.quote(instruction)} "
            "> /dev/null < /dev/null; code=$?; "
            f"engine sessions export last {store} --format atif -o {shlex.quote(f'{logs}/trajectory.json')} --force; "
            f'case "$code" in {CODES_OF_THE_AGENT}) exit 0;; *) exit "$code";; esac'
        )
        await self.exec_as_agent(
            environment, command=command, env={key: os.environ[key] for key in KEYS if key in os.environ}
        )

    def populate_context_post_run(self, context: AgentContext) -> None:
        try:
            result = json.loads((self.logs_dir / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it did not come that far
            return
        usage, cost = result["usage"] or {}, result["cost"] or {}
        context.n_input_tokens = sum(usage.get(kind, 0) for kind in ("input", "cache_read", "cache_write"))
        context.n_cache_tokens = usage.get("cache_read", 0)
        context.n_output_tokens = usage.get("output", 0)
        context.cost_usd = cost.get("usd")
        context.metadata = {name: result[name] for name in ("session_id", "stop_reason", "exit_code", "detail")}


PATH = 'export PATH="$HOME/.local/bin:$PATH"'
PACKAGES = "apt-get update && apt-get install -y curl ca-certificates git || apk add --no-cache bash curl git"
