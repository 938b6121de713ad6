"""The chat as a pure machine: its state, its messages, and what keys and events do. It knows no terminal and no clock."""
