package loop_test

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
)

// What a look costs does not grow with the run.
func BenchmarkLook(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		h := history(events.DoomLoop{})
		for i := range turns {
			lap(h, "read", fmt.Sprintf(`{"path":"%d"}`, i))
		}
		s := h.State()
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c := loop.Look(s, "a"); c.Grade != loop.None {
					b.Fatal(c)
				}
			}
		})
	}
}
