-- Where files are, and how far their documents are.

-- +goose Up

-- Where a document's file is, to tell a moved file from a copy and a deleted one from another folder's: file://HOST/PATH, a URL, or '' for an upload.
ALTER TABLE documents ADD origin text NOT NULL DEFAULT '';
CREATE INDEX documents_origin ON documents (tenant, corpus, origin COLLATE "C") WHERE origin <> '';

-- Passages that have a vector, while a version is in work: counting them anew with each batch would be quadratic in the length of a document.
ALTER TABLE document_versions ADD embedded integer NOT NULL DEFAULT 0;
UPDATE document_versions v SET embedded = (SELECT count(*) FROM staged_vectors s WHERE s.tenant = v.tenant AND s.version = v.id)
    WHERE state IN ('split', 'embedded', 'ready', 'failed');

-- +goose Down
DROP INDEX documents_origin;
ALTER TABLE documents DROP origin;
ALTER TABLE document_versions DROP embedded;
