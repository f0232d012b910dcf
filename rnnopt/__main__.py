"""``python -m rnnopt``."""

import sys

from rnnopt.cli import main

if __name__ == "__main__":
    sys.exit(main())
