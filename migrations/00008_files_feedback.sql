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

-- What people think of answers: questions for evaluation, in the words of those who ask. It stays when a document goes, and holds no text of one.
CREATE TABLE feedback (
    tenant   text        NOT NULL,
    id       bigint      GENERATED ALWAYS AS IDENTITY,
    answer   text        NOT NULL, -- answers.id, also of records that are gone
    question text        NOT NULL,
    corpora  text[]      NOT NULL,
    cited    text[]      NOT NULL, -- paths
    good     boolean     NOT NULL,
    comment  text        NOT NULL,
    expected text        NOT NULL, -- the right answer; '' when it was not said
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
SELECT ragd_isolate();

-- +goose Down
DROP TABLE feedback, files;
