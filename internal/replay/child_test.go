package replay_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestChildSpawned(t *testing.T) {
	t.Parallel()
	spawned := func(t *testing.T, change func(*events.ChildSpawnedData)) replay.Report {
		t.Helper()
		b, c := runtest.New("main", "r"), runtest.Created()
		c.Options.TimeoutMS = time.Minute.Milliseconds() // less than an agent has by itself
		b.Append(c, runtest.Started(), runtest.Plan(runtest.ChildStep("a")), runtest.Ready("a"), runtest.Allowed("a"))
		decided := b.State().UpdatedAt.Add(3 * time.Millisecond) // before its event is written, as in any service
		say := child.Next(b.State(), decided, func(string, string, string, int) string { return "child_1" })
		if len(say) != 1 {
			t.Fatalf("got %+v", say)
		}
		change(say[0].(*events.ChildSpawnedData))
		b.Append(say...)
		rep, err := replay.Log(t.Context(), replay.Policy{}, bytes.NewReader(runtest.Lines(b.Events())))
		if err != nil || rep.Refused != nil {
			t.Fatal(err, rep.Refused)
		}
		return rep
	}
	t.Run("PLUS-6 SUB-4 a child's time is decided at the moment at which it was", func(t *testing.T) {
		t.Parallel()
		if rep := spawned(t, func(*events.ChildSpawnedData) {}); len(rep.Changes) != 0 {
			t.Errorf("got %+v", rep.Changes)
		}
	})
	t.Run("PLUS-6 SUB-4 a child that was given another time is reported", func(t *testing.T) {
		t.Parallel()
		if rep := spawned(t, func(d *events.ChildSpawnedData) { d.TimeoutMS -= 30_000 }); len(rep.Changes) != 1 {
			t.Errorf("got %+v", rep.Changes)
		}
	})
}
