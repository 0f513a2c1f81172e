-- needs_code: 1
-- Jobs of a run, without a walk over all jobs. No job outside a run has an entry.
CREATE INDEX benbi_jobs_run ON benbi_jobs (run_n, n) WHERE run_n IS NOT NULL;

-- Jobs that have ended and whose edges are not all counted yet: a cascade that was cut because it
-- was longer than one transaction may be. Upkeep goes on with it.
CREATE TABLE benbi_unsettled (
    n INTEGER PRIMARY KEY
) STRICT;
