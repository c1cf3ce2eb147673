-- Files that were uploaded before it is known which corpora they belong to, as OpenAI's files API has it. Putting one into a corpus reads it like any
-- other upload; what is found and cited is the document.

-- +goose Up
CREATE TABLE files (
    tenant     text        NOT NULL,
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    name       text        NOT NULL,
    purpose    text        NOT NULL,
    size       bigint      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    data       bytea       NOT NULL,
    PRIMARY KEY (tenant, id)
);
ALTER TABLE files ALTER data SET STORAGE EXTERNAL; -- most formats are compressed already

-- +goose Down
DROP TABLE files;
