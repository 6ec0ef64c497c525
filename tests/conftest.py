"""Settings of the whole suite."""

import os
import signal

from hypothesis import HealthCheck, settings

# A busy machine is no finding, so nothing is timed but what a test times itself; and in CI a run repeats itself:
# examples that nobody has seen yet are for whoever runs the tests by hand.
settings.register_profile(
    "verifiers",
    deadline=None,
    derandomize="CI" in os.environ or "VERIFIERS_CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("verifiers")

# What a shell starts in the background ignores Ctrl-C, and what tests start, to press it there, would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
