-- A second witness: every change of state that the table of jobs sees, kept by triggers, so that a
-- move without its event is found however the move was written.
CREATE TABLE IF NOT EXISTS shadow_moves (from_state TEXT NOT NULL, to_state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS shadow (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    job_n INTEGER NOT NULL, old TEXT, new TEXT NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL);
CREATE TRIGGER IF NOT EXISTS shadow_insert AFTER INSERT ON benbi_jobs BEGIN
    INSERT INTO shadow (job_n, old, new, attempt, seq) VALUES (new.n, NULL, new.state, new.attempt, new.last_seq);
END;
CREATE TRIGGER IF NOT EXISTS shadow_update AFTER UPDATE OF state ON benbi_jobs WHEN old.state <> new.state BEGIN
    SELECT raise(ABORT, 'a move that is not in MOVES')
    WHERE NOT EXISTS (SELECT 1 FROM shadow_moves WHERE from_state = old.state AND to_state = new.state);
    SELECT raise(ABORT, 'a change of state without an event') WHERE new.last_seq <= old.last_seq;
    INSERT INTO shadow (job_n, old, new, attempt, seq) VALUES (new.n, old.state, new.state, new.attempt, new.last_seq);
END;
CREATE TRIGGER IF NOT EXISTS shadow_attempt AFTER UPDATE OF attempt ON benbi_jobs WHEN new.attempt < old.attempt BEGIN
    SELECT raise(ABORT, 'attempt never falls');
END;
