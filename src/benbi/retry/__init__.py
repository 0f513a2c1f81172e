"""Which errors are worth another try, and when the next try is due.

Four kinds: **transient** (the same call may succeed later) and **unknown** (nothing is known
about it) are tried again; **permanent** (the same call can not succeed) and **bug** (the code is
wrong) fail at once. The first rule that knows an error decides:

1. An error of benbi's own says what it wants.
2. A spent quota, or an input too long for the model, is final whatever its HTTP status.
3. A code: gRPC, SQLSTATE, SQLite, JSON-RPC, SMTP, AWS, then the HTTP status, which is read from
   the shape of any client library's error. 408, 425, 429 and 5xx are transient; 501, 505, 3xx
   and other 4xx are permanent, except a 4xx whose answer carries a ``Retry-After``.
4. The class or its nearest known ancestor, by the names of package and class: no client library
   is ever imported here, and a subclass of a known error inherits its rule. An ``OSError`` goes
   by its errno.
5. What is still unknown takes the kind of its ``raise … from`` cause, where that is transient or
   permanent. ``__context__`` is not looked at: it says only what happened before.

An exception group is as bad as the worst of its members. ``ValueError``, ``KeyError``,
``RuntimeError`` and most other plain errors of Python have no rule: they are unknown.

Pure: no clock, no I/O, no chance.
"""

from benbi.retry.judge import classify
from benbi.retry.policy import LONGEST_RETRY_AFTER, Retry, delay
from benbi.retry.verdict import Kind, Verdict

__all__ = ["LONGEST_RETRY_AFTER", "Kind", "Retry", "Verdict", "classify", "delay"]
