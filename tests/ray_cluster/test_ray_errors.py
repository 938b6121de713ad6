"""What is passed on of Ray's words: no address, no token."""

import pytest

from engine.ray_cluster.ray_errors import without_addresses

SECRETS = [
    "10.0.0.12",
    "10.0.0.12:6379",
    "ray://head.internal:10001",
    "head-1.internal:6379",
    "5ec2e7" * 10 + "beef",
    "fe80::1:2ff",
    "[2001:db8::17]:6379",
    "https://u:p@host/x",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_addresses_and_tokens_are_left_out(secret: str) -> None:
    said = without_addresses(f"can't connect to {secret} within 5 seconds (attempt 3 of 4)")
    assert said == "can't connect to … within 5 seconds (attempt 3 of 4)"


def test_other_words_stay() -> None:
    assert without_addresses("No module named 'engine.batch' at 12:30") == "No module named 'engine.batch' at 12:30"
    assert len(without_addresses("word " * 1_000)) == 500
