"""A lock that a process forked meanwhile finds open: the thread that held it is not in there, and would never give it back."""

import contextlib
import os
import threading


class Lock:
    """What one thread has at a time, as often as it likes."""

    def __init__(self):
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self):
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def held(self):
        """Waits for the lock, and has it for the block, of which a child that is forked in it ends its own copy."""
        with self._lock:
            yield
