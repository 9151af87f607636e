package station_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
)

func TestMarksOfTwoStations(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("SAFE-2 stations that take turns in one store keep each other's marks, and raise no alarm", func(t *testing.T) {
		for _, name := range []string{"paris", "berlin", "paris", "berlin"} {
			s, err := station.Up(within(t), station.Config{StoreDir: dir, Station: name, Still: true, LazySync: true, Log: zerolog.Nop(), Base: base})
			if err != nil {
				t.Fatal(err)
			}
			if lost, notes := s.Damage(), s.Repairs(); lost.Damaged() || len(notes) > 0 {
				t.Errorf("%s: %v %v", name, lost, notes)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		m, _, err := storecheck.Load(dir)
		if err != nil || m == nil || !m.Clean {
			t.Fatalf("there are no marks of an ordinary end: %v", err)
		}
		for _, name := range []string{"paris", "berlin"} {
			if _, ok := m.Streams[storecheck.Key(topology.StreamsAccount(name), topology.Log(name))]; !ok {
				t.Errorf("no marks of %s", name)
			}
		}
	})
}
