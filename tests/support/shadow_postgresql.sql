-- As shadow.sql, for PostgreSQL. {schema}: where the tables of jobs lie.
CREATE TABLE IF NOT EXISTS {schema}.shadow_moves (from_state text NOT NULL, to_state text NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.shadow (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_n bigint NOT NULL, old text, new text NOT NULL, attempt bigint NOT NULL, seq bigint NOT NULL);
CREATE OR REPLACE FUNCTION {schema}.shadow_witness() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {schema}.shadow (job_n, old, new, attempt, seq)
        VALUES (new.n, NULL, new.state, new.attempt, new.last_seq);
        RETURN NULL;
    END IF;
    IF new.attempt < old.attempt THEN RAISE EXCEPTION 'attempt never falls'; END IF;
    IF old.state <> new.state THEN
        IF NOT EXISTS (SELECT 1 FROM {schema}.shadow_moves
                       WHERE from_state = old.state AND to_state = new.state) THEN
            RAISE EXCEPTION 'a move that is not in MOVES: % -> %', old.state, new.state;
        END IF;
        IF new.last_seq <= old.last_seq THEN
            RAISE EXCEPTION 'a change of state without an event';
        END IF;
        INSERT INTO {schema}.shadow (job_n, old, new, attempt, seq)
        VALUES (new.n, old.state, new.state, new.attempt, new.last_seq);
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS shadow_witness ON {schema}.jobs;
CREATE TRIGGER shadow_witness AFTER INSERT OR UPDATE ON {schema}.jobs
FOR EACH ROW EXECUTE FUNCTION {schema}.shadow_witness();
