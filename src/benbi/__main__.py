"""``python -m benbi``: the same as the ``benbi`` command."""

from benbi.cli import main

if __name__ == "__main__":
    main()
