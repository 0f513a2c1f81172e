"""``make demo``: a tool call whose worker and whose server are killed, live.

python examples/giftgenius/demo.py [--household 900] [--budget 60] [--plain]

With a postgresql:// URL in BENBI_URL the jobs lie there, and a second worker stands by.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Reads the options and shows the demo; 0 where every claim held."""
    parser = argparse.ArgumentParser(description="A tool call that survives, live.")
    parser.add_argument("--household", type=int, default=900, help="one of 1 to 2500")
    parser.add_argument("--budget", type=float, default=60.0, help="dollars for all ideas together")
    parser.add_argument("--plain", action="store_true", help="plain lines, as without a terminal")
    options = parser.parse_args()
    # Run as a file, its own folder is on the path, and not the project's.
    sys.path[0] = str(ROOT)
    try:
        from examples.giftgenius.showing import show
    except ModuleNotFoundError as error:
        print(f"{error}: run it by `make demo`, which installs what it needs", file=sys.stderr)
        return 1
    return show(options.household, options.budget, plain=options.plain)


if __name__ == "__main__":
    sys.exit(main())
