-- What the upkeep of a file asks. Nothing here is asked while tasks run: each may read a whole table.

-- name: states
-- State -> how many listed tasks are in it. Reads all tasks; who runs for a chief is found by tasks_of_chief.
SELECT CASE
    WHEN ended IS NOT NULL THEN coalesce(json_extract(more, '$.end[0]'), state)
    WHEN state IN ('ready', 'running') THEN state
    WHEN EXISTS (
        SELECT 1 FROM tasks AS one
        WHERE one.chief = tasks.seq AND one.ended IS NULL AND NOT one.kin & 32 AND one.state = 'running'
    ) THEN 'running'
    ELSE 'pending'
END AS now, count(*) FROM tasks WHERE listed > 0 AND trouble IS NULL GROUP BY now ORDER BY now;

-- name: count_recurring
-- How many tasks recur. By tasks_recurring.
SELECT count(*) FROM tasks WHERE rule IS NOT NULL AND ended IS NULL;

-- name: count_runs
-- How many runs of recurring tasks are kept.
SELECT count(*) FROM runs;

-- name: count_rounds
-- How many rounds of flows are kept. By tasks_of_chief.
SELECT count(*) FROM tasks WHERE chief IS NOT NULL AND json_extract(more, '$.special.round.id') IS NOT NULL;

-- name: owners
-- The processes that have joined.
SELECT number, host, pid, listens FROM owners ORDER BY number;

-- name: finished_page
-- Tasks that have ended before a place or an instant and may be forgotten, in the order of their ends, from one place
-- on: not those whose result a child waits for, whose runs beside the plan are to come, or whose code goes on. By
-- tasks_ended. Rounds and their tasks go another way.
SELECT seq, ended FROM tasks AS parent
WHERE ended > ? AND (ended < ? OR finished < ?) AND round IS NULL AND listed > 0 AND NOT (kin & 2 AND EXISTS (
    SELECT 1 FROM links JOIN tasks AS child ON child.seq = links.child
    WHERE links.parent = parent.seq AND child.ended IS NULL
)) AND NOT EXISTS (SELECT 1 FROM tasks AS one WHERE one.chief = parent.seq AND one.ended IS NULL)
AND owner IS NULL ORDER BY ended LIMIT ?;

-- name: still_finished
-- Those of these tasks that may be forgotten still.
SELECT seq FROM tasks AS parent
WHERE seq IN (SELECT value FROM json_each(?)) AND ended IS NOT NULL AND NOT (kin & 2 AND EXISTS (
    SELECT 1 FROM links JOIN tasks AS child ON child.seq = links.child
    WHERE links.parent = parent.seq AND child.ended IS NULL
)) AND NOT EXISTS (SELECT 1 FROM tasks AS one WHERE one.chief = parent.seq AND one.ended IS NULL)
AND owner IS NULL;

-- name: round_page
-- Rounds that ended before an instant, by their numbers, from one on: not those that are just tried again. By
-- tasks_of_chief.
SELECT seq FROM tasks AS one
WHERE seq > ? AND chief IS NOT NULL AND ended IS NOT NULL AND finished < ?
AND json_extract(more, '$.special.round.id') IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tasks AS again WHERE again.chief = one.chief AND again.ended IS NULL
    AND json_extract(again.more, '$.special.round.retry_of') = json_extract(one.more, '$.special.round.id')
) ORDER BY seq LIMIT ?;

-- name: still_rounds
-- Those of these rounds that may be forgotten still.
SELECT seq FROM tasks AS one
WHERE seq IN (SELECT value FROM json_each(?)) AND ended IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tasks AS again WHERE again.chief = one.chief AND again.ended IS NULL
    AND json_extract(again.more, '$.special.round.retry_of') = json_extract(one.more, '$.special.round.id')
);

-- name: rounds_of_ended
-- The rounds of these tasks, and their runs beside the plan. By tasks_of_chief.
SELECT seq FROM tasks WHERE chief IN (SELECT value FROM json_each(?));

-- name: old_run_page
-- Runs that ended before an instant, by their numbers, from one on.
SELECT no FROM runs WHERE no > ? AND finished < ? ORDER BY no LIMIT ?;

-- name: next_with_runs
-- The next task that has runs. By runs_of_task.
SELECT task FROM runs WHERE task > ? ORDER BY task LIMIT 1;

-- name: over_run_page
-- Runs of a task beyond as many as are kept, from one on, that ended at an instant or later. By runs_of_task.
SELECT no FROM runs WHERE task = ? AND no > ? AND no <= (
    SELECT no FROM runs WHERE task = ? ORDER BY no DESC LIMIT 1 OFFSET ?
) AND finished >= ? ORDER BY no LIMIT ?;

-- name: drop_run
-- A run is forgotten.
DELETE FROM runs WHERE no = ?;

-- name: export_tasks
-- Listed tasks that are of no round, by their numbers, from one on. By the primary key.
SELECT seq, id, name, work, args, priority, pool, policy, rule, due, wall, ended, at, state, reason, run_due, started,
    finished, error, more, trouble FROM tasks
WHERE seq > ? AND listed > 0 AND round IS NULL ORDER BY seq LIMIT ?;

-- name: export_runs
-- The runs of a task, the oldest first, from one on. By runs_of_task.
SELECT no, due, state, reason, started, finished, error, more FROM runs WHERE task = ? AND no > ? ORDER BY no LIMIT ?;

-- name: export_rounds
-- The rounds of a flow, the oldest first, from one on. By tasks_of_chief.
SELECT seq, state, reason, started, finished, error, more FROM tasks
WHERE chief = ? AND seq > ? AND json_extract(more, '$.special.round.id') IS NOT NULL ORDER BY seq LIMIT ?;

-- name: export_tasks_of_round
-- The tasks of a round, from one on. By tasks_of_round.
SELECT seq, id, name, work, args, priority, pool, policy, rule, due, wall, ended, at, state, reason, run_due, started,
    finished, error, more, trouble FROM tasks
WHERE round = ? AND seq > ? ORDER BY seq LIMIT ?;
