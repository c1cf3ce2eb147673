//go:build !linux && !darwin

package catalog

import (
	"context"
	"os/exec"
)

// lock does nothing here: do not pull the same model twice at the same time.
func lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }

// checkSpace does nothing here: a full disk shows when writing fails.
func checkSpace(string, int64) error { return nil }

// isolate does nothing here: cancelling ends the client itself.
func isolate(*exec.Cmd) {}
