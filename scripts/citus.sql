-- Spreads an empty ragd schema over the nodes of a Citus cluster: run it once on the coordinator, as the owner of the tables, after 'ragd migrate'.
-- The tenant is the first column of every key, so each tenant's rows lie together on one node and its statements run there.
\set QUIET on
SET client_min_messages = warning;

-- Policies with sub-selects cannot be distributed; row-level security stays on without them, so that ragd leaves these tables alone.
DO $$
DECLARE p record;
BEGIN
    FOR p IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'tenant' LOOP
        EXECUTE format('DROP POLICY tenant ON %I', p.tablename);
    END LOOP;
END $$;

-- Keys to tables that every node will have; they come back below. With them Citus would convert the tables first, which their identity columns forbid.
ALTER TABLE corpora DROP CONSTRAINT corpora_space_fkey;
ALTER TABLE document_versions DROP CONSTRAINT document_versions_space_fkey;
ALTER TABLE key_usage DROP CONSTRAINT key_usage_key_fkey;

SELECT create_distributed_table(t, 'tenant', colocate_with => CASE WHEN t = 'corpora' THEN 'none' ELSE 'corpora' END)
FROM unnest(ARRAY['corpora', 'contents', 'content_pieces', 'documents', 'document_versions', 'document_texts', 'passages', 'staged_vectors', 'passage_vectors',
    'postings', 'corpus_languages', 'answers', 'key_usage', 'audit_log', 'uploads', 'upload_pieces', 'files', 'feedback']) WITH ORDINALITY AS o(t, n) ORDER BY n \g /dev/null

-- What every node has. Rows of all tenants; small.
SELECT create_reference_table(t) FROM unnest(ARRAY['embedding_spaces', 'api_keys']) t \g /dev/null
ALTER TABLE corpora ADD CONSTRAINT corpora_space_fkey FOREIGN KEY (space) REFERENCES embedding_spaces (id);
ALTER TABLE document_versions ADD CONSTRAINT document_versions_space_fkey FOREIGN KEY (space) REFERENCES embedding_spaces (id);
ALTER TABLE key_usage ADD CONSTRAINT key_usage_key_fkey FOREIGN KEY (key) REFERENCES api_keys (id) ON DELETE CASCADE;

-- Transactions that change both kinds of tables change one shard after another.
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET citus.multi_shard_modify_mode = sequential', current_database()); END $$;
