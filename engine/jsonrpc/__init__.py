"""JSON-RPC 2.0 in both directions, without I/O: control, agents of other programs and language servers speak it."""
