"""The user's configuration, from a file and in code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import engine
from engine.cli.default_tools import knowledge_for
from engine.config.config import AgentConfig, Config, Defaults, HostConfig, ModelConfig, Prices
from engine.config.formatter_config import FileProgram
from engine.config.instruction_config import Instructions
from engine.config.language_server_config import LanguageServer
from engine.core.errors import ConfigError
from engine.core.hooks import Hooks, ToolUse
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule
from engine.providers.registry import resolve
from engine.session.session import live_session
from engine.settings_file.config_file import load_config, read_config
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash_permissions import need_of, only_reads
from engine.tools.hook_runner import name_of

CANARY = "sk-canary-2718281828459045"

WHOLE = """
[defaults]
model = "lab/qwen3"
agent = "careful"

[hosts.lab]
title = "The lab"
base_url = "http://gpu.lab:8000/v1"
wire = "openai_chat"
key = "LAB_KEY"
auth = "api-key"
path = "/deployments/{model}/chat?api-version=1"
headers = { x-team = "agents", x-api-key = "$TEAM_KEY" }
parallel = 4
silence = 600
local = false

[hosts.lab.quirks]
output = "tool"
user_media = ["image"]
strict_tools = true
default_temperature = 0.6
efforts = ["low", "high"]

[hosts.gpu2]
like = "vllm"
base_url = "http://gpu2:8000"

[models."anthropic/claude-opus-5"]
context = 200_000
output = 32_000
prices = { input = 1, output = 2.5, cache_read = 0.1, cache_write = 1.25 }
effort = "high"
temperature = 0
output_cap = 16_000
cache = "1h"
fallback = ["openai/gpt-5.6", "lab/qwen3"]

[models."azure/mine"]
same_as = "openai/gpt-5.6"

[agents.careful]
model = "anthropic/claude-opus-5"
effort = "max"
system = "Be careful."
fallback = []

[agents.quick]
effort = "low"

