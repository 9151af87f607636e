package station_test

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"over NATS": false, "in a local store": true} {
		t.Run("ID-11 SAFE-5 agents are registered and removed while the station runs, "+name, func(t *testing.T) {
			t.Parallel()
			st, err := station.Up(within(t), station.Config{StoreDir: t.TempDir(), Sandbox: "host", LazySync: true, Alone: alone, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := st.Close(within(t)); err != nil {
					t.Error(err)
				}
			}()
			def := map[string]events.Agent{"x": {Name: "x", Digest: "1", Model: "scripted/x"}}
			for _, want := range []string{service.AgentNew, service.AgentUnchanged, service.AgentRemoved, service.AgentNew} {
				defs, removed := def, []string(nil)
				if want == service.AgentRemoved {
					defs, removed = nil, []string{"x", "never-there"}
				}
				done, err := station.Registry{Station: st}.RegisterAgents(within(t), defs, removed)
				if want == service.AgentUnchanged && err == nil && len(done) == 0 {
					continue
				}
				if err != nil || len(done) != 1 || done[0].State != want {
					t.Fatalf("%+v %v, want %s", done, err, want)
				}
			}
			for _, user := range []string{topology.SetupUser, topology.UpgradeUser} {
				if _, ok := station.Passwords(st)[user]; ok {
					t.Errorf("the station still has the password of %s", user)
				}
			}
		})
	}
}
