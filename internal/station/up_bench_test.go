package station_test

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
)

// BenchmarkUp is a station that starts in an empty store and stops.
func BenchmarkUp(b *testing.B) {
	base, err := service.FromEnv()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		st, err := station.Up(context.Background(), station.Config{Listen: "127.0.0.1:0", StoreDir: b.TempDir(), Sandbox: "host", LazySync: true,
			Log: zerolog.Nop(), Base: base, AgentsDir: "../../examples/agents", ScriptsDir: "../../examples/scripts"})
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
