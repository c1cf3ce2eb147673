// Command stop ends the PostgreSQL server that tests share, unless tests are running.
package main

import (
	"context"
	"log"

	"ragd/internal/pgtest"
	"ragd/store/localpg"
)

func main() {
	dir, err := pgtest.Dir()
	if err != nil {
		log.Fatal(err)
	}
	// Whoever starts it last, adopts it; and its last user stops it.
	cluster, err := localpg.Start(context.Background(), dir, nil)
	if err == nil {
		err = cluster.Stop()
	}
	if err != nil {
		log.Fatal(err)
	}
}
