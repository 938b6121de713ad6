"""`python -m engine.permission.paths`: tell where a path or a script leads. It is `path_access` that answers."""

import sys

from engine.permission.paths.path_access import main

if __name__ == "__main__":
    main(sys.argv[1:])
