"""The shared suite asserts as tests do."""

import pytest

pytest.register_assert_rewrite("tests.store.suite", "tests.store.full_suite")
