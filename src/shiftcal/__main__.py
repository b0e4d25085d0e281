"""`python -m shiftcal`."""

import sys

from shiftcal.cli import main

if __name__ == "__main__":
    sys.exit(main())
