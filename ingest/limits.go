package ingest

import "time"

// Limits bound what one document may cost. A zero field means its default.
type Limits struct {
	FileBytes   int64         // size of the file; default 512 MiB
	TextBytes   int64         // text drawn from it; default 256 MiB
	ExpandBytes int64         // total decompressed bytes of all members; default 1 GiB
	Ratio       int64         // decompressed : compressed beyond the first 16 MiB; default 200
	Entries     int           // members of an archive, parts of a mail; default 20,000
	Depth       int           // containers within containers; default 8
	Time        time.Duration // wall clock of one Parse, OCR apart; each page of a PDF adds 1/240 of it, at most 9 times it in all; default 2 minutes
	OCR         *OCR          // nil: pictures of text are not read
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.FileBytes, 512<<20)
	setDefault(&l.TextBytes, 256<<20)
	setDefault(&l.ExpandBytes, 1<<30)
	setDefault(&l.Ratio, 200)
	setDefault(&l.Entries, 20000)
	setDefault(&l.Depth, 8)
	setDefault(&l.Time, 2*time.Minute)
	return l
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
