"""Text for terminals: styles, widths, Markdown."""
