package station_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// TestKilled kills a station and starts another on its store.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir)
	c := dial(t, p.says("up"))
	if _, err := c.Start(within(t), events.Task{ID: "r", Agent: "marks", Task: "x"}); err != nil {
		t.Fatal(err)
	}
	p.says("began")

	t.Run("DEPL-6 SAFE-4 a store belongs to one process: another is told whose it is, and changes nothing", func(t *testing.T) {
		cfg, err := upConfig(t.TempDir(), &marker{marks: map[string]int{}})
		if err != nil {
			t.Fatal(err)
		}
		cfg.StoreDir = filepath.Join(dir, "store")
		for _, still := range []bool{false, true} {
			cfg.Still = still
			st, err := station.Up(within(t), cfg)
			if err == nil {
				t.Fatal("two servers have one store", st.Close(context.Background()))
			}
			if !strings.Contains(err.Error(), station.ErrHeld.Error()) || !strings.Contains(err.Error(), "process ") {
				t.Error(err)
			}
		}
		p.tell("leave")
		p.says("began") // it works as before: this is the second call
	})
	// Only once the server has written that the call was given out would it wait for an answer after a restart.
	given := time.Now()
	until(t, "the state of the toolrunner's consumer on disk", 5*time.Minute, func() bool {
		at, err := filepath.Glob(filepath.Join(dir, "store", "nats", "jetstream", "*", "streams", topology.Log("default"), "obs", "toolrunner", "o.dat"))
		if err != nil || len(at) != 1 {
			return false
		}
		info, err := os.Stat(at[0])
		return err == nil && info.ModTime().After(given)
	})
	p.kill()

	t.Run("DEPL-6 SAFE-4 after kill -9 the next one goes on at once: it waits for no lease and no acknowledgement of the dead", func(t *testing.T) {
		p := start(t, dir)
		defer p.kill()
		c := dial(t, p.says("up"))
		began := time.Now()
		n := map[events.Kind]int{}
		var status events.Status
		for item, err := range c.Watch(within(t), "r", 0) {
			if err != nil {
				t.Fatal(err)
			}
			status = item.State.Status
			n[item.Payload.Kind()]++
		}
		if took := time.Since(began); took > topology.LeaseTerm*2/3 {
			t.Errorf("it took %s, the lease of an instance %s", took, topology.LeaseTerm)
		}
		// No one knows whether the call that was cut off left its mark, and it is of class once: it is told, not done
		// again.
		if status != events.Completed || n[events.CallStarted] != 2 || n[events.CallFinished] != 1 || n[events.CallFailed] != 1 {
			t.Errorf("%s, %v", status, n)
		}
		if r, err := operator.Audit(within(t), c, "r", operator.Trust{}); err != nil || !r.Sound {
			t.Errorf("audit: %v, %+v", err, r.First)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "marks")); err != nil || string(b) != "mark\nmark\n" {
			t.Errorf("marks %q, %v", b, err)
		}
	})
}
