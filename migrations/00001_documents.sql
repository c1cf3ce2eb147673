-- Corpora, documents, their versions, and the passages that are searched.
--
-- Life of a document version: received -> parsed -> split -> embedded -> live -> retired, or failed. Only live versions are searchable: their
-- passages have a row in passage_vectors and their terms are in postings; both are written when the version goes live and removed when it is
-- retired, in the transaction that switches documents.live_version. Nothing in a search has to ask which version a row belongs to.

-- +goose Up

-- A vector space: vectors of different spaces are never compared. Small; a reference table when the others are distributed.
CREATE TABLE embedding_spaces (
    id    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model text    NOT NULL, -- embed.Embedder.Model: weights, prefixes and pooling
    dim   integer NOT NULL CHECK (dim BETWEEN 1 AND 4000), -- 4000: the limit of an HNSW index on halfvec
    UNIQUE (model, dim)
);

CREATE TABLE corpora (
    tenant     text        NOT NULL,
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    name       text        NOT NULL CHECK (name <> ''),
    space      integer     NOT NULL REFERENCES embedding_spaces,
    splitter   text        NOT NULL, -- how documents were cut; other cuts are refused, as is another space
    analyzer   integer     NOT NULL, -- analysis.Version of the terms below
    revision   bigint      NOT NULL DEFAULT 0, -- grows with every change of what can be found; keys caches
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, name)
);

-- The bytes of received files, once per tenant however many paths have them. In pieces of 1 MiB, so that neither side ever holds a whole file.
CREATE TABLE contents (
    tenant    text        NOT NULL,
    sha256    bytea       NOT NULL,
    size      bigint      NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, sha256)
);
CREATE TABLE content_pieces (
    tenant text    NOT NULL,
    sha256 bytea   NOT NULL,
    seq    integer NOT NULL,
    data   bytea   NOT NULL,
    PRIMARY KEY (tenant, sha256, seq),
    FOREIGN KEY (tenant, sha256) REFERENCES contents ON DELETE CASCADE
);
ALTER TABLE content_pieces ALTER data SET STORAGE EXTERNAL; -- most formats are compressed already

-- A document is a path in a corpus, whatever its versions.
CREATE TABLE documents (
    tenant       text        NOT NULL,
    id           bigint      GENERATED ALWAYS AS IDENTITY,
    corpus       bigint      NOT NULL,
    path         text        NOT NULL,
    tags         text[]      NOT NULL DEFAULT '{}',
    modified_at  timestamptz, -- of the file; null when unknown
    live_version bigint,      -- null until the first version is live
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, corpus, path),
    FOREIGN KEY (tenant, corpus) REFERENCES corpora ON DELETE CASCADE
);

CREATE TABLE document_versions (
    tenant        text        NOT NULL,
    id            bigint      GENERATED ALWAYS AS IDENTITY,
    document      bigint      NOT NULL,
    sha256        bytea       NOT NULL,
    size          bigint      NOT NULL,
    splitter      text        NOT NULL, -- corpora.splitter at the time
    space         integer     NOT NULL REFERENCES embedding_spaces,
    state         text        NOT NULL DEFAULT 'received'
                  CHECK (state IN ('received', 'parsed', 'split', 'embedded', 'live', 'retired', 'failed')),
    kind          text        NOT NULL DEFAULT '',
    title         text        NOT NULL DEFAULT '',
    lang          text        NOT NULL DEFAULT '',
    warnings      text[]      NOT NULL DEFAULT '{}',
    passages      integer     NOT NULL DEFAULT 0,
    error_class   text        NOT NULL DEFAULT '',
    error_message text        NOT NULL DEFAULT '',
    -- The version is its own job: a worker owns it while it knows the latest lease number and lease_until has not passed.
    lease         bigint      NOT NULL DEFAULT 0,
    lease_until   timestamptz NOT NULL DEFAULT '-infinity',
    retry_at      timestamptz NOT NULL DEFAULT '-infinity',
    attempt       integer     NOT NULL DEFAULT 0,
    received_at   timestamptz NOT NULL DEFAULT now(),
    live_at       timestamptz,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, document) REFERENCES documents ON DELETE CASCADE,
    FOREIGN KEY (tenant, sha256) REFERENCES contents
);
CREATE INDEX document_versions_document ON document_versions (tenant, document);
CREATE INDEX document_versions_content ON document_versions (tenant, sha256);
-- The queue: holds waiting versions only, so it stays small however large the corpus is.
CREATE INDEX document_versions_waiting ON document_versions (id) WHERE state IN ('received', 'parsed', 'split', 'embedded');

-- The normalised text of a version, UTF-8. bytea, because offsets are bytes; EXTERNAL (not compressed), because a slice of it is then read without
-- the rest: the passage around a citation costs the same in a page and in a library. convert_from(text, 'UTF8') shows it in psql.
CREATE TABLE document_texts (
    tenant  text   NOT NULL,
    version bigint NOT NULL,
    text    bytea  NOT NULL,
    layout  json   NOT NULL, -- pages and blocks: byte ranges of text
    PRIMARY KEY (tenant, version),
    FOREIGN KEY (tenant, version) REFERENCES document_versions ON DELETE CASCADE
);
ALTER TABLE document_texts ALTER text SET STORAGE EXTERNAL;

CREATE TABLE passages (
    tenant     text       NOT NULL,
    id         bigint     GENERATED ALWAYS AS IDENTITY,
    version    bigint     NOT NULL,
    seq        integer    NOT NULL, -- position in the version, from 0
    start_byte integer    NOT NULL,
    end_byte   integer    NOT NULL,
    page       integer    NOT NULL, -- 0: no pages
    tokens     integer    NOT NULL, -- of the embedder
    lang       text       NOT NULL,
    heading    text       NOT NULL,
    context    text       NOT NULL, -- precedes text when it is embedded and indexed; never quoted
    text       text       NOT NULL,
    -- What the lexical index holds of this passage: distinct terms, how often each occurs, and the length in terms. Kept, so that removing a
    -- passage from postings and rebuilding them needs no analysis and can be checked.
    terms      text[]     NOT NULL,
    counts     smallint[] NOT NULL,
    length     integer    NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, version, seq),
    FOREIGN KEY (tenant, version) REFERENCES document_versions ON DELETE CASCADE
);

-- Vectors of a version that is not live yet.
CREATE TABLE staged_vectors (
    tenant    text    NOT NULL,
    version   bigint  NOT NULL,
    seq       integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant, version, seq),
    FOREIGN KEY (tenant, version, seq) REFERENCES passages (tenant, version, seq) ON DELETE CASCADE
);
ALTER TABLE staged_vectors ALTER embedding SET STORAGE PLAIN;

-- +goose Down
DROP TABLE staged_vectors, passages, document_texts, document_versions, documents, content_pieces, contents, corpora, embedding_spaces;
