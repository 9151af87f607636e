package recovery

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// listed is a row of inspan stations list.
type listed struct {
	Halted bool `json:"halted"`
	Runs   int  `json:"runs"`
	Open   int  `json:"open_runs"`
	Events int  `json:"log_events"`
}

// listed is what the station says of itself.
func (p *place) listed() listed {
	p.t.Helper()
	var all []listed
	if err := json.NewDecoder(strings.NewReader(p.do(0, "stations", "list", "--json"))).Decode(&all); err != nil || len(all) != 1 {
		p.t.Fatalf("%+v %v", all, err)
	}
	return all[0]
}

// TestMove follows docs/stations.md: a station moves to another place while its runs wait at gates, and what moves it is
// killed on the way.
func TestMove(t *testing.T) {
	t.Parallel()
	const gates = 12
	p := newPlace(t, "lab")
	p.up()
	heads := map[string]string{}
	for i := range gates {
		id := fmt.Sprintf("gated-%d", i)
		p.start(events.Task{ID: id, Agent: "careful", Task: "write", Autonomy: level(1)})
	}
	p.start(events.Task{ID: "done", Agent: "loud", Task: "shout"})
	heads["done"] = p.await("done", "ended", ended).Hash
	for i := range gates {
		id := fmt.Sprintf("gated-%d", i)
		heads[id] = p.await(id, "waiting", waiting).Hash
	}
	p.do(0, "halt", "move")
	before := p.listed()
	if !before.Halted || before.Runs != gates+1 || before.Open != gates {
		t.Fatalf("%+v", before)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	p.do(0, "backup", dir)
	q := newPlace(t, "lab")
	q.strange = true // the agents come from the backup
	store := filepath.Join(q.dir, "store")
	t.Run("PLUS-18b a restore that is killed on the way leaves a station that takes nothing, and is called again", func(t *testing.T) {
		for _, there := range []string{"nats", "nats/jetstream/*/streams/LOG_lab", "nats/jetstream/*/streams/LOG_lab/msgs/*.blk"} {
			cmd := exec.CommandContext(p.ctx(), os.Args[0])
			cmd.Env = append(os.Environ(), commandLine+"="+strings.Join([]string{"restore", dir, "--station", "lab", "--store", store, "--new-keys"}, "\n"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			p.until(there, func() bool {
				all, err := filepath.Glob(filepath.Join(store, filepath.FromSlash(there)))
				return err == nil && len(all) > 0
			})
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}
		if out := inspan(t, 0, "restore", dir, "--station", "lab", "--store", store, "--new-keys"); !strings.Contains(out, "0 runs with faults") {
			t.Error(out)
		}
	})
	q.up()
	t.Run("PLUS-18a at the new place are the runs and heads of the old one, both halted, and the old one has nothing new", func(t *testing.T) {
		after := q.listed()
		if !after.Halted || after.Runs != before.Runs || after.Open != before.Open || after.Events < before.Events {
			t.Errorf("the new place has %+v, the old one had %+v", after, before)
		}
		for id, want := range heads {
			s, err := q.c.State(q.ctx(), id)
			if err != nil || s.Hash != want {
				t.Errorf("run %s: head %s, %v, want %s", id, s.Hash, err, want)
			}
		}
		if now := p.listed(); now != before {
			t.Errorf("the old place has %+v, it had %+v", now, before)
		}
		q.do(0, "audit", "--all")
	})
	t.Run("PLUS-18a EVT-9 after the release at the new place every gate is answered there and every run ends", func(t *testing.T) {
		q.do(0, "release", "--reason", "moved")
		for i := range gates {
			q.approve(q.await(fmt.Sprintf("gated-%d", i), "waiting", waiting))
		}
		for i := range gates {
			id := fmt.Sprintf("gated-%d", i)
			if s := q.await(id, "ended", ended); s.Status != events.Completed {
				t.Errorf("%s: %s %+v", id, s.Status, s.Result)
			}
		}
		if after := q.listed(); after.Open != 0 || after.Runs != gates+1 {
			t.Errorf("%+v", after)
		}
		if now := p.listed(); now != before {
			t.Errorf("the old place has %+v, it had %+v", now, before)
		}
	})
}
