-- The queries of the SQL stores that are not about whole rows of `tasks`: those are put together in session.py.

-- name: head
-- The earliest place in time of any task. By tasks_in_time.
SELECT at FROM tasks WHERE at IS NOT NULL AND trouble IS NULL ORDER BY at, seq LIMIT 1;

-- name: apart_due
-- Whether anything is due that may not wait for its turn among the others: for its priority, its pool, its rule. By
-- tasks_apart.
SELECT 1 FROM tasks WHERE at <= ? AND at IS NOT NULL AND trouble IS NULL AND
    (priority <> 0 OR policy IS NOT NULL OR rule IS NOT NULL) LIMIT 1;

-- name: set_aside
-- The row cannot be used, and says why.
UPDATE tasks SET trouble = ? WHERE seq = ?;

-- name: drop_task
-- An occurrence or a handler has ended: nobody is shown its row.
DELETE FROM tasks WHERE seq = ?;

-- name: link
-- A child waits for a parent.
INSERT OR IGNORE INTO links (parent, child) VALUES (?, ?);

-- name: linked
-- The children of a task by their numbers, in order.
SELECT child FROM links WHERE parent = ? ORDER BY child;

-- name: note_late
-- What came of a run that had timed out.
UPDATE runs SET more = ? WHERE task = ? AND started = ? AND reason = 'timed_out';

-- name: children
-- The children of a task as keys: number, and the id that was given if any.
SELECT tasks.seq, tasks.id FROM links JOIN tasks ON tasks.seq = links.child WHERE links.parent = ? ORDER BY tasks.seq;

-- name: add_run
-- A run of a recurring task has ended, or fires were skipped.
INSERT INTO runs (task, due, at, state, reason, started, finished, error, more) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: newest_runs
-- The newest runs of a task, the newest first. By runs_of_task.
SELECT no, due, at, state, reason, started, finished, error, more FROM runs WHERE task = ? ORDER BY no DESC LIMIT ?;

-- name: add_tag
-- A task bears a tag.
INSERT OR IGNORE INTO tags (tag, seq) VALUES (?, ?);

-- name: drop_tags
-- A task bears no tag any more.
DELETE FROM tags WHERE seq = ?;

-- name: ready
-- How many runs stand in a queue, counted to a bound. By tasks_ready.
SELECT count(*) FROM (SELECT 1 FROM tasks WHERE lane = ? AND trouble IS NULL LIMIT ?);

-- name: lower_priority
-- The highest priority below this one in a queue. By tasks_ready.
SELECT priority FROM tasks WHERE lane = ? AND trouble IS NULL AND priority < ? ORDER BY priority DESC LIMIT 1;

-- name: ended_among
-- Which of these tasks have ended, or are forgotten.
SELECT one.value FROM json_each(?) AS one WHERE NOT EXISTS (
    SELECT 1 FROM tasks WHERE seq = one.value AND ended IS NULL
);

-- name: end_of
-- How a task ended, and its result where it is kept.
SELECT state, value, ended, more FROM tasks WHERE seq = ?;

-- name: facts
-- Counters and facts of the whole file.
SELECT seq, turn, live, offset, boot, base FROM facts;

-- name: put_facts
-- The same, as they are now.
UPDATE facts SET seq = ?, turn = ?, live = ?, offset = ?;

-- name: put_boot
-- From what the elapsed time of this boot counts.
UPDATE facts SET boot = ?, base = ?;

-- name: pauses
-- The pauses of tags and of everything.
SELECT scope, reason, until FROM pauses;

-- name: put_pause
-- A pause began.
INSERT OR REPLACE INTO pauses (scope, reason, until) VALUES (?, ?, ?);

-- name: drop_pause
-- A pause ended.
DELETE FROM pauses WHERE scope = ?;

-- name: alarms
-- What has a place in time and is no task.
SELECT name, at FROM alarms;

-- name: put_alarm
-- Something is to happen then.
INSERT OR REPLACE INTO alarms (name, at) VALUES (?, ?);

-- name: drop_alarm
-- It is not to happen any more.
DELETE FROM alarms WHERE name = ?;

-- name: limits
-- Every limit, and who holds its permits.
SELECT name, running, most_starts, per_us, held, reserved, starts FROM limits;

-- name: put_limit
-- The same, as it is now.
INSERT OR REPLACE INTO limits (name, running, most_starts, per_us, held, reserved, starts) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: pool_counts
-- Queue -> how many runs stand in it.
SELECT lane, count(*) FROM tasks WHERE lane IS NOT NULL AND trouble IS NULL GROUP BY lane;

-- name: pools_seen
-- Each pool that live tasks name: how many runs stand in its queue, and how many run, whoever runs them. Reads all.
SELECT pool, coalesce(sum(lane = 'pool:' || pool), 0), sum(owner IS NOT NULL) FROM tasks
WHERE ended IS NULL GROUP BY pool ORDER BY pool;

-- name: kept_from
-- The place of the oldest of the ended tasks that are kept.
SELECT ended FROM tasks WHERE ended IS NOT NULL AND round IS NULL AND listed > 0 ORDER BY ended DESC LIMIT 1 OFFSET ?;

-- name: join
-- A process is known to the others. Numbers are never used again.
INSERT INTO owners (identity, host, pid, listens) VALUES (?, ?, ?, 1) RETURNING number;

-- name: others
-- Who is on the file.
SELECT number, identity FROM owners;

-- name: stay
-- The file was replaced under a process: it goes on under the number whose lock it holds.
INSERT OR REPLACE INTO owners (number, identity, host, pid, listens) VALUES (?, ?, ?, ?, 1);

-- name: leave
-- A process has left, or its runs were taken care of after its death.
DELETE FROM owners WHERE number = ?;

