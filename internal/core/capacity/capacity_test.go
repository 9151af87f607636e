package capacity_test

import (
	"testing"

	"github.com/inspan/inspan/internal/core/capacity"
)

func TestOf(t *testing.T) {
	t.Parallel()
	f := capacity.Figures{Run: 1000, Step: 100, Content: 2, LogShare: 0.75, Parked: 500, ParkedRSS: 50}
	l := capacity.Load{RunsPerDay: 100, StepsPerRun: 10, Content: 40, Days: 10, Parked: 20, Replicas: 3, Peak: 1}
	got := f.Of(l)
	// A run is 1000 + 10 * (100 + 2 * 40) = 2800 bytes, those of ten days with the parked ones 2,810,000.
	want := capacity.Need{BytesPerRun: 2800, BytesPerDay: 280_000, Log: 2_107_500, Buckets: 702_500, Disk: 5_620_000, Memory: 1000,
		StepsPerSecond: 100 * 10. / 86_400, Stations: 1, Servers: 3}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	t.Run("stations are as many as carry the busiest time, and divide the disk", func(t *testing.T) {
		for _, c := range []struct {
			steps float64
			want  int
		}{{0, 1}, {1, 1}, {got.StepsPerSecond, 1}, {got.StepsPerSecond * 0.99, 2}, {got.StepsPerSecond / 5, 5}} {
			l := l
			l.StationSteps = c.steps
			if n := f.Of(l); n.Stations != c.want || n.Disk != want.Disk/int64(c.want) {
				t.Errorf("with %v steps/s a station: %+v, want %d stations", c.steps, n, c.want)
			}
		}
	})
}
