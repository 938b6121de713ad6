"""Cohere's chat API."""