-- name: claimants
-- Whose runs there are. By tasks_taken.
SELECT DISTINCT owner FROM tasks WHERE owner IS NOT NULL;

-- name: first_lease
-- When the first lease of another process ends. By tasks_taken.
SELECT min(lease) FROM tasks WHERE owner IS NOT NULL AND owner <> ? AND lease IS NOT NULL AND trouble IS NULL;

-- name: renew
-- This process still runs it: only if nobody has taken it since.
UPDATE tasks SET lease = ? WHERE seq = ? AND owner = ? AND token = ?;

-- name: to_stop
-- Which of its runs a process is to stop.
SELECT seq FROM tasks WHERE owner = ? AND stop = 1;

-- name: unusable
-- The rows that cannot be used.
SELECT seq, id, trouble FROM tasks WHERE trouble IS NOT NULL ORDER BY seq;

-- name: try_again
-- Have the rows that could not be used tried again.
UPDATE tasks SET trouble = NULL WHERE trouble IS NOT NULL;

-- name: next_work
-- The next work of a recurring task, in the order of names. By tasks_recurring.
SELECT work FROM tasks WHERE rule IS NOT NULL AND ended IS NULL AND work > ? ORDER BY work LIMIT 1;

-- name: forgotten
-- Tasks that have ended and are kept no longer, the oldest first; but not those whose result a child waits for, nor those
-- of which runs beside the plan are to come, nor such a run whose code goes on, and not rounds and their tasks, which go with their flow or by `old_rounds`.
SELECT seq FROM tasks AS parent WHERE ended IS NOT NULL AND (ended < ? OR finished < ?) AND round IS NULL
AND listed > 0 AND NOT (kin & 2 AND EXISTS (
    SELECT 1 FROM links JOIN tasks AS child ON child.seq = links.child
    WHERE links.parent = parent.seq AND child.ended IS NULL
))
AND NOT EXISTS (SELECT 1 FROM tasks AS one WHERE one.chief = parent.seq AND one.ended IS NULL)
AND NOT (kin & 32 AND owner IS NOT NULL) ORDER BY ended LIMIT ?;

-- name: drop_links
-- The links to the children of a task that is forgotten.
DELETE FROM links WHERE parent = ?;

-- name: drop_runs
-- The runs of a task that is forgotten.
DELETE FROM runs WHERE task = ?;

-- name: trim_runs
-- The runs of a task beyond as many as are kept. By runs_of_task.
DELETE FROM runs WHERE task = ? AND no <= (SELECT no FROM runs WHERE task = ? ORDER BY no DESC LIMIT 1 OFFSET ?);

-- name: drop_old_runs
-- The oldest runs, where they ended too long ago.
DELETE FROM runs WHERE finished < ? AND no IN (SELECT no FROM runs ORDER BY no LIMIT ?);

-- name: unusable_among
-- Which of these ids have rows that cannot be used, and why.
SELECT id, trouble FROM tasks
WHERE id IN (SELECT value FROM json_each(?)) AND listed = 1 AND trouble IS NOT NULL;

-- name: try_one_again
-- Have the row of this id tried again.
UPDATE tasks SET trouble = NULL WHERE id = ? AND listed = 1;

-- name: rounds
-- The rounds of a flow, the oldest first. By tasks_of_chief.
SELECT seq FROM tasks WHERE chief = ? ORDER BY seq;

-- name: plan
-- What a flow is made of.
SELECT form FROM plans WHERE digest = ?;

-- name: put_plan
-- The same, once.
INSERT OR IGNORE INTO plans (digest, form) VALUES (?, ?);

-- name: ids_taken
-- Those of these ids that listed tasks have. By tasks_by_id.
SELECT id FROM tasks WHERE listed = 1 AND id IN (SELECT value FROM json_each(?));

-- name: ended_rounds
-- How many rounds of a flow have ended. By tasks_of_chief.
SELECT count(*) FROM tasks WHERE chief = ? AND ended IS NOT NULL;

-- name: rounds_over
-- The rounds of a flow that have ended, the oldest first. By tasks_of_chief.
SELECT seq FROM tasks WHERE chief = ? AND ended IS NOT NULL ORDER BY seq;

-- name: round_ids
-- What the rounds of a flow are called. By tasks_of_chief.
SELECT json_extract(more, '$.special.round.id') FROM tasks
WHERE chief = ? AND json_extract(more, '$.special.round.id') IS NOT NULL;

-- name: past
-- The fires of a task that have come, as far as is known, and what became of each. By runs_of_task and tasks_of_chief.
SELECT due, state FROM runs WHERE task = ?
UNION ALL SELECT run_due, state FROM tasks WHERE seq = ? AND state IS NOT NULL
UNION ALL SELECT coalesce(json_extract(more, '$.special.round.due'), run_due, due), state FROM tasks WHERE chief = ?;

-- name: old_rounds
-- The rounds of a flow that ended too long ago. By tasks_of_chief.
SELECT seq FROM tasks WHERE chief = ? AND ended IS NOT NULL AND finished < ?;

-- name: tasks_of_round
-- The tasks of a round. By tasks_of_round.
SELECT seq FROM tasks WHERE round = ? ORDER BY seq;

-- name: drop_plans
-- What no flow and no round is made of any more. By tasks_recurring and tasks_of_chief.
DELETE FROM plans WHERE digest NOT IN (
    SELECT args FROM tasks WHERE work = 'tickless:flow' AND rule IS NOT NULL AND ended IS NULL
    UNION SELECT json_extract(more, '$.special.round.plan') FROM tasks
    WHERE chief IS NOT NULL AND json_extract(more, '$.special.round.plan') IS NOT NULL
);
