package server_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/server"
	"ragd/store"
)

// The way of docs/operations.md: pg_dump, an empty database with the extension, pg_restore. Documents, passages, answers, feedback, files and keys are
// there again, and search, answers and row-level security work on them.
func TestBackupAndRestore(t *testing.T) {
	programs := pgtest.Programs(t)
	run := func(program string, args ...string) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(programs, program), args...).CombinedOutput()
		require.NoError(t, err, "%s: %s", program, out)
	}
	from, to, dump := pgtest.New(t), pgtest.Empty(t), filepath.Join(t.TempDir(), "ragd.dump")
	before, db := whole(t, from, server.Config{NeedKey: true})
	secret := makeKey(t, db, store.Key{Tenant: "acme", Name: "admin", Actions: server.Actions})
	before = before.with(secret)
	require.Equal(t, 202, before.upload(field{"corpus", "", "hr"}, field{"file", "leave 😀.txt", "Employees get 30 days of paid leave. 😀 Ask the office."}).StatusCode)
	require.Eventually(t, func() bool { return len(before.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 1 }, time.Minute, 20*time.Millisecond)
	file := before.sendFile("plan.txt", "assistants", "content of a file").json(t)["id"].(string)
	id := before.post("/v1/ask", `{"question":"How many days of paid leave?"}`).json(t)["id"].(string)
	require.Equal(t, 204, before.post("/v1/answers/"+id+"/feedback", `{"good":true}`).StatusCode)
	found := before.post("/v1/search", `{"query":"paid leave"}`).json(t)["results"].([]any)
	passage := fmt.Sprintf("/v1/passages/%v", found[0].(map[string]any)["passage_id"])

	run("pg_dump", "--format=custom", "--file", dump, from)
	run("psql", "-v", "ON_ERROR_STOP=1", "-c", "CREATE EXTENSION vector", to)
	run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", to, dump)

	after, restored := whole(t, to, server.Config{NeedKey: true})
	require.Equal(t, 401, after.get("/v1/corpora").StatusCode)
	after = after.with(secret)
	for _, path := range []string{"/v1/documents", "/v1/corpora", passage, "/v1/answers/" + id, "/v1/feedback", "/v1/files/" + file + "/content", "/v1/keys"} {
		require.Equal(t, string(before.get(path).body), string(after.get(path).body), path)
	}
	again := after.post("/v1/search", `{"query":"paid leave"}`).json(t)["results"].([]any)
	require.Equal(t, found, again)
	require.Equal(t, 202, after.upload(field{"corpus", "", "hr"}, field{"file", "new.txt", "The canteen opens at noon."}).StatusCode, "ids go on")
	require.Eventually(t, func() bool { return len(after.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 2 }, time.Minute, 20*time.Millisecond)
	confines, err := restored.Confines(t.Context())
	require.NoError(t, err)
	require.True(t, confines)
	other := after.with(makeKey(t, restored, store.Key{Tenant: "globex", Name: "other", Actions: server.Actions}))
	require.Empty(t, other.get("/v1/documents").json(t)["documents"])
}
