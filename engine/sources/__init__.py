"""Sources of tools at work, and the tools of a session as its turns get them."""
