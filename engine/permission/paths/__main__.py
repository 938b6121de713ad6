"""`python -m engine.permission.paths`: report where the paths of a call lead. `path_access` does the work."""

import sys

from engine.permission.paths.path_access import main

if __name__ == "__main__":
    main(sys.argv[1:])
