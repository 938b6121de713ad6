"""Ten lines that look right, cancelled at each of their points; and the same lines, right."""

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

from engine.testing import PromiseBroken, cancel_everywhere


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance


async def transfer(source: Account, target: Account, amount: int) -> None:
    source.balance -= amount
    await trio.sleep(0.1)  # asks the other bank
    target.balance += amount


@contextmanager
def transfer_case() -> Generator[Callable[[], Awaitable[None]]]:
    mine, yours = Account(100), Account(0)
    yield partial(transfer, mine, yours, 30)
    # What must be true after each run, cancelled or not.
    total = mine.balance + yours.balance
    assert total == 100, f"{100 - total} of 100 are lost"


async def transfer_safely(source: Account, target: Account, amount: int) -> None:
    source.balance -= amount
    try:
        await trio.sleep(0.1)
    except BaseException:
        source.balance += amount
        raise
    target.balance += amount


@contextmanager
def safe_case() -> Generator[Callable[[], Awaitable[None]]]:
    mine, yours = Account(100), Account(0)
    yield partial(transfer_safely, mine, yours, 30)
    assert mine.balance + yours.balance == 100


def main() -> None:
    try:
        cancel_everywhere(transfer_case)
    except PromiseBroken as broken:
        print(broken)
    report = cancel_everywhere(safe_case)
    print(f"\ntransfer_safely: {report.points} points, {report.runs} cancelled runs, nothing broken")


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)  # the report names files from here
    main()
