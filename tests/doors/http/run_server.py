"""Serves the bakery in a process of its own: ``python -m … run_server.py URL PORT [worker]``."""

from __future__ import annotations

import asyncio
import logging
import sys

from benbi.errors import BenbiError
from benbi.server.http import serve
from tests.doors.http.bakery import bakery

if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    url, port, *words = sys.argv[1:]
    try:
        asyncio.run(serve(bakery(url), port=int(port), worker="worker" in words, grace=2.0))
    except BenbiError as error:
        sys.exit(f"refused: {error}")
