"""One turn, in the order of its stages: turn_supervisor → loop → step_runner → stream_reader → stream_parser → call_ledger → tool_task → cleanup."""
