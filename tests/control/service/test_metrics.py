"""Metrics as Prometheus reads them."""

from engine.control.service.metric_table import METRICS
from engine.control.service.metrics import Metrics
from engine.control.service.process_stats import process_stats


def lines(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.text().splitlines() if line.startswith(name)]


def test_every_metric_is_described() -> None:
    described = [line.split()[2] for line in Metrics().text().splitlines() if line.startswith("# TYPE")]
    assert described == list(METRICS)
    assert {name for name, _ in process_stats()} <= set(METRICS)


def test_nothing_has_a_value_that_nobody_counted() -> None:
    values = [line.split("{")[0].split()[0] for line in Metrics().text().splitlines() if not line.startswith("#")]
    # A counter without labels begins with 0: so a rate can be told from the first increase on.
    assert values == [row.name for row in METRICS.values() if row.kind == "counter" and not row.labels]


def test_counters_have_their_labels() -> None:
    metrics = Metrics()
    metrics.add("engine_tokens_total", "input", 'a"b\\c\nd', value=2)
    metrics.add("engine_tokens_total", "input", 'a"b\\c\nd')
    metrics.add("engine_cost_total", "m", value=0.25)
    assert lines(metrics, "engine_tokens_total") == ['engine_tokens_total{kind="input",model="a\\"b\\\\c\\nd"} 3']
    assert lines(metrics, "engine_cost_total") == ['engine_cost_total{model="m"} 0.25']


def test_histogram_buckets_add_up() -> None:
    metrics = Metrics()
    for seconds in (0.5, 1.0, 7.0, 1e6, -3.0):
        metrics.observe("engine_turn_seconds", seconds)
    found = dict(line.rsplit(" ", 1) for line in lines(metrics, "engine_turn_seconds"))
    assert found['engine_turn_seconds_bucket{le="1"}'] == "3"
    assert found['engine_turn_seconds_bucket{le="15"}'] == "4"
    assert found['engine_turn_seconds_bucket{le="+Inf"}'] == found["engine_turn_seconds_count"] == "5"


def test_samples_are_shown_but_not_kept() -> None:
    metrics = Metrics()
    assert 'engine_sessions{status="idle"} 2' in metrics.text([("engine_sessions", ("idle",), 2.0)]).splitlines()
    metrics.set_summary("engine_store_flush_seconds", 3, 0.5)
    assert "engine_store_flush_seconds_count 3" in metrics.text().splitlines()
    assert not lines(metrics, "engine_sessions{")


def test_series_are_bounded() -> None:
    metrics = Metrics()
    for number in range(1_000):
        metrics.add("engine_cost_total", f"model-{number}")
    found = lines(metrics, "engine_cost_total")
    assert len(found) == 201
    assert found[-1] == 'engine_cost_total{model="other"} 800'
