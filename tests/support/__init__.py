"""What several suites share."""

from tests.support.polling import wait_until, wait_until_async

__all__ = ["wait_until", "wait_until_async"]
