"""The tools that come with the engine: one module and one text for the model each. `all` gathers them."""
