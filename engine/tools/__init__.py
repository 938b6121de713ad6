"""Tools: what one is, its arguments and schema, the pipeline of a call, processes, the built-ins."""
