"""The engine's tests: they mirror `engine/`, beside properties, conformance and os."""
