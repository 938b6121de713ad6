"""`engine doctor`: what works here, and how to mend what does not. Each check returns findings, and none changes anything."""
