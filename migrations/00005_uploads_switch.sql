-- Uploads that come in parts; one embedding model per corpus, also while it changes; documents that are complete in a corpus's next index.

-- +goose Up

-- 'ready': complete in an index that its corpus does not have yet; it goes live when the corpus switches (Store.Switch).
ALTER TABLE document_versions DROP CONSTRAINT document_versions_state_check;
ALTER TABLE document_versions ADD CONSTRAINT document_versions_state_check
    CHECK (state IN ('received', 'parsed', 'split', 'embedded', 'ready', 'live', 'retired', 'failed'));

-- Vectors of two spaces in one corpus are impossible: a row's space is that of its corpus. A switch empties the corpus, changes its space and fills it
-- again, in one transaction. The check costs 5 us a row.
ALTER TABLE corpora ADD CONSTRAINT corpora_space UNIQUE (tenant, id, space);
ALTER TABLE passage_vectors ADD CONSTRAINT passage_vectors_space FOREIGN KEY (tenant, corpus, space) REFERENCES corpora (tenant, id, space) ON DELETE CASCADE;

-- A file that is being received. Its bytes are durable piece by piece, so an upload that broke off goes on where it stopped, whichever process takes it.
CREATE TABLE uploads (
    tenant          text        NOT NULL,
    id              text        NOT NULL, -- random: whoever knows it may continue the upload
    corpus          text        NOT NULL,
    path            text        NOT NULL,
    size            bigint,               -- null: not known yet
    received        bigint      NOT NULL DEFAULT 0,
    hash            bytea       NOT NULL, -- state of SHA-256 after the received bytes
    idempotency_key text        NOT NULL DEFAULT '',
    document        bigint,               -- of a complete upload
    queued          boolean     NOT NULL DEFAULT false, -- whether a complete upload changed anything
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX uploads_idempotency ON uploads (tenant, idempotency_key) WHERE idempotency_key <> '';
CREATE INDEX uploads_age ON uploads (updated_at);

CREATE TABLE upload_pieces (
    tenant text   NOT NULL,
    upload text   NOT NULL,
    start  bigint NOT NULL, -- of the piece in the file
    data   bytea  NOT NULL,
    PRIMARY KEY (tenant, upload, start),
    FOREIGN KEY (tenant, upload) REFERENCES uploads ON DELETE CASCADE
);
ALTER TABLE upload_pieces ALTER data SET STORAGE EXTERNAL;

SELECT ragd_isolate();

-- +goose Down
DROP TABLE upload_pieces, uploads;
ALTER TABLE passage_vectors DROP CONSTRAINT passage_vectors_space;
ALTER TABLE corpora DROP CONSTRAINT corpora_space;
DELETE FROM document_versions WHERE state = 'ready';
ALTER TABLE document_versions DROP CONSTRAINT document_versions_state_check;
ALTER TABLE document_versions ADD CONSTRAINT document_versions_state_check
    CHECK (state IN ('received', 'parsed', 'split', 'embedded', 'live', 'retired', 'failed'));
