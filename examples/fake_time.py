"""Test a week of schedules in a millisecond: the clock is yours, and nothing waits.

python examples/fake_time.py        (in a real test suite, the same lines are the body of a test)
"""

from datetime import UTC, datetime, timedelta

from tickless import Scheduler, after, every
from tickless.testing import FakeClock, InlinePool

MONDAY = datetime(2030, 1, 7, 9, 0, tzinfo=UTC)


def test_reminders_come_daily_until_the_bill_is_paid() -> None:
    clock = FakeClock(start=MONDAY)
    sent: list[int] = []
    with Scheduler(InlinePool(), clock=clock) as scheduler:
        reminder = scheduler.schedule(lambda: sent.append(len(sent) + 1), every(timedelta(days=1)), id="reminder")
        paid = scheduler.schedule(reminder.cancel, after(timedelta(days=4, hours=12)), id="paid")

        clock.advance(timedelta(hours=23))
        assert sent == []
        clock.advance(timedelta(hours=1))  # to the very instant: it has run when advance returns
        assert sent == [1]
        assert reminder.next_fire == MONDAY + timedelta(days=2)
        clock.advance(timedelta(days=6))  # every due instant on the way, in order
        assert sent == [1, 2, 3, 4]
        assert (reminder.state, paid.state) == ("cancelled", "succeeded")


test_reminders_come_daily_until_the_bill_is_paid()
print("seven days passed, four reminders were sent, and no time was spent")
