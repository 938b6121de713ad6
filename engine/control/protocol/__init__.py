"""The control protocol without I/O: values in, text out, and back. `docs/reference/control.md` describes it."""
