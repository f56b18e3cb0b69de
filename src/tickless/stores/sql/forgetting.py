"""What goes with a task, or with a round, that is forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("queries.sql")


def drop_rounds(db: Database, seqs: Sequence[int]) -> int:
    """Forget these rounds, and their tasks; in a transaction. Gives how many rows that were."""
    if not seqs:
        return 0
    of_them = [db.execute(ASK.tasks_of_round, (seq,)).fetchall() for seq in seqs]
    gone = [*((seq,) for seq in seqs), *(task for tasks in of_them for task in tasks)]
    for query in (ASK.drop_task, ASK.drop_links, ASK.drop_tags):
        db.executemany(query, gone)
    db.execute(ASK.drop_plans)
    return len(gone)


def drop_tasks(db: Database, seqs: Sequence[int]) -> None:
    """Forget these tasks, which have ended, and their runs, rounds and runs beside the plan; in a transaction."""
    drop_rounds(db, [row[0] for seq in seqs for row in db.execute(ASK.rounds, (seq,)).fetchall()])
    for query in (ASK.drop_task, ASK.drop_links, ASK.drop_runs, ASK.drop_tags):
        db.executemany(query, [(seq,) for seq in seqs])


def among(db: Database, sql: str, numbers: Sequence[int]) -> list[int]:
    """Those of the numbers of which the question still gives a row."""
    return [seq for (seq,) in db.execute(sql, (json.dumps(list(numbers)),)).fetchall()]
