"""What the commands share of streams: standard streams, the keyboard, signals, escaped text, exit codes. They know no events."""
