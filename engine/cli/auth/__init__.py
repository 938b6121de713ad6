"""`engine auth`: the stored keys of providers."""
