"""Whether hostile texts are read in linear time, on a machine of any speed."""

import time
from collections.abc import Callable


def assert_linear(read: Callable[[str], object], text: str, *, enough_s: float) -> None:
    """Done in `enough_s` of computing, or at least not much longer than four quarters of it take.

    A quarter of what is quadratic takes a sixteenth. Tried thrice: the machine may become slow between two readings.
    """
    said = ""
    for attempt in range(3):
        again = text + "." * attempt  # nothing that is kept answers
        whole_s = _computing_s(read, again)
        if whole_s < enough_s:
            return
        quarter_s = max(_computing_s(read, again[attempt : len(again) // 4 + n]) for n in range(2))
        if whole_s < 8 * quarter_s:
            return
        said = f"{whole_s:.1f} s of computing for all of it, {quarter_s:.2f} s for a quarter"
    raise AssertionError(said)


def _computing_s(read: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began
