"""Rules beside croniter, APScheduler's CronTrigger and bare cronsim: `make bench`, or by hand.

Prints what is asked and what was reached, then every figure. It is no test: it fails (exit code 1) only when a measure
failed, never because one was slow.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments import APS, OURS, plain, ratio
from harness import Experiment, Goal, Measure, machine, run
from table import document

CRONITER, CRONSIM = "croniter", "cronsim"
ASKED = {
    "every minute": (2_000, 1.5, 1.0),
    "every 5 minutes": (2_000, 1.5, 1.0),
    "weekdays at 9": (1_000, 1.2, None),
    "last Friday": (300, 1.2, None),
    "daily": (80, 0.9, None),  # before the first change of clocks, over which croniter and APScheduler go astray
}
"""Expression -> (fires in the chain, x croniter, x APScheduler)."""
LEGEND = (
    "Each chain is walked fire by fire from 1 January 2026. **croniter** and **cronsim** are iterators that stand where"
    " they were; tickless and APScheduler are asked anew each time. cronsim is given aware datetimes, as in its manual."
)


def all_experiments() -> list[Experiment]:
    chains = [_chain(name, tz) for name in ASKED for tz in ("UTC", "Europe/Berlin")]
    return [*chains, _refuse(), _gap_every(), _gap_cron(), _seek(), _step(10_000)]


def _chain(name: str, tz: str) -> Experiment:
    count, x_croniter, x_aps = ASKED[name]
    params = {"name": name, "tz": tz, "count": count}
    goals = [Goal(f"x {CRONITER}", ratio("per_s", OURS, CRONITER), x_croniter)]
    if x_aps is not None:
        goals.append(Goal(f"x {APS}", ratio("per_s", OURS, APS), x_aps))
    contenders = {
        OURS: Measure("cron_peers.ours", params),
        CRONITER: Measure("cron_peers.by_croniter", params),
        APS: Measure("cron_peers.by_apscheduler", params),
        CRONSIM: Measure("cron_peers.by_cronsim", params),
    }
    key = f"next-{name.replace(' ', '-')}-{tz.rpartition('/')[2]}".lower()
    return Experiment(key, f"The next fire, {name}, {tz}", contenders, goals)


def _refuse() -> Experiment:
    goals = [Goal("refused within", plain("ms"), 20, at_least=False, unit=" ms")]
    return Experiment("refuse", "A never-firing expression is refused", {OURS: Measure("rule_costs.refuse")}, goals)


def _gap_every() -> Experiment:
    goals = [Goal("found within", plain("ms"), 1, at_least=False, unit=" ms")]
    measure = Measure("rule_costs.gap_every")
    return Experiment("gap-every", "What every(seconds=1) missed in ten years", {OURS: measure}, goals)


def _gap_cron() -> Experiment:
    goals = [Goal("found within", plain("ms"), 5, at_least=False, unit=" ms")]
    contenders = {
        OURS: Measure("rule_costs.gap_cron", {"expr": "* * * * * *", "tz": "Europe/Berlin"}),
        "tickless, UTC": Measure("rule_costs.gap_cron", {"expr": "* * * * * *", "tz": "UTC"}),
    }
    return Experiment("gap-cron", "What a per-second cron missed in ten years", contenders, goals)


def _seek() -> Experiment:
    goals = [Goal("found within", plain("ms"), 5, at_least=False, unit=" ms")]
    measure = Measure("rule_costs.seek", {"text": "FREQ=WEEKLY;BYDAY=MO,WE,FR"})
    return Experiment("seek", "An RRULE from 2000 seeks to 2026, the second time", {OURS: measure}, goals)


def _step(count: int) -> Experiment:
    goals = [Goal("placed anew within", plain("ms"), 1_000, at_least=False, unit=" ms")]
    measure = Measure("rule_costs.step", {"count": count})
    return Experiment("step", f"{count:,} distinct cron tasks when the clock is set back", {OURS: measure}, goals)


def main() -> int:
    options = _options()
    experiments = all_experiments()
    if options.only:
        experiments = [one for one in experiments if any(one.key.startswith(word) for word in options.only)]
    if options.list or not experiments:
        print("rows:", *[one.key for one in all_experiments()], file=sys.stdout if options.list else sys.stderr)
        return 0 if options.list else 2
    where = machine()
    measured = [(one, run(one, options.repeat, [], _say)) for one in experiments]
    text = document(where, options.repeat, measured, LEGEND)
    print(text)
    if options.write:
        options.write.write_text("# Results: rules\n\n" + text, encoding="utf-8")
    return 1 if any(figures.failed for _, figures in measured) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/rules.py", description=__doc__)
    parser.add_argument("--only", action="append", metavar="ROW", help="rows whose key begins so; may be repeated")
    parser.add_argument("--repeat", type=int, metavar="N", default=5, help="rounds; 5")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables to this file as well")
    parser.add_argument("--list", action="store_true", help="print the keys of the rows")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
