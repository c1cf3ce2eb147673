//go:build linux && race

package ingest_test

func init() { raceFactor = 4 } // the detector keeps books about all memory
