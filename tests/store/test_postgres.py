"""The store in PostgreSQL: the port, and all that it can do beyond, as in a file."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from tests.store.full_suite import FullPlace, FullSuite
from tests.store.server import emptied_database

pytestmark = pytest.mark.os


class TestInADatabase(FullSuite):
    def places(self) -> AbstractContextManager[FullPlace]:
        return emptied_database()
