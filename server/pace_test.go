package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A machine that does one request in four seconds gets ten in a second: it takes as many as it can do within the patience, and says of the others when the
// queue will be short enough; one that does a hundred in a second takes them all.
func TestPaceAdmitsWhatCanBeDoneInTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		each     time.Duration
		longest  int
		refusals bool
	}{
		{"slow", 4 * time.Second, 16, true},
		{"fast", 10 * time.Millisecond, 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &pace{patience: time.Minute, free: 8}
			now := time.Unix(0, 0)
			done := now.Add(c.each)
			running, most, refused := 0, 0, 0
			for range 3000 {
				now = now.Add(100 * time.Millisecond)
				for running > 0 && !done.After(now) {
					p.leave(done)
					running--
					done = done.Add(c.each)
				}
				if running == 0 {
					done = now.Add(c.each)
				}
				if retry, ok := p.enter(now); ok {
					running++
				} else {
					refused++
					require.GreaterOrEqual(t, retry, time.Second)
					require.LessOrEqual(t, retry, 2*time.Minute)
				}
				if now.Unix() > 100 { // the first ones came before it knew
					most = max(most, running)
				}
			}
			require.Equal(t, c.refusals, refused > 0)
			require.LessOrEqual(t, most, c.longest)
		})
	}
}
