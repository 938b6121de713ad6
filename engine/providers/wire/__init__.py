"""What all wire formats share: framing, JSON, schemas, quirks, incremental encoding."""
