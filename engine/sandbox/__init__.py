"""Where commands run that shall change the project only: an operating system's jail around them."""
