"""Schedules as people say them, over the night on which the clocks change. No time passes: the clock is moved by hand.

python examples/office_hours.py
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from tickless import Scheduler, cron, every, weekdays
from tickless.rules import parse, preview
from tickless.testing import FakeClock, InlinePool

PARIS = ZoneInfo("Europe/Paris")
FRIDAY = datetime(2027, 3, 26, 12, 0, tzinfo=PARIS)  # clocks are put forward in the night to Sunday, 02:00 -> 03:00
EASTER = {date(2027, 3, 29)}

backup = cron("30 2 * * *", tz="Europe/Paris")
report = cron("0 9 * * mon-fri", tz="Europe/Paris").not_on(EASTER, shift="next")
meeting = parse("every 2 weeks on mon at 10:00 Europe/Paris")
quarter = every(months=3, at="18:00", tz="Europe/Paris", anchor=date(2027, 3, 31))

print("What they mean, and when they fire next:\n")
for rule in (backup, report, meeting, quarter, backup | quarter, report.on_days(weekdays("tue"))):
    print(rule)
    for fire in preview(rule, FRIDAY, 3):
        print(f"    {fire.local:%a %d %b %Y %H:%M %Z}", *fire.notes, sep="  ")

clock = FakeClock(start=FRIDAY)
with Scheduler(InlinePool(), clock=clock) as scheduler:
    nightly = scheduler.schedule(int, backup, id="backup")
    thrice = scheduler.schedule(int, report, id="report", max_runs=3)
    scheduler.schedule(int, every(minutes=20), id="poll", start=FRIDAY, until=FRIDAY + timedelta(hours=1), jitter=30)
    clock.advance(timedelta(days=7))

    nights = [f"{run.due.astimezone(PARIS):%a %H:%M}" for run in nightly.runs() if run.due]
    assert nights == ["Sat 02:30", "Sun 03:00", "Mon 02:30", "Tue 02:30", "Wed 02:30", "Thu 02:30", "Fri 02:30"]
    days = [f"{run.due.astimezone(PARIS):%a %d}" for run in thrice.runs() if run.due]
    assert days == ["Tue 30", "Wed 31", "Thu 01"]  # Easter Monday's report is Tuesday's, which is there already
    assert (thrice.state, thrice.reason) == ("succeeded", "max_runs")
    assert [run.due for run in scheduler.runs("poll")] == [
        FRIDAY.astimezone(UTC) + timedelta(minutes=20 * n) for n in range(4)
    ]

print("\nA week went by: a backup every night, the one of Sunday at 03:00, since there was no 02:30.")
