-- From schema 1 to 2. SQLite cannot change a CHECK: the table is made anew, as its documentation says, with foreign keys
-- off (dropping the old one would delete the results that refer to it).

CREATE TABLE jobs_2 (
    job_id      TEXT PRIMARY KEY CHECK (length(job_id) = 16),
    page_id     TEXT NOT NULL,
    plugin      TEXT NOT NULL,                  -- family/name
    callback    TEXT,                           -- a webhook job's URL
    ttl         REAL CHECK (ttl > 0),           -- a polling job's hold, from its end
    request_id  TEXT NOT NULL,                  -- of the request that started it
    state       TEXT NOT NULL CHECK (state IN ('running', 'done', 'interrupted', 'cancelled')),
    started_at  REAL NOT NULL,
    finished_at REAL,
    forget_at   REAL,                           -- when it is kept no longer
    attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 4),  -- POSTs made and recorded
    last_at     REAL,                           -- the moment of the schedule that the last of them used up
    error       TEXT,                           -- why it did not deliver
    limit_s     REAL CHECK (limit_s > 0),       -- past which its plugin is ended; NULL: no limit
    traceparent TEXT,                           -- of the request that started it
    of_run      INTEGER NOT NULL DEFAULT 0 CHECK (of_run IN (0, 1)),  -- 1: no job, but a run's end on its way
    CHECK ((callback IS NULL) <> (ttl IS NULL)),
    CHECK ((state = 'running') = (finished_at IS NULL)),
    CHECK ((state = 'running') = (forget_at IS NULL)),
    CHECK (attempts = 0 OR (callback IS NOT NULL AND finished_at IS NOT NULL AND last_at IS NOT NULL))
) STRICT;

INSERT INTO jobs_2 (job_id, page_id, plugin, callback, ttl, request_id, state, started_at, finished_at, forget_at,
                    attempts, last_at, error)
SELECT job_id, page_id, plugin, callback, ttl, request_id, state, started_at, finished_at, forget_at,
       attempts, last_at, error
FROM jobs;
DROP TABLE jobs;
ALTER TABLE jobs_2 RENAME TO jobs;

CREATE UNIQUE INDEX jobs_one_running_a_page ON jobs (page_id) WHERE state = 'running';
CREATE INDEX jobs_by_started_at ON jobs (started_at, job_id);
CREATE INDEX jobs_by_forget_at ON jobs (forget_at) WHERE forget_at IS NOT NULL AND of_run = 0;

-- The starts that came with an Idempotency-Key. Nothing of the job but its id: the answer is made anew from the request
-- that repeats it, so nothing that a client said outlives the job.
CREATE TABLE starts (
    key        BLOB PRIMARY KEY CHECK (length(key) = 32),      -- SHA-256 of the key
    salt       BLOB NOT NULL CHECK (length(salt) = 16),
    request    BLOB NOT NULL CHECK (length(request) = 32),     -- SHA-256 of the salt and of what was asked
    job_id     TEXT NOT NULL,                   -- not a reference: it outlives the job
    started_at REAL NOT NULL
) STRICT;

CREATE INDEX starts_by_started_at ON starts (started_at);

-- One row per POST that was made and recorded. No bodies, no results, no credentials.
CREATE TABLE deliveries (
    id          INTEGER PRIMARY KEY,
    at          REAL NOT NULL,                  -- when the POST began
    job_id      TEXT NOT NULL,                  -- not a reference: it outlives the job
    request_id  TEXT NOT NULL,
    attempt     INTEGER NOT NULL CHECK (attempt >= 1),
    host        TEXT NOT NULL,                  -- of the URL
    port        INTEGER,                        -- NULL: of a URL that could not be read
    address     TEXT,                           -- that was dialled; NULL: none was
    status      INTEGER,                        -- that was answered; NULL: none was
    error_class TEXT,                           -- dns, refused, reset, tls, timeout, http_5xx, …; NULL: delivered
    error       TEXT,                           -- the same in words
    verdict     TEXT NOT NULL CHECK (verdict IN ('delivered', 'retry', 'give up')),
    took_s      REAL NOT NULL
) STRICT;

CREATE INDEX deliveries_by_at ON deliveries (at);
CREATE UNIQUE INDEX deliveries_by_job ON deliveries (job_id, attempt, at);

-- Runs: queued calls that find their own page.
CREATE TABLE runs (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,      -- the order of arrival
    run_id          TEXT NOT NULL UNIQUE CHECK (length(run_id) = 16 AND run_id GLOB 'run_*'),
    state           TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    agent_id        TEXT NOT NULL,              -- what does it
    timeout_s       REAL NOT NULL CHECK (timeout_s > 0),    -- of its work
    request_id      TEXT NOT NULL,
    traceparent     TEXT,
    session_id      TEXT,                       -- a label of the client's
    webhook         TEXT,                       -- where its end is POSTed
    events          TEXT,                       -- of which ends it is told; NULL: of all
    key             TEXT,                       -- what makes a repeated submit the same one, hashed
    page_id         TEXT,                       -- that it works, or worked
    created_at      REAL NOT NULL,
    started_at      REAL,
    completed_at    REAL,
    percentage      REAL NOT NULL DEFAULT 0 CHECK (percentage BETWEEN 0 AND 100),
    step            TEXT,
    steps_completed INTEGER NOT NULL DEFAULT 0,
    steps_total     INTEGER,
    error           TEXT,
    request         TEXT NOT NULL,              -- what was submitted, JSON; last, since it may be large
    CHECK ((state IN ('queued', 'running')) = (completed_at IS NULL)),
    CHECK (state <> 'queued' OR started_at IS NULL),
    CHECK (state NOT IN ('running', 'succeeded') OR started_at IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX runs_by_key ON runs (key) WHERE key IS NOT NULL;
CREATE INDEX runs_not_over ON runs (number) WHERE completed_at IS NULL;
CREATE INDEX runs_by_state ON runs (state, number);
CREATE INDEX runs_by_session_id ON runs (session_id, number) WHERE session_id IS NOT NULL;
CREATE INDEX runs_by_completed_at ON runs (completed_at) WHERE completed_at IS NOT NULL;

CREATE TABLE run_results (
    run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    body   TEXT NOT NULL                        -- JSON
) STRICT;
