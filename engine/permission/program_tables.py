"""All the tables of programs as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.program_record import Program
from engine.permission.program_table_interpreters import INTERPRETERS
from engine.permission.program_table_wrappers import WRAPPERS

PROGRAMS: Final[Mapping[str, Program]] = {**WRAPPERS, **INTERPRETERS}