[agents.reader]
description = "Reads."
mode = "subagent"
hidden = true
rules = ["deny edit *"]
bounds = ["deny bash *"]
tools = ["read", "grep"]
without = ["grep"]
steps = 5
seconds = 60
cost = 0.5
"""

CONFIG = Config(
    hosts={
        "lab": HostConfig(
            title="The lab",
            base_url="http://gpu.lab:8000/v1",
            wire="openai_chat",
            key="LAB_KEY",
            auth="api-key",
            path="/deployments/{model}/chat?api-version=1",
            headers={"x-team": "agents", "x-api-key": "$TEAM_KEY"},
            quirks={
                "output": "tool",
                "user_media": ("image",),
                "strict_tools": True,
                "default_temperature": 0.6,
                "efforts": ("low", "high"),
            },
            parallel=4,
            silence=600,
            local=False,
        ),
        "gpu2": HostConfig(like="vllm", base_url="http://gpu2:8000"),
    },
    models={
        "anthropic/claude-opus-5": ModelConfig(
            context=200_000,
            output=32_000,
            prices=Prices(input=1.0, output=2.5, cache_read=0.1, cache_write=1.25),
            options=ModelOptions(effort="high", temperature=0.0, output_cap=16_000, cache="1h"),
            fallback=("openai/gpt-5.6", "lab/qwen3"),
        ),
        "azure/mine": ModelConfig(same_as="openai/gpt-5.6"),
    },
    agents={
        "careful": AgentConfig(
            model="anthropic/claude-opus-5",
            options=ModelOptions(effort="max"),
            system="Be careful.",
            fallback=(),
        ),
        "quick": AgentConfig(options=ModelOptions(effort="low")),
        "reader": AgentConfig(
            description="Reads.",
            mode="subagent",
            hidden=True,
            rules=(Rule(action="deny", permission="edit", pattern="*", origin="the agent's own"),),
            bounds=(Rule(action="deny", permission="bash", pattern="*", origin="the agent's bounds"),),
            tools=("read", "grep"),
            without=("grep",),
            steps=5,
            seconds=60.0,
            cost=0.5,
        ),
    },
    defaults=Defaults(model="lab/qwen3", agent="careful"),
    source="config.toml",
)


def test_file_can_set_everything() -> None:
    assert read_config(WHOLE.encode(), "config.toml") == CONFIG


def test_empty_file_sets_nothing() -> None:
    assert read_config(b"", "config.toml") == Config(source="config.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", "config.toml is not valid TOML"),
        ("[model.x]", "config.toml:1: unknown section [model]: did you mean models?"),
        ("[extras]", "unknown section [extras]"),
        ("[checkers.a]", "config.toml:1, [checkers.a]: command: is required"),
        (
            '[checkers.a]\ncommand = []\npatterns = ["*"]',
            "[checkers.a]: command must hold at least one string, none of them empty, not ()",
        ),
        (
            '[formatters.a]\ncommand = ["x"]\npatterns = [""]',
            "[formatters.a]: patterns must hold at least one string",
        ),
        (
            '[formatters.a]\ncommand = ["x"]\npatterns = ["*"]\ntimeout = 0',
            "timeout must be a finite number of seconds",
        ),
        ("[[formatters]]", "config.toml:1: formatters must contain tables: [formatters.NAME]"),
        ("models = 3", "config.toml:1: models must contain tables: [models.NAME]"),
        ("[models]\nx = 3", "config.toml:2, [models.x]: must be a table, not int"),
        ("[models.gpt]", "config.toml:1, [models]: a model's name must have the form host/model, not 'gpt'"),
        (
            '[models."a/b"]\ncontxt = 3',
            'config.toml:2: unknown key models."a/b".contxt: did you mean context?',
        ),
        ('[models."a/b"]\ncontext = "3"', '[models."a/b"]: context: expected integer, got string'),
        ('[models."a/b"]\ncontext = true', "context: expected integer, got boolean"),
        ('[models."a/b"]\ncontext = 0', "context must be a whole number above 0, not 0"),
        ('[models."a/b"]\nprices = { input = -1 }', "prices.input must be a number of at least 0, not -1.0"),
        (
            '[models."a/b"]\nprices = { inputs = 1 }',
            'config.toml:2: unknown key models."a/b".prices.inputs: did you mean input?',
        ),
        ('[models."a/b"]\neffort = "hihg"', "effort must be one of none, minimal, low,"),
        ('[models."a/b"]\ntemperature = 3', "temperature must be a number from 0 to 2, not 3.0"),
        ('[models."a/b"]\ncache = "2h"', "cache must be one of off, 5m, 1h, not '2h'"),
        ('[models."a/b"]\nfallback = "c/d"', "fallback: expected array, got string"),
        ('[models."a/b"]\nfallback = ["c"]', "a model's name must have the form host/model, not 'c'"),
        ('[models."a/b"]\nsame_as = 2026-01-01', "contains a date or time"),
        ("[agents.x]\nmodel = 1", "config.toml:2, [agents.x]: model: expected string, got integer"),
        ('[agents.x]\nmode = "both"', "[agents.x]: an agent's mode is primary, subagent or all, not 'both'"),
        ("[agents.x]\nsteps = 0", "[agents.x]: an agent's steps must be at least 1, not 0"),
        ("[agents.x]\nseconds = 0", "[agents.x]: an agent's seconds must be above 0, not 0"),
        ("[agents.x]\ncost = -1", "[agents.x]: an agent's cost must be at least 0, not -1"),
        ('[agents.x]\ntools = "read"', "[agents.x]: tools: expected array, got string"),
        ('[agents.x]\nbounds = ["deny"]', "[agents.x]: a rule is written"),
        ('[agents."a b"]\nsteps = 1', "an agent's name must consist of at most 64 letters, digits, - and _, not 'a b'"),
        ('[defaults]\nagent = "explore"', "the agent 'explore' can only be used as a sub-agent"),
        (
            '[defaults]\nagent = "x"',
            "config.toml:2, [defaults]: unknown agent 'x': known: build, explore, general, plan",
        ),
        ('[defaults]\nmodels = "x/y"', "config.toml:2: unknown key defaults.models: did you mean model?"),
        ('[hosts."a/b"]', "a host's name must consist of letters, digits, '.', '-' and '_', not 'a/b'"),
        ("[hosts.x]", "config.toml:1, [hosts.x]: host x needs `base_url` and either `wire` or `like`"),
        ('[hosts.x]\nwire = "grpc"', "config.toml:2, [hosts.x]: wire must be one of anthropic, openai_chat,"),
        ('[hosts.x]\nlike = "olama"', "`like` names no host 'olama': did you mean ollama"),
        ('[hosts.ollama]\npath = "@elsewhere.example/v1"', "path must begin with '/', not '@elsewhere"),
        ('[hosts.ollama.headers]\nx-team = "über"', "[hosts.ollama]: header 'x-team' has an invalid name or value"),
        ('[hosts.ollama.headers]\nx-team = "a\\nb: c"', "header 'x-team' has an invalid name or value"),
        ('[hosts.ollama.headers]\n"x team" = "a"', "header 'x team' has an invalid name or value"),
        ('[hosts.ollama.headers]\nContent-Length = "3"', "header 'Content-Length' has an invalid name or value"),
        ("[hosts.ollama]\nsilence = 0", "silence must be a number of seconds above 0, not 0"),
        ("[hosts.ollama]\nparallel = -1", "parallel must be a whole number, 0 for no limit, not -1"),
        ("[hosts.ollama.quirks]\neffort = 1", "unknown quirk 'effort': did you mean"),
        ('[hosts.ollama.quirks]\noutput = "json"', "quirk output must be one of 'native', 'tool', not 'json'"),
    ],
)
def test_errors_are_reported_with_their_location(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text.encode(), "config.toml")
    assert words in str(caught.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"config\.toml is not UTF-8"):
        read_config(b"# \xff", "config.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'[hosts.openai]\nkey = "{CANARY}"', "keys belong in environment variables"),
        ('[hosts.openai]\nkey = "skcanary2718281828"', "keys belong in environment variables"),
        (f'[hosts.openai]\napi_key = "{CANARY}"', "keys belong in the environment"),
        (f'[hosts.openai]\ntoken = "{CANARY}"', "keys belong in the environment"),
        (
            f'[hosts.openai]\nheaders = {{ Authorization = "Bearer {CANARY}" }}',
            "header Authorization must be '$' and the name",
        ),
        (
            f'[hosts.openai]\nheaders = {{ x-goog-api-key = "{CANARY}" }}',
            "header x-goog-api-key must be '$' and the name",
        ),
        (f'[hosts.openai]\nbase_url = "https://user:{CANARY}@proxy.example"', "base_url holds a password"),
    ],
)
def test_a_key_itself_is_refused_and_not_shown(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text.encode(), "config.toml")
    assert words in str(caught.value)
    assert "2718281828" not in str(caught.value)


# -- where the file is -----------------------------------------------------------------------


def test_a_file_that_is_named_goes_first(tmp_path: Path) -> None:
    named, variable = tmp_path / "a.toml", tmp_path / "b.toml"
    named.write_text('[defaults]\nmodel = "a/a"')
    variable.write_text('[defaults]\nmodel = "b/b"')
    env = {"ENGINE_CONFIG": str(variable)}
    for path, model, source in ((named, "a/a", named), (None, "b/b", variable)):
        config = load_config(path, env)
        assert (config.defaults, config.source) == (Defaults(model=model), str(source))


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the configuration file .*none\.toml does not exist"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match=r"the configuration file .*none\.toml does not exist"):
        load_config(None, {"ENGINE_CONFIG": str(tmp_path / "none.toml")})
    with pytest.raises(ConfigError, match="can't read the configuration file"):
        load_config(tmp_path, {})


@pytest.mark.skipif(sys.platform != "linux", reason="the user's folder is told by another variable elsewhere")
def test_only_the_users_file_is_read(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (home / "engine").mkdir(parents=True)
    (work / "engine").mkdir(parents=True)
    (home / "engine" / "config.toml").write_text('[defaults]\nmodel = "mine/m"')
    for name in ("config.toml", "engine.toml", ".engine.toml", "engine/config.toml"):
        (work / name).write_text('[defaults]\nmodel = "theirs/m"')
    code = "import os; from engine.settings_file.config_file import load_config; print(load_config(None, os.environ).defaults.model)"
    env = {name: value for name, value in os.environ.items() if name != "ENGINE_CONFIG"}

    def model(folder: Path) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=work,
            env={**env, "XDG_CONFIG_HOME": str(folder)},
            check=True,
            capture_output=True,
            text=True,
        )
        return ran.stdout.strip()

    assert model(home) == "mine/m"
    assert model(tmp_path / "nobody") == "None"


# -- what it means -----------------------------------------------------------------------------


def test_an_agent_goes_before_the_model() -> None:
    assert CONFIG.options_for("anthropic/claude-opus-5", "quick") == ModelOptions(
        effort="low", temperature=0.0, output_cap=16_000, cache="1h"
    )
    assert CONFIG.options_for("anthropic/claude-opus-5") == ModelOptions(
        effort="max", temperature=0.0, output_cap=16_000, cache="1h"
    )
    assert CONFIG.options_for("openai/other", "quick") == ModelOptions(effort="low")


def test_a_flag_goes_before_both() -> None:
    flag = ModelOptions(effort="minimal")
    assert flag.over(CONFIG.options_for("anthropic/claude-opus-5", "quick")).effort == "minimal"


def test_agent_chain_overrides_model_chain() -> None:
    opus = "anthropic/claude-opus-5"
    assert CONFIG.chain(opus, "quick") == (opus, "openai/gpt-5.6", "lab/qwen3")
    assert CONFIG.chain(opus, "careful") == (opus,)
    assert CONFIG.chain("openai/other", "quick") == ("openai/other",)
    twice = attrs.evolve(CONFIG, agents={"a": AgentConfig(fallback=(opus, "b/b", "b/b"))}, defaults=Defaults())
    assert twice.chain(opus, "a") == (opus, "b/b")


def test_agent_model_overrides_the_default() -> None:
    assert CONFIG.model_for() == "anthropic/claude-opus-5"
    assert CONFIG.model_for("quick") == "lab/qwen3"
    assert Config().model_for() is None


def test_unknown_agent_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown agent 'carefuls': did you mean careful"):
        CONFIG.agent("carefuls")
    assert Config().agent(None) == AgentConfig()


# -- the documentation -------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    "name",
    [
        "config.toml",
        "config_azure.toml",
        "config_hooks.toml",
        "config_checks.toml",
        "config_mcp.toml",
        "config_language_servers.toml",
        "config_instructions.toml",
        "config_plugins.toml",
    ],
)
def test_the_examples_of_the_documentation_can_be_read(name: str) -> None:
    config = load_config(DOCS / "examples" / name, {})
    parts = (config.hosts, config.hooks, config.checkers, config.skills, config.mcp.servers, config.language_servers)
    assert any(parts) or config.plugin_options.disabled


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("`defaults`", Defaults),
        ("`hosts`", HostConfig),
        ("`models`", ModelConfig),
        ("`agents`", AgentConfig),
        ("`formatters` and `checkers`", FileProgram),
        ("`instructions`", Instructions),
        ("`language_servers`", LanguageServer),
    ],
)
def test_the_reference_names_every_field(section: str, kind: type[attrs.AttrsInstance]) -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    part = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    told = {name for cell in re.findall(r"^\| (`.+?) \|", part, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)}
    fields = {field.name for field in attrs.fields(kind)}
    if "options" in fields:  # in a file they stand beside the others
        fields = fields - {"options"} | {field.name for field in attrs.fields(ModelOptions)}
    assert told == fields


@pytest.mark.parametrize(
    ("text", "words"),
    [("a = " + "[" * 50_000, "nested too deeply"), ("a = " + "1" * 6_000, "not valid TOML")],
    ids=["depth", "digits"],
)
def test_unparsable_file_is_no_crash(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"config.toml is {words}"):
        read_config(text.encode(), "config.toml")


def test_missing_home_folder() -> None:
    with pytest.raises(ConfigError, match="can't read the configuration file ~nobody-of-this-name/x: "):
        load_config("~nobody-of-this-name/x", {})
    with pytest.raises(ConfigError, match="local:~nobody-of-this-name/x: "):
        resolve("local:~nobody-of-this-name/x", {})


HOOKS = """
[[hooks.PreToolUse]]
matcher = "Bash"
hooks = [{ type = "command", command = "check", timeout = 5 }]
"""


def test_hooks_are_read_as_they_stand() -> None:
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": "check", "timeout": 5}]}
    assert read_config(HOOKS.encode(), "config.toml") == Config(hooks={"PreToolUse": [group]}, source="config.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hooks = 3", "config.toml:1, [hooks]: hooks must be an object, not 3"),
        (
            "[hooks]\nPreToolUs = []",
            "config.toml:2, [hooks]: hooks: there is no event 'PreToolUs'; did you mean PreToolUse?",
        ),
        (HOOKS.replace("5", "-5"), "timeout"),
        (HOOKS.replace("5", "2026-01-01"), "timeout"),
    ],
)
def test_invalid_hooks_are_reported(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text.encode(), "config.toml")
    assert words in str(caught.value)


async def test_configured_hooks_precede_host_hooks() -> None:
    async def mine(use: ToolUse) -> None:
        raise AssertionError("never asked")

    config = read_config(HOOKS.encode(), "config.toml")
    async with engine.open_engine(model=ScriptedProvider([]), config=config, hooks=Hooks(before_tool=(mine,))) as eng:
        session = await eng.create_session()
        first, second = live_session(session).engine.setup.hooks.before_tool
    assert (name_of(first), second) == ("PreToolUse (check)", mine)
    with pytest.raises(ConfigError, match="there is no event"):
        engine.open_engine(model=ScriptedProvider([]), config=Config(hooks={"Xyzzy": []}))


def test_configured_programs_apply(tmp_path: Path) -> None:
    config = load_config(DOCS / "examples/config_programs.toml", {})
    programs = knowledge_for(config)
    assert only_reads("shop -v status x", programs)
    assert not only_reads("shop -v status x")
    needed = need_of("deploy --exec 'rm x' git push", str(tmp_path), str(tmp_path), programs)
    assert {"rm x", "git push"} < set(needed.patterns)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("programs = 1", "here.toml:1: programs must contain tables: [programs.NAME]"),
        ("[programs.x]\nnonsense = 1", "here.toml:2, [programs]: programs.x.nonsense: there is no such key"),
        (
            "[sandbox]\nbackend = 'x'",
            "here.toml:2, [sandbox]: sandbox.backend must be one of auto, landlock, bwrap, off, not 'x'",
        ),
        ("[permissions]\nrules = ['allow']", "here.toml:2"),
    ],
)
def test_invalid_commands_are_reported(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_config(text.encode(), "here.toml")
