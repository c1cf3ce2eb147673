//go:build race

package model

// Under the race detector plain Go kernels are ten times slower, and they share
// their scheduling with the others: the tests leave them out.
const raceDetector = true
