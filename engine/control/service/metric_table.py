"""The metrics of a server, by name. No label holds an id, a path or a text of a user, so there are few values of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

# Of requests and of what should take less than a heartbeat; of turns and of answers, which may wait for a person.
_SHORT: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_LONG: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


@attrs.frozen
class Metric:
    """A row of the table.

    Attributes:
        name: as Prometheus has it.
        kind: of Prometheus's types.
        help: what it measures.
        labels: their names.
        buckets: the upper bounds of a histogram's.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: Final[Mapping[str, Metric]] = {
    row.name: row
    for row in (
        Metric(
            "engine_build_info", "gauge", "The version of the engine and of Python; always 1.", ("version", "python")
        ),
        Metric("engine_sessions", "gauge", "Open sessions, without those of sub-agents.", ("status",)),
        Metric("engine_turns_total", "counter", "Turns that have ended, those of sub-agents too.", ("stop_reason",)),
        Metric("engine_turn_seconds", "histogram", "From a turn's start to its end.", (), _LONG),
        Metric("engine_cancel_seconds", "histogram", "From the cancel of a turn to its end.", (), _SHORT),
        Metric("engine_questions_open", "gauge", "Questions that wait for an answer.", ("kind",)),
        Metric("engine_question_seconds", "histogram", "From a question to its answer, or its withdrawal.", (), _LONG),
        Metric("engine_tasks_overstaying", "gauge", "Turns that have ended, and of which a task still runs."),
        Metric("engine_processes", "gauge", "Processes of commands that run."),
        Metric("engine_tokens_total", "counter", "Tokens, as hosts have reported them.", ("kind", "model")),
        Metric("engine_cost_total", "counter", "Money for models, in dollars.", ("model",)),
        Metric("engine_provider_retries_total", "counter", "Requests to models that failed, and were scheduled again."),
        Metric("engine_store_flush_seconds", "summary", "Transactions in which the store has written events."),
        Metric("engine_control_connections", "gauge", "Open connections of clients.", ("transport", "role")),
        Metric("engine_control_requests_total", "counter", "Requests that were answered.", ("method", "code")),
        Metric("engine_control_request_seconds", "histogram", "From a request to its answer.", ("method",), _SHORT),
        Metric("engine_control_events_total", "counter", "Events that were sent: durable or live.", ("kind",)),
        Metric("engine_control_bytes_total", "counter", "Bytes of connections, before encryption.", ("direction",)),
        Metric("engine_control_merged_total", "counter", "Deltas that were merged with the one before them."),
        Metric(
            "engine_control_resyncs_total", "counter", "Snapshots in place of events that can't be sent.", ("reason",)
        ),
        Metric(
            "engine_control_stalls_total", "counter", "Connections that were closed because the client read nothing."
        ),
        Metric("engine_control_upload_bytes", "gauge", "Memory of files that clients have sent ahead of prompts."),
        Metric("engine_control_refused_total", "counter", "Connections and requests that were refused.", ("reason",)),
        Metric("engine_control_lag_seconds", "histogram", "From an event to its sending.", (), _SHORT),
        Metric("process_cpu_seconds_total", "counter", "User and system time."),
        Metric("process_virtual_memory_bytes", "gauge", "Mapped memory."),
        Metric("process_resident_memory_bytes", "gauge", "Memory in use."),
        Metric("process_max_fds", "gauge", "The limit on open file descriptors."),
        Metric("process_open_fds", "gauge", "Open file descriptors."),
        Metric("process_start_time_seconds", "gauge", "When the process was started, in seconds since the epoch."),
    )
}
