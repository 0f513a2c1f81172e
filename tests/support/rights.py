"""Being nobody in particular: root may write anything, whatever the permission bits say."""

from __future__ import annotations

import ctypes
import os
import sys

VERSION_3 = 0x20080522
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root pass by permission bits.
OVERRIDES = 1 << 1 | 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def give_up_overrides() -> None:
    """From now on permission bits hold for this process, root or not."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(VERSION_3, 0), (_Data * 2)()
    if libc.capget(ctypes.byref(header), data):
        raise OSError(ctypes.get_errno(), "capget")
    data[0].effective &= ~OVERRIDES
    data[0].permitted &= ~OVERRIDES
    if libc.capset(ctypes.byref(header), data):
        raise OSError(ctypes.get_errno(), "capset")
