-- +goose Up

-- Answers with all that is needed to inspect and replay them. They quote documents: deleting a document deletes the answers that saw it.
CREATE TABLE answers (
    tenant     text        NOT NULL,
    id         text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    documents  bigint[]    NOT NULL DEFAULT '{}', -- whose passages were in the prompt or the inspection record
    record     json        NOT NULL, -- json, not jsonb: a replay compares bytes
    PRIMARY KEY (tenant, id)
);
-- GIN with few, short lists; written once per answer, read by deletions only.
CREATE INDEX answers_documents ON answers USING gin (documents);
CREATE INDEX answers_age ON answers (tenant, created_at);

-- API keys. The key itself is never stored, only its SHA-256: keys are random and long, so that needs no salt and no slow hash. Small; a reference
-- table when the others are distributed, because a request is known by its key before its tenant is known.
CREATE TABLE api_keys (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text        NOT NULL,
    name       text        NOT NULL,
    hash       bytea       NOT NULL UNIQUE,
    corpora    text[]      NOT NULL DEFAULT '{}', -- empty: all of the tenant
    actions    text[]      NOT NULL DEFAULT '{}', -- "ask", "ingest", "delete", "admin", ...
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant);

-- +goose Down
DROP TABLE api_keys, answers;
