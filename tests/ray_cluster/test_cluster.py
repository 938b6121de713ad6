"""A real cluster on this machine: results, cancels, workers that are killed, and clusters that can't be used."""

import os
from collections.abc import Generator
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import ConfigError
from engine.ray_cluster.cluster import ClusterOptions, RayCluster, WorkLost, open_cluster
from tests.conftest import REPOSITORY
from tests.support.ray_world import TOKEN, needs_ray, processes_of, ray_folder, wait_until

pytestmark = [pytest.mark.os, pytest.mark.slow, needs_ray, pytest.mark.timeout(240)]

OPTIONS = ClusterOptions(address="local", function="tests.support.ray_work:run")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with ray_folder() as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        yield folder


async def outcome(cluster: RayCluster, work: str, stop: trio.Event, into: dict[str, str | None]) -> None:
    try:
        into[work] = await cluster.run(work, stop=stop)
    except WorkLost as lost:
        into[work] = f"lost: {lost.kind}"


async def pid_in(path: Path) -> int:
    await trio.to_thread.run_sync(wait_until, lambda: path.exists() and path.read_text(), f"there is no {path.name}")
    return int(await trio.Path(path).read_text())


async def test_work_ends_by_itself_by_cancel_or_by_force(folder: str, tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    ended: dict[str, str | None] = {}
    stop = trio.Event()
    async with open_cluster(OPTIONS) as cluster:
        assert cluster.slots == os.cpu_count()
        assert await cluster.run("quick ü", stop=stop) == "Ü"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, cluster, f"waits {one}", stop, ended)
            os.kill(await pid_in(one), 9)
        assert ended == {f"waits {one}": "lost: worker"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, cluster, f"waits {two}", stop, ended)
            await pid_in(two)
            nursery.start_soon(outcome, cluster, f"stubborn {three}", stop, ended)
            await pid_in(three)
            stop.set()
        assert (ended[f"waits {two}"], ended[f"stubborn {three}"]) == ("interrupted", "lost: cancelled")
        assert await cluster.run("quick too late", stop=stop) is None
    assert not processes_of(folder)


async def test_cancelled_block_leaves_no_process(folder: str, tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_cluster(OPTIONS) as cluster, trio.open_nursery() as nursery:
            nursery.start_soon(outcome, cluster, f"waits {tmp_path / 'one'}", trio.Event(), {})
            await pid_in(tmp_path / "one")
            scope.cancel()
    assert scope.cancelled_caught
    assert not processes_of(folder)


async def test_another_version_is_named(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"this machine has 0\.0\.1\nNext: install the same versions"):
        async with open_cluster(attrs.evolve(OPTIONS, version="0.0.1")):
            raise AssertionError("it was accepted")
    assert not processes_of(folder)
