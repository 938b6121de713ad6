"""Facts about models: families, limits and prices."""
