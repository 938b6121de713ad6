"""Flags of the commands that run turns: model, permissions, sandbox, limits, output and session."""

from __future__ import annotations

from typing import Final, get_args

import attrs

from engine.cli.command_table.command_spec import Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG, PROFILE_FILE, SETTING, STORE
from engine.cli.flags.arg_types import LAST, amount, directory, time_span, whole
from engine.cli.terminal.colours import COLOUR_CHOICES
from engine.config.sandbox_config import BackendSetting
from engine.core.llm_types import CacheLifetime, Effort
from engine.permission.rules.profiles import PROFILES

COLOR: Final = Flag(
    names=("--color",),
    choices=COLOUR_CHOICES,
    default="auto",
    variable="ENGINE_COLOR",
    help="choose when to use colours",
    detail="auto: on a terminal, unless NO_COLOR is set; FORCE_COLOR=1 also elsewhere.",
    example="--color never",
)

MODEL_FLAGS: Final = FlagGroup(
    "model",
    (
        Flag(
            names=("-m", "--model"),
            value="MODEL",
            help="use this model: host/model, or local:FILE",
            detail="Default: the agent's, $ENGINE_MODEL, the configuration's, or one for which there is a key. `engine models` "
            "lists them. local:FILE is a GGUF file on this machine.",
            example="--model openai/gpt-5.6",
            completes="model",
        ),
        Flag(
            names=("--fallback",),
            value="MODEL",
            help="switch to this model when the first one fails for good",
            example="--fallback anthropic/claude-sonnet-5-5",
            is_repeated=True,
            completes="model",
        ),
        Flag(
            names=("--agent",),
            value="NAME",
            help="use this agent",
            detail="`engine agents` lists them.",
            example="--agent plan",
            completes="agent",
        ),
        Flag(
            names=("--effort",),
            choices=get_args(Effort),
            help="set the reasoning effort",
            example="--effort high",
        ),
        Flag(
            names=("--temperature",),
            value="T",
            help="set the sampling temperature, 0 to 2",
            parse=float,
            example="--temperature 0.2",
        ),
        Flag(
            names=("--max-output",),
            value="N",
            help="limit one answer to N tokens",
            parse=int,
            example="--max-output 4000",
        ),
        Flag(
            names=("--cache",),
            choices=get_args(CacheLifetime),
            help="set the lifetime of the prompt cache",
            example="--cache 1h",
        ),
        CONFIG,
        PROFILE_FILE,
        attrs.evolve(
            SETTING, names=("--set",), detail=f"-c KEY=VALUE does the same; -c alone is --continue. {SETTING.detail}"
        ),
    ),
)

PERMISSION_FLAGS: Final = FlagGroup(
    "permissions",
    (
        Flag(
            names=("--profile",),
            choices=tuple(PROFILES),
            help="choose what is allowed where no rule decides",
            default_text="the configuration's, else ask",
            example="--profile read-only",
        ),
        Flag(
            names=("--yes",),
            help="approve all that no rule denies or asks about",
            detail="The same as --profile full.",
        ),
        Flag(
            names=("--rule",),
            value="RULE",
            help="add a rule, such as 'deny bash git push *'",
            example="--rule 'allow bash make test'",
            is_repeated=True,
        ),
        Flag(names=("--trust",), help="trust the project: its rules, agents and commands"),
        Flag(
            names=("--add-dir",),
            value="DIR",
            help="work in this directory as well as in the project",
            parse=directory,
            example="--add-dir ..",
            is_repeated=True,
            completes="directory",
        ),
        Flag(
            names=("--unattended",),
            choices=("deny", "rules"),
            default="deny",
            help="choose what happens where no user can be asked",
            detail="deny: deny what would be asked. rules: allow only what a rule allows explicitly.",
            example="--unattended rules",
        ),
    ),
)

SANDBOX_FLAGS: Final = FlagGroup(
    "sandbox",
    (
        Flag(
            names=("--sandbox",),
            choices=get_args(BackendSetting),
            help="choose what confines commands",
            default_text="the configuration's, else auto",
            detail="bwrap confines all of them, auto and landlock those that run without a question, and with off only a few run "
            "without one.",
            example="--sandbox landlock",
        ),
        Flag(
            names=("--network",),
            help="let commands in the sandbox use the network",
            detail="It needs --sandbox bwrap.",
            example="--sandbox bwrap --network",
        ),
    ),
)

LIMIT_FLAGS: Final = FlagGroup(
    "limits of the whole task, sub-agents included",
    (
        Flag(
            names=("--max-steps",),
            value="N",
            help="stop after N requests to the model",
            parse=whole(1),
            example="--max-steps 20",
        ),
        Flag(
            names=("--max-tokens",),
            value="N",
            help="stop after N tokens, input and output",
            parse=whole(1),
            example="--max-tokens 500000",
        ),
        Flag(
            names=("--max-cost",),
            value="USD",
            help="stop at this cost in dollars",
            parse=amount,
            variable="ENGINE_MAX_COST",
            example="--max-cost 0.50",
        ),
        Flag(
            names=("--max-seconds", "--timeout"),
            value="TIME",
            help="stop after this time, such as 90, 10m or 2h",
            parse=time_span,
            dest="max_seconds",
            example="--timeout 10m",
        ),
    ),
)

SESSION_FLAGS: Final = FlagGroup(
    "session",
    (
        Flag(
            names=("-c", "--continue"),
            help="continue the newest session of this folder",
            const=LAST,
            dest="resume",
            excludes="resume",
        ),
        Flag(
            names=("--resume",),
            value="ID",
            help="continue this session, in its folder",
            detail="Without an ID it is the same as --continue. `engine sessions` lists them.",
            is_optional=True,
            const=LAST,
            excludes="resume",
            example="--resume last",
            completes="session",
        ),
        Flag(
            names=("--fork",),
            help="continue in a copy of the session",
            detail="It needs --continue or --resume.",
            example="--continue --fork",
        ),
        attrs.evolve(STORE, excludes="store"),
        Flag(
            names=("--ephemeral",),
            help="keep the session in memory only",
            detail="The same as --store :memory:.",
            const=":memory:",
            dest="store",
            excludes="store",
        ),
        Flag(
            names=("--no-snapshots",),
            help="take no snapshots of files",
            detail="Changes can't be undone then.",
        ),
    ),
)
