"""`python -m repertory` is the `repertory` command."""

import sys

from repertory.launch.cli import command

if __name__ == '__main__':
    sys.exit(command.main())
