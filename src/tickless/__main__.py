"""`python -m tickless`."""

import sys

from tickless.cli import main

sys.exit(main())
