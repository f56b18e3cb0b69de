-- Flows: a round is an occurrence (it has a chief) whose row stays when it has ended; its tasks say whose they are.
ALTER TABLE tasks ADD COLUMN round INTEGER;  -- of a task of a round: the number of that

CREATE INDEX tasks_of_round ON tasks (round) WHERE round IS NOT NULL;

-- What flows are made of, by the digest of it: each form once, however many rounds began with it.
CREATE TABLE plans (
    digest TEXT PRIMARY KEY,
    form TEXT NOT NULL                     -- as JSON: see stores/sql/plans.py
) STRICT, WITHOUT ROWID;
