"""All the tables of programs as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.build import BUILD
from engine.permission.programs.tables.containers import CONTAINERS
from engine.permission.programs.tables.files import FILES
from engine.permission.programs.tables.git import GIT, GIT_DASHED
from engine.permission.programs.tables.interpreters import INTERPRETERS
from engine.permission.programs.tables.network import NETWORK
from engine.permission.programs.tables.opaque import OPAQUE
from engine.permission.programs.tables.packages import PACKAGES
from engine.permission.programs.tables.program_spec import Program
from engine.permission.programs.tables.reading import READING
from engine.permission.programs.tables.text import TEXT
from engine.permission.programs.tables.wrappers import WRAPPERS

TABLES: Final[tuple[Mapping[str, Program], ...]] = (
    OPAQUE,
    WRAPPERS,
    INTERPRETERS,
    TEXT,
    READING,
    FILES,
    NETWORK,
    BUILD,
    PACKAGES,
    CONTAINERS,
    {"git": GIT, "git-": GIT_DASHED},
)
PROGRAMS: Final[Mapping[str, Program]] = {name: program for table in TABLES for name, program in table.items()}
