"""The bodies that were called, kept by the simulation itself, against what the store says of them at the end."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.simulation.cluster_rows import Look
from tests.simulation.fleet import Start


@dataclass(slots=True)
class Record:
    """What the store says of one occurrence, or of several that were skipped."""

    id: str
    due: int | None
    state: str
    reason: str | None
    started: int | None
    tries: list[tuple[int, int]]
    """(number, started) of each attempt that failed."""
    crashed: set[int]
    """The numbers of those whose process died."""
    last: int | None = None
    """Of a summary of skipped fires: the last one's due."""
    count: int = 1

    @property
    def attempts(self) -> list[tuple[int, int]]:
        """All attempts, the last one included."""
        number = self.tries[-1][0] + 1 if self.tries else 1
        return self.tries if self.started is None else [*self.tries, (number, self.started)]


def records_of(eye: sqlite3.Connection) -> list[Record]:
    """Of every occurrence that has ended: the rows of `runs`; and of tasks that fire once, their own."""
    look = Look(eye)
    found = [
        _record(row, row["run_due"]) for row in look.tasks.values() if row["ended"] and "history" not in row["form"]
    ]
    names = {seq: row["id"] for seq, row in look.tasks.items()}
    for row in map(dict, eye.execute("SELECT * FROM runs ORDER BY no")):
        form = json.loads(row["more"]) if row["more"] else {}
        found.append(_record({**row, "id": names[row["task"]], "form": {"run": form}}, row["due"]))
    return found


def _record(row: dict[str, object], due: object) -> Record:
    form = row["form"].get("run", {})  # type: ignore[attr-defined]  # it was JSON
    count, last = form.get("fires", (1, None))
    tries = [(number, started) for number, started, *_ in form.get("tries", ())]
    crashed = {number for number, *_, reason in form.get("tries", ()) if reason == "crashed"}
    return Record(row["id"], due, row["state"], row["reason"], row["started"], tries, crashed, last, count)  # type: ignore[arg-type]


def ledger_faults(starts: Iterable[Start], records: Iterable[Record]) -> Iterator[str]:
    """What the two do not agree on. Handlers have no records: their rows go when they end."""
    began: dict[tuple[str, int | None], list[Start]] = defaultdict(list)
    said: dict[tuple[str, int | None], list[Record]] = defaultdict(list)
    for start in starts:
        if not start.id.endswith("/on_failure"):
            began[start.id, start.due].append(start)
    for record in records:
        said[record.id, record.due].append(record)
    for key in sorted({*began, *said}, key=str):
        yield from _occurrence_faults(began[key], said[key])


def _occurrence_faults(began: list[Start], said: list[Record]) -> Iterator[str]:
    told = "; ".join(map(str, (*began, *said)))
    numbers = Counter(start.attempt for start in began)
    yield from (f"attempt {number} began {times} times: {told}" for number, times in numbers.items() if times > 1)
    for before, after in pairwise(began):
        if after.attempt <= before.attempt:
            yield f"attempt {after.attempt} began after attempt {before.attempt}: {told}"
        if before.at_most_once and any(before.attempt in record.crashed for record in said):
            yield f"at most once, and began again after its process had died: {told}"
    attempts = [attempt for record in said for attempt in record.attempts]
    for record in said:
        if [number for number, _ in record.attempts] != list(range(1, len(record.attempts) + 1)):
            yield f"attempts are not numbered 1, 2, 3: {told}"
        if record.state in ("running", "ready", "pending"):
            yield f"a record goes on: {told}"
        if record.state == "succeeded":
            number, at = record.attempts[-1]
            if not any((one.attempt, one.at, one.ended) == (number, at, "succeeded") for one in began):
                yield f"has succeeded, and no body has: {told}"
    if sum(record.state == "succeeded" for record in said) > 1:
        yield f"has succeeded twice: {told}"
    for start in began:
        # Of one whose process died the record says when it was taken: when it began nobody has written.
        died = any(start.attempt in record.crashed or record.reason == "crashed" for record in said)
        told_of = any(number == start.attempt and at <= start.at for number, at in attempts)
        if not (told_of if died else (start.attempt, start.at) in attempts):
            yield f"began, and there is no record of it: {told}"


def grid_faults(id: str, first: int, interval: int, records: list[Record]) -> Iterator[str]:
    """Every fire of a grid, from the first to the newest with a record, has one and no more (P6)."""
    came: Counter[int] = Counter()
    for record in records:
        if record.due is not None:
            last = record.due if record.last is None else record.last
            fires = range(record.due, last + 1, interval)
            if len(fires) != record.count:
                yield f"{id}: {record} stands for {len(fires)} fires"
            came.update(fires)
    for due in range(first, max(came, default=first), interval):
        if came[due] != 1:
            yield f"{id}: the fire {due} has {came[due]} records: {'; '.join(map(str, records))}"
    strays = sorted(due for due in came if (due - first) % interval)
    if strays:
        yield f"{id}: {strays} are no fires of {first} + n * {interval}"
