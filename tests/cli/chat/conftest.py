import pytest


@pytest.fixture
def only_full(is_full: bool) -> None:
    """Skip the test in `make test`: it starts several programs, and a quicker one is beside it."""
    if not is_full:
        pytest.skip("only in `make full`")
