"""`python -m repertory` is the `repertory` command."""

from repertory.launch.cli import main

if __name__ == '__main__':
    main.main()
