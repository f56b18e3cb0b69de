"""What must hold of the rows between any two steps, said from the schema and the promises, and read by another eye."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.simulation.fleet import LIMITS, Process

Row = dict[str, Any]


class Look:
    """The file as it is now."""

    def __init__(self, eye: sqlite3.Connection) -> None:
        self.tasks: dict[int, Row] = {row["seq"]: dict(row) for row in eye.execute("SELECT * FROM tasks ORDER BY seq")}
        for row in self.tasks.values():
            more = json.loads(row["more"]) if row["more"] else {}
            row["form"], row["special"] = more, more.get("special", {})
            row["says"] = json.loads(row["policy"]) if row["policy"] else {}
        self.live = {seq: row for seq, row in self.tasks.items() if row["ended"] is None}
        self.facts = dict(eye.execute("SELECT * FROM facts").fetchone())
        self.limits = {row["name"]: dict(row) for row in eye.execute("SELECT * FROM limits")}
        self.links = {tuple(row) for row in eye.execute("SELECT parent, child FROM links")}

    def seq_of(self, id: str) -> int | None:
        return next((seq for seq, row in self.tasks.items() if row["id"] == id and row["listed"]), None)


def row_of(eye: sqlite3.Connection, seq: int) -> Row | None:
    found = eye.execute("SELECT * FROM tasks WHERE seq = ?", (seq,)).fetchone()
    return None if found is None else dict(found)


def places(row: Row) -> list[str]:
    """Every place that a task is in (P1)."""
    where = {
        "timeline": row["at"] is not None,
        "wait set": bool(row["kin"] & 4),
        "queue": row["lane"] is not None,
        "running": row["state"] == "running",
        "held": "hold" in row["special"],
    }
    return [place for place, is_there in where.items() if is_there]


def row_faults(look: Look, processes: Iterable[Process]) -> Iterator[str]:
    """What is broken in the rows, if anything. `processes`: those that live."""
    here = {process.number: process for process in processes}
    for seq, row in look.tasks.items():
        what = f"task {seq} ({row['id']}): "
        if row["trouble"] is not None:
            yield f"{what}is set aside: {row['trouble']}"
        faults = _live_faults(look, row) if row["ended"] is None else _ended_faults(row)
        yield from (what + fault for fault in faults)
        if row["owner"] is not None and row["state"] != "running":
            owner = here.get(row["owner"])
            if owner is not None and not any(_is_zombie_of(run, row) for run in owner.going()):
                yield f"{what}has an owner, and neither runs nor has a zombie"
    yield from _limit_faults(look, here)
    yield from _count_faults(look)


def _is_zombie_of(run: Any, row: Row) -> bool:
    return (
        run.extra is not None and run.extra.zombie and row["seq"] == getattr(getattr(run, "task", None), "_seq", None)
    )


def _live_faults(look: Look, row: Row) -> Iterator[str]:
    found = places(row)
    if len(found) != 1:
        yield f"P1: is in {found or 'no place'}: {_told(row)}"
    if (row["state"] == "ready") != (row["lane"] is not None):
        yield f"is {row['state']}, and its queue is {row['lane']}"
    if row["lane"] is not None and row["turn"] is None:
        yield "stands in a queue without a turn"
    if row["state"] == "running":
        told = {name: row[name] for name in ("owner", "lease", "started")}
        if None in told.values() or not row["token"]:
            yield f"runs, with {told} and the token {row['token']}"
        if row["finished"] is not None:
            yield f"runs, and has finished at {row['finished']}"
    elif row["lease"] is not None:
        yield f"has a lease, and is {row['state']}"
    if row["work"] is None:
        yield "lives, and has lost its work"
    parents = [key if isinstance(key, int) else key[0] for key in row["form"].get("parents", ())]
    unfinished = [parent for parent in parents if parent in look.live]
    if row["waiting"] != len(unfinished):
        yield f"P4: counts {row['waiting']} parents, and {unfinished} have not finished"
    unlinked = [parent for parent in unfinished if (parent, row["seq"]) not in look.links]
    if unlinked:
        yield f"P4: nobody tells it of the end of {unlinked}"
    if row["kin"] & 4 and not unfinished:
        yield "P4: waits for the dead"


def _ended_faults(row: Row) -> Iterator[str]:
    where = [place for place in places(row) if place != "running"]
    if where or row["state"] in ("running", "ready", "pending"):
        yield f"P5: has ended, and is {row['state']} in {where}"
    if row["work"] is not None or row["rule"] is not None or row["lease"] is not None:
        yield f"P5: has ended, and keeps its work, its rule or a lease: {_told(row)}"


def _limit_faults(look: Look, here: dict[int, Process]) -> Iterator[str]:
    held: Counter[str] = Counter()
    reserved: Counter[str] = Counter()
    for row in look.live.values():
        if row["special"].get("permit"):
            held[row["says"]["limit"]] += 1
            reserved[row["says"]["limit"]] += row["state"] == "ready"
    for extra in (run.extra for process in here.values() for run in process.going()):
        if extra is not None and extra.zombie and extra.permit is not None:
            held[extra.permit] += 1
    for limit in LIMITS:
        for row in look.tasks.values():  # those of the dead, which nobody has buried yet
            if row["owner"] not in here and row["says"].get("limit") == limit.name:
                held[limit.name] += row["special"].get("kept", bool(row["kin"] & 16))
        row = look.limits[limit.name]
        if (row["held"], row["reserved"]) != (held[limit.name], reserved[limit.name]):
            yield (
                f"limit {limit.name}: counts {row['held']} permits and {row['reserved']} reserved ones, "
                f"and there are {held[limit.name]} and {reserved[limit.name]}"
            )
        if limit.running is not None and row["held"] > limit.running:
            yield f"limit {limit.name}: {row['held']} permits of {limit.running}"


def _count_faults(look: Look) -> Iterator[str]:
    facts = look.facts
    if facts["live"] != len(look.live):
        yield f"facts: live is {facts['live']}, and {len(look.live)} live"
    if look.tasks and facts["seq"] < max(look.tasks):
        yield f"facts: seq is {facts['seq']}, and there is a task {max(look.tasks)}"
    turns = [max(abs(row["turn"] or 0), row["ended"] or 0) for row in look.tasks.values()]
    if turns and facts["turn"] < max(turns):
        yield f"facts: turn is {facts['turn']}, and there is {max(turns)}"
    stood = Counter((row["lane"], row["turn"]) for row in look.live.values() if row["lane"] is not None)
    yield from (f"{place} is the place of {count} tasks" for place, count in stood.items() if count > 1)


def owner_faults(look: Look, numbers: set[int]) -> Iterator[str]:
    """After a process has looked for the dead: whom a row names lives. `numbers`: those that do."""
    for seq, row in look.tasks.items():
        if row["owner"] is not None and row["owner"] not in numbers:
            yield f"task {seq} ({row['id']}): belongs to {row['owner']}, who is dead, and it was looked at"


def _told(row: Row) -> str:
    return ", ".join(f"{key} {value!r}" for key, value in row.items() if value not in (None, 0, {}, []))
