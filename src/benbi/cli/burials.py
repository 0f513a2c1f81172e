"""Gives the jobs of ended processes to others, in a thread: the database may take its time."""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from benbi.errors import StoreError

if TYPE_CHECKING:
    from benbi import Benbi

log = logging.getLogger("benbi.supervisor")

RETRY_SECONDS: Final = 0.25
LAST_SECONDS: Final = 3.0


class _Ended(NamedTuple):
    pid: int
    database: tuple[str, str]
    mark: str
    why: str | None


class Burials:
    """What waits to be buried, and the thread that does it; started by the first one."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[_Ended | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._app: Benbi | None = None

    def add(self, pid: int, database: tuple[str, str], mark: str, why: str | None) -> None:
        """Buries the workers of a process that has ended; ``why`` None: uncharged."""
        self._ended.put(_Ended(pid, database, mark, why))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="benbi-burials", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Waits a little for what is under way; what is left is noticed by others later."""
        if self._thread is not None:
            self._closing.set()
            self._ended.put(None)
            self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        while (ended := self._ended.get()) is not None:
            while not self._bury(ended) and not self._closing.wait(RETRY_SECONDS):
                pass
        if self._app is not None:
            self._app.close_sync()

    def _bury(self, ended: _Ended) -> bool:
        from benbi import Benbi

        try:
            url, schema = ended.database
            self._app = self._app or Benbi(url, schema=schema)
            if ended.why is None:
                jobs = self._app.release_process_sync(ended.mark)
            else:
                jobs = self._app.bury_process_sync(ended.mark, ended.why)
        except StoreError as error:
            log.warning("the jobs of process %d wait for the database: %s", ended.pid, error)
            return False
        except Exception:
            log.exception("the jobs of process %d are left to the other workers", ended.pid)
            return True
        if jobs:
            log.warning("%d jobs of process %d go on elsewhere", len(jobs), ended.pid)
        return True
