"""What users need to test their schedules, and to prove a clock, a rule, an observer, a store or an executor of theirs.

The suites need pytest, and `RuleSuite` needs hypothesis too: `from tickless.testing.rule_suite import RuleSuite`.
"""

from tickless.testing.clock import FakeClock
from tickless.testing.pools import InlinePool, ManualPool

__all__ = ["FakeClock", "InlinePool", "ManualPool"]
