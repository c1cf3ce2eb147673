-- Who may do what: limits of keys, what was done with them, and row-level security as a second belt under the tenants that every statement names.

-- +goose Up

ALTER TABLE api_keys ADD requests_per_minute integer NOT NULL DEFAULT 0 CHECK (requests_per_minute >= 0); -- 0: no limit
ALTER TABLE api_keys ADD tokens_per_day      bigint  NOT NULL DEFAULT 0 CHECK (tokens_per_day >= 0);      -- prompt and answer; 0: no limit

-- What a limited key has used. One row per key, updated by every process that serves it; a key without limits has none. fillfactor: an update stays
-- on its page (HOT), because no indexed column changes.
CREATE TABLE key_usage (
    tenant text        NOT NULL,
    key    bigint      NOT NULL REFERENCES api_keys ON DELETE CASCADE,
    due    timestamptz NOT NULL, -- when the requests so far would be done at the key's rate: the one number of the generic cell rate algorithm
    day    date        NOT NULL,
    tokens bigint      NOT NULL, -- on that day, UTC
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);

-- What keys changed, and what they were refused. Never a text of a document, question or answer.
CREATE TABLE audit_log (
    tenant     text        NOT NULL,
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    at         timestamptz NOT NULL DEFAULT now(),
    key        bigint      NOT NULL, -- api_keys.id, also of keys that are gone; 0: the server's own key, or a server without keys
    key_name   text        NOT NULL,
    action     text        NOT NULL, -- method and route: "DELETE /v1/documents/:id"
    target     text        NOT NULL, -- what it was done to: the path that was asked for
    status     integer     NOT NULL, -- of the response
    request_id text        NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX audit_log_age ON audit_log (tenant, at);

-- ragd_isolate puts row-level security on every table that has a tenant. Sessions that work for one tenant take the role ragd_tenant and set
-- ragd.tenant: they see and write rows of that tenant only, whatever their statements say. The owner, as whom the ingestion worker and the command
-- line work, is above it; COPY, which the worker uses, is not possible under it. It is called again after later steps, so that tables which they add
-- are covered, too.
--
-- A user who may not make roles needs help once: CREATE ROLE ragd_tenant NOLOGIN; GRANT ragd_tenant TO the_user. Until then the belt is off.
-- The setting is read in a sub-select, once per statement rather than once per row.
-- +goose StatementBegin
CREATE FUNCTION ragd_isolate() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %s USING (tenant = (SELECT current_setting(''ragd.tenant'')))', t);
    END LOOP;
    BEGIN
        CREATE ROLE ragd_tenant NOLOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL; -- roles belong to the server: another database has made it
    END;
    IF to_regrole('ragd_tenant') IS NULL THEN
        RETURN;
    END IF;
    IF NOT pg_has_role('ragd_tenant', 'MEMBER') THEN
        BEGIN
            EXECUTE format('GRANT ragd_tenant TO %I', current_user);
        EXCEPTION WHEN insufficient_privilege THEN RETURN;
        END;
    END IF;
    IF NOT has_schema_privilege('ragd_tenant', current_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO ragd_tenant', current_schema());
    END IF;
    FOR t IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND (c.relrowsecurity OR c.relname = 'embedding_spaces') AND NOT has_table_privilege('ragd_tenant', c.oid, 'SELECT') LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO ragd_tenant', t);
    END LOOP;
END $$;
-- +goose StatementEnd
SELECT ragd_isolate();

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT format('%I.%I', schemaname, tablename) AS t FROM pg_policies WHERE policyname = 'tenant' AND schemaname = current_schema() LOOP
        EXECUTE format('DROP POLICY tenant ON %s', p.t);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', p.t);
    END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION ragd_isolate();
DROP TABLE audit_log, key_usage;
ALTER TABLE api_keys DROP requests_per_minute, DROP tokens_per_day;
