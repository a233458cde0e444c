"""``python -m plait``."""

import sys

from plait.cli import main

if __name__ == "__main__":
    sys.exit(main())
