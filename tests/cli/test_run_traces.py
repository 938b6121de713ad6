"""`engine run` with `[telemetry]`: the how-to as it stands, and a collector that is not there."""

from pathlib import Path

import pytest

from tests.cli.conftest import Quick
from tests.conftest import REPOSITORY
from tests.support.processes import python_process, read_line

pytestmark = pytest.mark.os

RECEIVER = str(REPOSITORY / "docs" / "examples" / "howto_traces.py")


def configured(folder: Path, endpoint: str) -> str:
    file = folder / "config.toml"
    file.write_text(f'[telemetry]\nenabled = true\nendpoint = "{endpoint}"\n')
    return str(file)


def test_receiver_of_the_how_to_prints_the_tree(quick: Quick, tmp_path: Path) -> None:
    with python_process(RECEIVER, "--listen", "0") as receiver:
        address = read_line(receiver).removeprefix("listening on ")
        ended = quick("run", "--yes", "bash true", ENGINE_CONFIG=configured(tmp_path, address))
        assert (ended.code, ended.stdout) == (0, b"All done.\n")
        assert b"could not be sent" not in ended.stderr
        lines = [read_line(receiver).split("  ")[-2:] for _ in range(4)]
    names = [line[0].strip() for line in lines]
    assert names[0] == "invoke_agent"
    assert {"chat claude-sonnet-5-5", "execute_tool bash", "engine.store.flush"} >= set(names[1:])


def test_collector_that_is_not_there_is_one_line(quick: Quick, tmp_path: Path) -> None:
    ended = quick("run", "hello", ENGINE_CONFIG=configured(tmp_path, "http://127.0.0.1:9"))
    assert ended.code == 0
    reports = [line for line in ended.stderr.decode().splitlines() if "sent" in line]
    assert len(reports) == 1
    assert "http://127.0.0.1:9" in reports[0]
    assert b"Traceback" not in ended.stderr


def test_telemetry_is_off_without_being_asked_for(quick: Quick) -> None:
    ended = quick("run", "hello", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert ended.code == 0
    assert b"sent" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_exporter_that_is_not_known_is_refused(quick: Quick, tmp_path: Path, name: str, value: str) -> None:
    environment = {"ENGINE_CONFIG": configured(tmp_path, "http://127.0.0.1:9"), name: value}
    ended = quick("run", "hello", **environment)  # type: ignore[arg-type]  # they are variables
    assert ended.code == 2
    assert f"Next: unset {name}" in ended.stderr.decode()
