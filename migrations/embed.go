package migrations

import "embed"

// Files are the steps, NNNNN_name.sql.
//
//go:embed *.sql
var Files embed.FS
