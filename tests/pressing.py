"""A person who presses Ctrl-C again."""

from __future__ import annotations

import subprocess

PATIENCE_S = 30.0
AGAIN_S = 0.05


def press_until_it_ends(process: subprocess.Popen[str], number: int) -> int:
    """Send the signal over and over: those that come with the first one are the same press. Gives how it ended."""
    for _ in range(int(PATIENCE_S / AGAIN_S)):
        process.send_signal(number)
        try:
            return process.wait(AGAIN_S)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"signal {number} ends it, however often it is sent: it goes on")
