"""The sources of the configuration: which is stronger, what adds up, and what a project's files can't do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.builtin_agents import BUILT_IN
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.permission.policy import Policy, Project
from engine.permission.rules.profiles import PROFILES, is_wider
from engine.permission.user_policy import UserFiles, policy_of
from engine.settings_file.build_config import build_config
from engine.settings_file.config_keys import Key, default_of, format_key, parse_key
from engine.settings_file.config_sources import ConfigSources, LoadedConfig, load_sources
from engine.settings_file.document import ConfigDocument, Kind, parse_document
from engine.settings_file.merge import merge
from engine.settings_file.project_config import restrict_document
from engine.settings_file.variables import unknown_variables

KINDS: tuple[Kind, ...] = ("system", "user", "project", "profile file", "environment", "command line", "required")


@attrs.frozen
class Machine:
    """A folder with all files that count, and a project in it."""

    root: Path

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def load(
        self,
        *settings_: str,
        env: Mapping[str, str] | None = None,
        cwd: str = "project",
        trusts: bool = True,
        profile: str = "",
    ) -> LoadedConfig:
        user = self.root / "user/config.toml"
        self.write("user/config.toml", user.read_text() if user.exists() else "")
        return load_sources(
            ConfigSources(
                path=user,
                env=env or {},
                settings=settings_,
                profile_file=profile,
                cwd=self.root / cwd,
                trusts=trusts,
                system=self.root / "etc",
                files=UserFiles(self.root / "state", self.root / "home"),
            )
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/sub").mkdir()
    return Machine(tmp_path)


def test_order_of_sources(machine: Machine) -> None:
    machine.write("etc/config.toml", '[defaults]\nmodel = "a/system"')
    assert machine.load().config().defaults.model == "a/system"
    machine.write("user/config.toml", '[defaults]\nmodel = "a/user"')
    assert machine.load().config().defaults.model == "a/user"
    machine.write("user/profiles/work.toml", '[defaults]\nmodel = "a/file"')
    assert machine.load(profile="work").config().defaults.model == "a/file"
    env = {"ENGINE_MODEL": "a/variable"}
    assert machine.load(profile="work", env=env).config().defaults.model == "a/variable"
    assert machine.load("defaults.model=a/line", profile="work", env=env).config().defaults.model == "a/line"
    machine.write("etc/required.toml", '[defaults]\nmodel = "a/required"')
    assert machine.load("defaults.model=a/line", env=env).config().defaults.model == "a/required"


def test_nearest_project_file_wins(machine: Machine) -> None:
    names = (
        "sub/.engine/config.local.toml",
        "sub/.engine/config.toml",
        ".engine/config.local.toml",
        ".engine/config.toml",
    )
    for name in reversed(names):
        machine.write(f"project/{name}", f'[formatters.x]\ncommand = ["{name}"]\npatterns = ["*"]')
        config = machine.load(cwd="project/sub").config()
        assert config.formatters["x"].command == (name,)
    assert machine.load().config().formatters["x"].command == (".engine/config.local.toml",)


def test_untrusted_project_is_not_read(machine: Machine) -> None:
    file = machine.write("project/.engine/config.toml", '[formatters.x]\ncommand = ["x"]\npatterns = ["*"]')
    loaded = machine.load(trusts=False)
    assert (loaded.config().formatters, loaded.untrusted) == ({}, str(file))
    file.write_text('[permissions]\nrules = ["deny bash *"]')
    assert machine.load(trusts=False).untrusted == ""


def test_ignored_keys_are_named_once_with_the_reason(machine: Machine) -> None:
    machine.write(
        "project/.engine/config.toml",
        '[hosts.lab]\nbase_url = "http://evil.example"\nlike = "vllm"\nkey = "AWS_SECRET"\n[defaults]\nmodel = "a/b"\n'
        '[permissions]\nprofile = "full"\n[sandbox]\nbackend = "off"\n[instructions]\nfiles = ["docs/*.md", "~/.netrc"]',
    )
    loaded = machine.load()
    shown = [(format_key(one.key), one.location.rpartition(":")[2]) for one in loaded.ignored]
    assert shown == [
        ("hosts.lab", "1"),
        ("defaults.model", "6"),
        ("permissions.profile", "8"),
        ("sandbox.backend", "10"),
        ("instructions.files", "12"),
    ]
    assert all(one.reason for one in loaded.ignored)
    config = loaded.config()
    assert (config.hosts, config.defaults.model, config.profile, config.sandbox) == ({}, None, None, None)
    assert config.instructions.files == ("docs/*.md",)


def test_project_names_models_but_changes_none(machine: Machine) -> None:
    machine.write(
        "project/.engine/config.toml",
        '[models."azure/ours"]\nsame_as = "openai/gpt-5.6"\n[models."openai/gpt-5.6"]\nsame_as = "ollama/free"\n',
    )
    loaded = machine.load()
    assert {name: model.same_as for name, model in loaded.config().models.items()} == {"azure/ours": "openai/gpt-5.6"}
    assert [format_key(one.key) for one in loaded.ignored] == ['models."openai/gpt-5.6"']


def test_project_may_be_stricter(machine: Machine) -> None:
    machine.write(
        "user/config.toml", '[permissions]\nprofile = "auto-edit"\n[sandbox]\nbackend = "auto"\nnetwork = true'
    )
    machine.write(
        "project/.engine/config.toml", '[permissions]\nprofile = "ask"\n[sandbox]\nbackend = "bwrap"\nnetwork = false'
    )
    loaded = machine.load()
    config = loaded.config()
    assert (config.profile, loaded.ignored) == ("ask", ())
    assert config.sandbox is not None
    assert (config.sandbox.backend, config.sandbox.network) == ("bwrap", False)


def test_unknown_keys_with_line_and_nearest_name(machine: Machine) -> None:
    file = machine.write(
        "user/config.toml", '[defaults]\nmodel = "a/b"\nagnet = "x"\n\n[models."a/b".prices]\ninputs = 1\n'
    )
    with pytest.raises(ConfigError) as caught:
        machine.load()
    assert str(caught.value).splitlines() == [
        f"{file}:3: unknown key defaults.agnet: did you mean agent?",
        f'{file}:6: unknown key models."a/b".prices.inputs: did you mean input?',
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('model = "a/b"', ":1: unknown key model: did you mean defaults.model?"),
        ('[defaults]\nprofile = "ask"', ":2: unknown key defaults.profile: did you mean permissions.profile?"),
        ('[defaults]\nbase_url = "x"', ":2: unknown key defaults.base_url: did you mean hosts.NAME.base_url?"),
        ("[defaults]\nzzz = 1", ":2: unknown key defaults.zzz: known: agent, "),
        ("[agnet]\nx = 1", ":1: unknown section [agnet]: did you mean agents?"),
        ('[model."a/b"]\ncontext = 1', ":1: unknown section [model]: did you mean models?"),
        ('[mcp.servers.x]\ncommands = ["y"]', ":2: unknown key mcp.servers.x.commands: did you mean command?"),
    ],
)
def test_unknown_key_names_the_nearest(machine: Machine, text: str, error: str) -> None:
    file = machine.write("user/config.toml", text)
    with pytest.raises(ConfigError) as caught:
        machine.load()
    assert str(caught.value).startswith(f"{file}{error}")


def test_newer_version_is_refused(machine: Machine) -> None:
    assert machine.load("version=1").merged.values["version"] == 1
    file = machine.write("user/config.toml", "# mine\nversion = 2\n")
    with pytest.raises(ConfigError, match=f"{file}:2: the file has version 2, and this engine reads version 1\nNext: "):
        machine.load()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("defaults.model", "KEY=VALUE"),
        ("defaults.modle=x/y", "unknown key defaults.modle: did you mean defaults.model?"),
        ("default.model=x/y", "unknown key default.model: did you mean defaults.model?"),
        ("mcp.servers.x.cwd=3", "unknown key mcp.servers.x.cwd: known: args, "),
        ("=3", "'' is no key"),
        ("defaults.agent=nobody", "-c defaults.agent|unknown agent 'nobody'"),
        ("models.x=3", "-c models.x"),
    ],
)
def test_invalid_settings(machine: Machine, setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        machine.load(setting).config()


def test_profile_file_must_exist(machine: Machine) -> None:
    machine.write("user/profiles/work.toml", "")
    with pytest.raises(ConfigError, match="did you mean work"):
        machine.load(profile="wrk")
    with pytest.raises(ConfigError, match="takes a name"):
        machine.load(profile="../config")


# -- rules ------------------------------------------------------------------------------------


def verdict(policy: Policy, command: str, project: Project = Project("/p")) -> str:  # noqa: B008  # a value
    policy.load_project_rules = lambda *_: project.rules
    return policy._compiled(project).judge("bash", command).verdict  # the compiled rules of a project


def test_deny_of_each_source_stays(machine: Machine) -> None:
    files = ("etc/config.toml", "user/config.toml", "user/profiles/work.toml")
    for name in files:
        machine.write(name, '[permissions]\nrules = ["allow bash push"]')
    for name in files:
        machine.write(name, '[permissions]\nrules = ["deny bash push"]')
        config = machine.load("permissions.rules=['allow bash push']", profile="work").config()
        assert verdict(policy_of(config), "push") == "deny"
        machine.write(name, '[permissions]\nrules = ["allow bash push"]')
    config = machine.load("permissions.rules=['allow! bash push']", profile="work").config()
    assert verdict(policy_of(config), "push") == "allow"


def test_nothing_lifts_required_rules(machine: Machine) -> None:
    machine.write("etc/required.toml", '[permissions]\nprofile = "ask"\nrules = ["deny bash push", "ask bash pull"]')
    machine.write("user/config.toml", '[permissions]\nprofile = "full"\nrules = ["allow! bash *"]')
    config = machine.load("permissions.rules=['allow! bash *']").config()
    assert config.profile == "ask"
    assert [verdict(policy_of(config), command) for command in ("push", "pull", "make")] == ["deny", "ask", "allow"]
    with pytest.raises(ConfigError, match="not allowed here"):
        policy_of(config, profile="full")
    with pytest.raises(ConfigError, match="not allowed here"):
        policy_of(config).use_profile(Any, "auto-edit")  # type: ignore[arg-type]  # any session


def test_required_profile_is_a_limit_not_a_default(machine: Machine) -> None:
    machine.write("etc/required.toml", '[permissions]\nprofile = "auto-edit"')
    assert machine.load().config().profile is None
    assert machine.load("permissions.profile=read-only").config().profile == "read-only"
    assert machine.load("permissions.profile=full").config().profile == "auto-edit"


def test_required_rules_allow_nothing(machine: Machine) -> None:
    machine.write("etc/required.toml", '[permissions]\nrules = ["allow bash *"]')
    with pytest.raises(ConfigError, match=r"required\.toml:2: these rules are limits"):
        machine.load().config()


# -- properties --------------------------------------------------------------------------------

MODELS = st.sampled_from(["a/one", "b/two"])
RULES = st.lists(
    st.builds(
        "{} bash {}".format,
        st.sampled_from(["allow", "ask", "deny", "allow!", "ask!"]),
        st.sampled_from(["*", "push", "pull", "push *"]),
    ),
    max_size=3,
)
# What a file may say, with the value that the finished configuration has for it.
READERS: Mapping[str, tuple[st.SearchStrategy[Any], Callable[[Config], object]]] = {
    "defaults.model": (MODELS, lambda config: config.defaults.model),
    "defaults.titles": (MODELS, lambda config: config.defaults.titles),
    "compaction.auto": (st.booleans(), lambda config: config.compaction.auto),
    "compaction.tail": (st.integers(0, 9), lambda config: config.compaction.tail),
    "hosts.ollama.parallel": (st.integers(0, 9), lambda config: config.hosts["ollama"].parallel),
    'models."a/one".context': (st.integers(1, 9), lambda config: config.models["a/one"].context),
    'models."a/one".effort': (st.sampled_from(["low", "high"]), lambda config: config.models["a/one"].options.effort),
    'models."a/one".prices.input': (
        st.floats(0, 9, allow_nan=False),
        lambda config: config.models["a/one"].prices.input,
    ),
    "agents.mine.steps": (st.integers(1, 9), lambda config: config.agents["mine"].steps),
    "permissions.profile": (st.sampled_from(PROFILES), lambda config: config.profile),
    "sandbox.network": (st.booleans(), lambda config: config.sandbox and config.sandbox.network),
    "instructions.max_bytes": (st.integers(1, 9), lambda config: config.instructions.max_bytes),
    "skills.folders": (st.lists(MODELS, max_size=2), lambda config: list(config.skills)),
}


def nested(values: Mapping[str, object]) -> dict[str, object]:
    document: dict[str, object] = {}
    for name, value in values.items():
        key, table = parse_key(name), document
        for part in key[:-1]:
            table = cast("dict[str, object]", table.setdefault(part, {}))
        table[key[-1]] = value
    return document


STACKS = st.fixed_dictionaries(
    {},
    optional={
        kind: st.fixed_dictionaries({}, optional={name: values for name, (values, _) in READERS.items()})
        for kind in KINDS
    },
)


@given(STACKS)
@settings(deadline=None)
def test_explained_value_is_the_one_used(stack: Mapping[Kind, Mapping[str, object]]) -> None:
    merged = merge([ConfigDocument(kind, kind, nested(stack[kind])) for kind in KINDS if kind in stack])
    config = build_config(merged)
    for name, (_, read) in READERS.items():
        settings_of = merged.contributions(parse_key(name))
        if settings_of:
            assert settings_of[0][1] == read(config)
            others = [kind for kind in KINDS if name in stack.get(kind, {})]
            assert sorted(others) == sorted(one.kind for one, _ in settings_of)
            if name != "permissions.profile":
                assert settings_of[0][0].kind == others[-1]
        elif name == "permissions.profile":
            assert read(config) is None
        elif len(parse_key(name)) == 2 and name != "sandbox.network":
            used = read(config)
            assert (tuple(used) if isinstance(used, list) else used) == default_of(parse_key(name))


PROJECT_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    **{name: values for name, (values, _) in READERS.items()},
    "hosts.ollama.base_url": st.just("http://evil.example/v1"),
    "hosts.evil.like": st.just("vllm"),
    "hosts.openai.key_command": st.just(["sh", "-c", "evil"]),
    "hooks.SessionStart": st.just([{"hooks": [{"type": "command", "command": "evil"}]}]),
    "environment.pass_env": st.just(["OPENAI_API_KEY"]),
    "programs.evil.reading": st.just("free"),
    "skills.folders": st.just(["/evil"]),
    "defaults.agent": st.just("evil"),
    "sandbox.backend": st.sampled_from(["off", "auto", "landlock", "bwrap"]),
    "sandbox.writable": st.just(["/"]),
    "sandbox.hidden": st.just(["/nothing"]),
    "agents.mine.tools": st.just(["bash"]),
    "agents.mine.rules": RULES,
    "agents.plan.bounds": RULES,
    "agents.evil.rules": RULES,
    'models."openai/gpt-5.6".same_as': st.just("ollama/free"),
    "permissions.rules": RULES,
}
SANDBOXES = ("off", "auto", "landlock", "bwrap")


@given(
    st.fixed_dictionaries({}, optional={name: values for name, (values, _) in READERS.items()}),
    RULES,
    st.fixed_dictionaries({}, optional=dict(PROJECT_VALUES)),
    st.sampled_from(["push", "pull", "push x", "make"]),
)
@settings(deadline=None)
def test_project_files_never_widen(
    user: Mapping[str, object], user_rules: list[str], project: Mapping[str, object], command: str
) -> None:
    own = ConfigDocument("user", "user", nested({**user, "permissions.rules": user_rules}))
    restricted, _ = restrict_document(ConfigDocument("project", "project", nested(project)), merge([own]).values)
    without, config = build_config(merge([own])), build_config(merge([own, restricted]))
    for name in ("hosts", "hooks", "defaults", "compaction", "programs", "skills", "pass_env", "rules", "rule_layers"):
        assert getattr(config, name) == getattr(without, name)
    assert {**config.models, **without.models} == config.models
    assert {name: config.agents.get(name) for name in BUILT_IN} == {name: without.agents.get(name) for name in BUILT_IN}
    assert all(config.agents[name] == agent for name, agent in without.agents.items())
    assert not is_wider(config.profile or "ask", without.profile or "ask")
    if without.sandbox or config.sandbox:
        old = (without.sandbox.backend, without.sandbox.network) if without.sandbox else ("auto", False)
        assert config.sandbox is not None
        assert SANDBOXES.index(config.sandbox.backend) >= SANDBOXES.index(old[0])
        assert config.sandbox.network <= old[1]
    # The agents that a project adds lift nothing that holds without them.
    for agent in set(config.agents) - set(without.agents):
        policy = policy_of(config)
        plain, with_agent = (
            policy._compiled(Project("/p"), rules).judge("bash", command)  # as a session's
            for rules in ((), config.agents[agent].rules)
        )
        order = ("allow", "ask", "deny")
        assert order.index(with_agent.verdict) >= order.index(plain.verdict)


def test_keys_round_trip() -> None:
    for text in ('models."a/b".prices.input', "defaults.model", 'hosts."x.y".base_url'):
        assert format_key(parse_key(text)) == text
    key: Key = ("models", 'a"\\b')
    assert parse_key(format_key(key)) == key


def test_unknown_variables() -> None:
    env = {"ENGINE_MODLE": "x", "ENGINE_CALL": "x", "ENGINE_MODEL": "x", "HOME": "/", "ENGINE_XYZ": "x"}
    assert list(unknown_variables(env)) == [
        "unknown variable ENGINE_MODLE: did you mean ENGINE_MODEL?",
        "unknown variable ENGINE_XYZ: the engine does not read it",
    ]


def test_errors_of_a_merged_value_name_its_source(machine: Machine) -> None:
    machine.write("etc/config.toml", "[compaction]\ntail = 1\n")
    file = machine.write("user/config.toml", '[compaction]\nauto = true\ntail = "x"\n')
    with pytest.raises(ConfigError, match=f"{file}:3, .compaction.: tail: expected integer, got string"):
        machine.load().config()
    document = parse_document(b"[compaction]\ntail = 1", "x.toml")
    assert json.dumps(document.values) == '{"compaction": {"tail": 1}}'


@pytest.mark.parametrize(("name", "is_kept"), [("ollama/ours", True), ("anthropic/claude-sonnet-4-5", False)])
def test_project_names_models_of_its_own_only(name: str, is_kept: bool) -> None:
    values: dict[str, object] = {"models": {name: {"same_as": "ollama/llama3.2"}}}
    restricted, ignored = restrict_document(ConfigDocument("project", "project", values), {})
    assert restricted.values == (values if is_kept else {})
    assert [key.reason for key in ignored] == (
        [] if is_kept else ["a project's file can give a name of its own to a model, but not change one"]
    )


def test_name_with_a_line_break_begins_no_line() -> None:
    key = ("mcp", "servers", 'a\nNext: rm "x"\x1b[2J\u2028')
    assert format_key(key) == 'mcp.servers."a\\u000ANext: rm \\"x\\"\\u001B[2J\\u2028"'
    assert parse_key(format_key(key)) == key
