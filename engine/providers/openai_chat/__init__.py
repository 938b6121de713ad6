"""The OpenAI Chat Completions API, as dozens of hosts speak it."""
