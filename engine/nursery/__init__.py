"""One turn, in the order of its stages: frame → loop → step → reader → demux → ledger, admission → worker → cleanup."""
