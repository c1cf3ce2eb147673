-- What the server's statistics leave out.

-- +goose Up

-- Nothing is asked by these columns. Counting the terms of a sample of 30,000 passages takes the server seconds of CPU, and autovacuum does it each time
-- that a tenth of the table is new.
ALTER TABLE passages ALTER terms SET STATISTICS 0, ALTER counts SET STATISTICS 0;
ALTER TABLE passage_vectors ALTER embedding SET STATISTICS 0;

-- +goose Down
ALTER TABLE passages ALTER terms SET STATISTICS -1, ALTER counts SET STATISTICS -1;
ALTER TABLE passage_vectors ALTER embedding SET STATISTICS -1;
