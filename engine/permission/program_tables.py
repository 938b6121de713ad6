"""All the tables of programs as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.program_record import Program
from engine.permission.program_table_build import BUILD
from engine.permission.program_table_containers import CONTAINERS
from engine.permission.program_table_editors import EDITORS
from engine.permission.program_table_files import FILES
from engine.permission.program_table_git import GIT, GIT_DASHED
from engine.permission.program_table_interpreters import INTERPRETERS
from engine.permission.program_table_network import NETWORK
from engine.permission.program_table_packages import PACKAGES
from engine.permission.program_table_text import TEXT
from engine.permission.program_table_wrappers import WRAPPERS

TABLES: Final[tuple[Mapping[str, Program], ...]] = (
    WRAPPERS,
    INTERPRETERS,
    TEXT,
    FILES,
    NETWORK,
    EDITORS,
    BUILD,
    PACKAGES,
    CONTAINERS,
    {"git": GIT, "git-": GIT_DASHED},
)
PROGRAMS: Final[Mapping[str, Program]] = {name: program for table in TABLES for name, program in table.items()}
