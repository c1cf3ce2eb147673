package main

import (
	"fmt"
	"runtime"

	"ragd/llm/kernel"
)

type versionCmd struct{}

// Run prints what a bug report needs.
func (versionCmd) Run() error {
	fmt.Printf("ragd %s, %s, %s/%s, kernels %s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, kernel.Active())
	return nil
}
