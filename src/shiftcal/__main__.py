"""`python -m shiftcal`."""

import sys

from shiftcal.faces.cli import main

if __name__ == "__main__":
    sys.exit(main())
