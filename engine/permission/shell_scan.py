"""`python -m engine.permission.shell_scan`: scan a shell script. The scanner is `engine.permission.shell.scan`."""

import sys

from engine.permission.shell.scan import main

if __name__ == "__main__":
    main(sys.argv[1:])
