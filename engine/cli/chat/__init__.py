"""`engine chat`: a pure machine over events and keys, its live region on the terminal, and the clients that it talks through."""
