"""The prompt: what every request begins with, in layers, and what is told when one of them changes."""
