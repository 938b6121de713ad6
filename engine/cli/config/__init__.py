"""`engine config`: show, explain, check and change the configuration."""
