"""The control endpoint: clients in other processes drive and watch the sessions of an engine."""
