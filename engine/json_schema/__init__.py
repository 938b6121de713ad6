"""JSON Schema: reading one, and checking values against it."""
