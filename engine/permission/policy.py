"""The rules at work: what a call may do, in whichever session, and what was allowed to it for longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs

from engine.errors import ConfigError, EngineError
from engine.events import Right, Verdict
from engine.permission.grant_file import GrantFile
from engine.permission.grants import Grants, Origin
from engine.permission.profiles import Profile, profile_named
from engine.permission.project import project_of
from engine.permission.rules import PATH_PERMISSIONS, Decision, Layer, Rule, Ruleset
from engine.ports import Allowance, Judgement, Link, Needed, PermissionQuery
from engine.threads import to_thread

_STRICTNESS: Final[tuple[Verdict, ...]] = ("allow", "ask", "deny")
