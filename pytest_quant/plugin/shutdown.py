"""SIGTERM and SIGHUP end a run with checks as Ctrl-C does: its records are written, and its table is printed."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

import pytest

from pytest_quant.marks.marked import RECORD_ATTRIBUTE, is_marked

_NAMES = ("SIGTERM", "SIGHUP")


class Shutdown:
    """Hooks of the controlling process only; nothing is changed before the first check.

    A signal that somebody else handles, or that is ignored as ``nohup`` does, is left as it is.
    """

    def __init__(self) -> None:
        self._looked = False
        self._handled: list[signal.Signals] = []
        self._mask: set[signal.Signals | int] = set()
        self._ends = False

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Handle the signals from the first check on."""
        if is_marked(item):
            self._handle()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Do so where workers of xdist run the checks, from their first record on."""
        if RECORD_ATTRIBUTE in vars(report):
            self._handle()

    def pytest_keyboard_interrupt(self) -> None:
        """Ignore further signals once pytest ends: the records are being written."""
        self._ends = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Do so where the tests have all run."""
        self._ends = True

    def pytest_unconfigure(self) -> None:
        """Give the signals back."""
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)
        self._handled = []

    def _handle(self) -> None:
        if self._looked or threading.current_thread() is not threading.main_thread():
            return
        self._looked = True
        known = [signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__]
        self._handled = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._handled:
            signal.signal(number, self._stop)
        if self._handled and hasattr(os, "register_at_fork"):
            # Workers of a pool or a data loader must die of the signal: whoever ends them waits for that. Blocked
            # meanwhile, because Python drops a signal that comes to a child before its first instruction.
            os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._die_of_them)

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self._ends:
            # What no `except Exception` between here and pytest takes for an error of its own.
            raise KeyboardInterrupt(f"{signal.Signals(number).name} received")

    def _block(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._handled)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _die_of_them(self) -> None:
        self.pytest_unconfigure()
        self._unblock()
