package indextest_test

import (
	"testing"

	"ragd/retrieve/indextest"
)

func TestMemory(t *testing.T) {
	indextest.Run(t, func(*testing.T) indextest.Loader { return &indextest.Memory{} })
}
