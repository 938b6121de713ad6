"""One turn, in the order of its stages: turn_task → loop → step → stream_reader → demux → call_ledger → tool_task → concluder."""
