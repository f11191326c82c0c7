"""`python -m day0` is the command `day0`."""

import sys

from day0.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
