-- What searches read: exactly the live passages.

-- +goose Up

-- One row per live passage. halfvec halves the table and the index of float32 at equal recall (0.999 of float32's on 100k x 384); PLAIN keeps a
-- vector in the row up to 4000 dimensions, else the exact scan would fetch each one from the side table. The column has no dimension, because
-- corpora may be embedded by different models.
--
-- There is no vector index here: an exact scan is complete, and takes 9 ms of CPU for 20k vectors of 384 dimensions. Above 20,000 rows
-- store.Maintain creates, for each space,
--   CREATE INDEX passage_vectors_hnsw_S ON passage_vectors USING hnsw ((embedding::halfvec(D)) halfvec_cosine_ops) WHERE space = S
-- with pgvector's m=16, ef_construction=64: 1.1 kB and 0.45 ms of CPU a row to build, 1.4 ms a row to insert into later.
CREATE TABLE passage_vectors (
    tenant    text    NOT NULL,
    passage   bigint  NOT NULL,
    corpus    bigint  NOT NULL,
    document  bigint  NOT NULL,
    space     integer NOT NULL,
    lang      text    NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (tenant, passage),
    FOREIGN KEY (tenant, passage) REFERENCES passages ON DELETE CASCADE
);
ALTER TABLE passage_vectors ALTER embedding SET STORAGE PLAIN;
-- For corpus and document filters, also of the lexical leg, which needs no more than the index holds. About 60 bytes a row.
CREATE INDEX passage_vectors_document ON passage_vectors (tenant, corpus, document) INCLUDE (passage, lang);

-- The lexical index: for each term of a corpus the passages that have it, in blocks of at most 256. data is, per passage in the order of ids:
-- uvarint(id - previous id), uvarint(count of the term), uvarint(length of the passage); see store/block.go. ragd reads the blocks of the question's
-- terms and computes BM25 itself.
--
-- Measured on 100k synthetic passages of 86 distinct terms, a question of 7 terms with 127k postings, on a loaded machine:
--   one row per posting, covering index     1,133 MB   314 ms, in SQL
--   blocks as three arrays                    160 MB    99 ms in SQL, 22 ms to send
--   blocks as bytes, as here                  78 MB     3 ms, in Go
-- PLAIN: compressing what is compressed already costs more time than it saves. fillfactor: the last block of a term is rewritten when passages are
-- added, which stays on its page (HOT) as long as no indexed column changes.
CREATE TABLE postings (
    tenant text     NOT NULL,
    corpus bigint   NOT NULL,
    term   text     COLLATE "C" NOT NULL,
    block  integer  NOT NULL,
    count  smallint NOT NULL, -- passages in the block; the sum over a term's blocks is its document frequency
    first  bigint   NOT NULL, -- least and greatest passage id, so that a removal reads only blocks that may be concerned
    last   bigint   NOT NULL,
    data   bytea    NOT NULL,
    PRIMARY KEY (tenant, corpus, term, block)
    -- no foreign key to corpora: its check would cost a third of writing a row, and all writers hold the corpus's row locked anyway
) WITH (fillfactor = 85);
ALTER TABLE postings ALTER data SET STORAGE PLAIN;

-- Number and total length of a corpus's live passages, by language: N and the average length of BM25, and in which languages to read a question.
CREATE TABLE corpus_languages (
    tenant   text   NOT NULL,
    corpus   bigint NOT NULL,
    lang     text   NOT NULL,
    passages bigint NOT NULL CHECK (passages >= 0),
    terms    bigint NOT NULL CHECK (terms >= 0),
    PRIMARY KEY (tenant, corpus, lang),
    FOREIGN KEY (tenant, corpus) REFERENCES corpora ON DELETE CASCADE
);

-- +goose Down
DROP TABLE corpus_languages, postings, passage_vectors;
