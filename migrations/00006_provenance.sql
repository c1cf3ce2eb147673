-- Where words lie on a page, and which passages hold personal data.

-- +goose Up

-- Boxes of a PDF's words, ingest.Geometry encoded: about 8 bytes a word; empty in formats without pages of fixed layout.
ALTER TABLE document_texts ADD geometry bytea NOT NULL DEFAULT '';

-- Kinds of personal data found by package personal ('email', 'card', ...), of a version the union over its passages.
ALTER TABLE document_versions ADD personal text[] NOT NULL DEFAULT '{}';
ALTER TABLE passages ADD personal text[] NOT NULL DEFAULT '{}';

-- What is done about them: keep, mask in answers, or refuse the document.
ALTER TABLE corpora ADD personal_data text NOT NULL DEFAULT 'keep' CHECK (personal_data IN ('keep', 'mask', 'refuse'));

-- +goose Down
ALTER TABLE corpora DROP personal_data;
ALTER TABLE passages DROP personal;
ALTER TABLE document_versions DROP personal;
ALTER TABLE document_texts DROP geometry;
