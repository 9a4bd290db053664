"""``python -m vyre_driver`` is ``vyre-driver``."""

import sys

from vyre_driver.cli import main

if __name__ == "__main__":
    sys.exit(main())
