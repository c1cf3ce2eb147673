//go:build !purego

package kernel

// pause is what a spinning worker does between looks at shared memory: the instruction saves power and lets a sibling
// hyper-thread work.
//
//go:noescape
func pause()
