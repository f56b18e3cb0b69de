BEGIN TRANSACTION;
CREATE TABLE alarms (
    name TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE facts (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,                  -- the highest number that was given
    turn INTEGER NOT NULL,                 -- the same of places in queues, and among those that have ended
    live INTEGER NOT NULL,                 -- how many tasks have not ended
    offset INTEGER NOT NULL,               -- wall - Clock.now(), as it was last looked at
    boot TEXT,                             -- the boot whose elapsed time `base` counts from
    base INTEGER                           -- Clock.now() = base + elapsed time of that boot
) STRICT;
INSERT INTO "facts" VALUES(1,0,0,0,0,NULL,NULL);
CREATE TABLE limits (
    name TEXT PRIMARY KEY,
    running INTEGER,                       -- what it says: see Limit
    most_starts INTEGER,
    per_us INTEGER,
    held INTEGER NOT NULL,                 -- permits that are given out, and how many of them to runs that are ready

    reserved INTEGER NOT NULL,
    starts TEXT NOT NULL                   -- when the newest runs started, as JSON
) STRICT, WITHOUT ROWID;
CREATE TABLE links (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE TABLE owners (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    identity TEXT NOT NULL,                -- drawn at random for each start
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    listens INTEGER NOT NULL               -- 1: it dispatches, so it wants to be woken
) STRICT;
CREATE TABLE pauses (
    scope TEXT PRIMARY KEY,
    reason TEXT,
    until INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE plans (
    digest TEXT PRIMARY KEY,
    form TEXT NOT NULL                     -- as JSON: see stores/sql/plans.py
) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
    no INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    due INTEGER,
    at INTEGER,
    state TEXT NOT NULL,
    reason TEXT,
    started INTEGER,
    finished INTEGER,
    error TEXT,
    more TEXT                              -- attempts, count of fires, and the like, as JSON
) STRICT;
CREATE TABLE tags (
    tag TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY,               -- its number, in the order of scheduling
    id TEXT,                               -- the id that was given, if any
    name TEXT NOT NULL,
    work TEXT,                             -- the name of the function; NULL once it has ended
    args TEXT,                             -- its arguments as JSON; NULL where there are none
    priority INTEGER NOT NULL,
    pool TEXT NOT NULL,
    rule TEXT,                             -- the bound rule as JSON, while more fires may come
    due INTEGER,                           -- the fire that runs, or the next one, on the clock that drives it
    wall INTEGER NOT NULL,                 -- 1: the wall clock drives it
    policy TEXT,                           -- its policy as JSON; NULL: the default
    ended INTEGER,                         -- its place among those that have ended; NULL: it lives
    listed INTEGER NOT NULL,               -- 0: nobody is shown it; 1: it is found by its id; 2: another has its id now
    at INTEGER,                            -- its place in time, in Clock.now(): NULL where it has none
    lane TEXT,                             -- the queue that it stands in while it is ready
    turn INTEGER,                          -- its place in that queue
    waiting INTEGER NOT NULL,              -- how many parents have not finished
    seen INTEGER NOT NULL,                 -- how the others ended, as bits
    chief INTEGER,                         -- of an occurrence with a row of its own: the task
    kin INTEGER NOT NULL,                  -- bits: 1 it has children, 2 one takes its result, 4 it waits for parents, 8 it is awaited, 16 a zombie of it has a permit
    state TEXT,                            -- of its run: the one that lives, or else the last one
    reason TEXT,
    run_due INTEGER,
    run_at INTEGER,
    started INTEGER,
    finished INTEGER,
    error TEXT,
    owner INTEGER,                         -- who runs it
    token INTEGER NOT NULL,                -- grows with every take: what is written for an older one is refused
    lease INTEGER,                         -- until when its owner may be silent
    stop INTEGER NOT NULL,                 -- 1: it is asked to stop
    value TEXT,                            -- its result as JSON, where it is kept
    more TEXT,                             -- what few tasks have, as JSON: see stores/sql/rows.py
    trouble TEXT                           -- why the row cannot be used; NULL: it can
, round INTEGER) STRICT;
CREATE UNIQUE INDEX tasks_by_id ON tasks (id) WHERE id IS NOT NULL AND listed = 1;
CREATE INDEX tasks_in_time ON tasks (at, seq) WHERE at IS NOT NULL AND trouble IS NULL;
CREATE INDEX tasks_apart ON tasks (at) WHERE at IS NOT NULL AND trouble IS NULL AND
    (priority <> 0 OR policy IS NOT NULL OR rule IS NOT NULL);
CREATE INDEX tasks_ready ON tasks (lane, priority DESC, turn) WHERE lane IS NOT NULL AND trouble IS NULL;
CREATE INDEX tasks_taken ON tasks (owner) WHERE owner IS NOT NULL;
CREATE INDEX tasks_ended ON tasks (ended) WHERE ended IS NOT NULL;
CREATE INDEX tasks_recurring ON tasks (work) WHERE rule IS NOT NULL AND ended IS NULL;
CREATE INDEX tasks_unusable ON tasks (seq) WHERE trouble IS NOT NULL;
CREATE INDEX tasks_of_chief ON tasks (chief) WHERE chief IS NOT NULL;
CREATE INDEX runs_of_task ON runs (task, no);
CREATE INDEX tasks_of_round ON tasks (round) WHERE round IS NOT NULL;
DELETE FROM "sqlite_sequence";
COMMIT;
PRAGMA application_id = 1953065836;
PRAGMA user_version = 2;
