package recovery

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// pruned makes a backup without the events of ended runs out of another one.
func pruned(t *testing.T, from, to, age string) (m backup.Manifest) {
	t.Helper()
	out := inspan(t, 0, "space", "make", from, to, "--ended-before", age, "--station", "lab", "--json")
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// moved fills another place from a backup and starts it.
func (p *place) moved(dir string) *place {
	p.t.Helper()
	q := newPlace(p.t, p.name)
	q.strange, q.mode = true, p.mode // the agents come from the backup
	out := inspan(p.t, 0, "restore", dir, "--station", p.name, "--store", filepath.Join(q.dir, "store"), "--new-keys", "--go-on")
	if !strings.Contains(out, "0 runs with faults") {
		p.t.Fatal(out)
	}
	q.up()
	return q
}

// TestPrune makes room in a station, twice, and lives on.
func TestPrune(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("gated", "waiting", waiting)
	const old = 13 // the last one in a session
	spent := map[string]events.MicroUSD{}
	for i := range old - 1 {
		id := fmt.Sprintf("old-%d", i)
		p.start(events.Task{ID: id, Agent: "loud", Task: "shout"})
		spent[id] = p.await(id, "ended", ended).Cost
	}
	p.start(events.Task{ID: "old-12", Agent: "loud", Task: "shout", Session: "desk"})
	spent["old-12"] = p.await("old-12", "ended", ended).Cost
	p.until("the turn in the session", func() bool { return strings.Contains(p.do(0, "session", "history", "desk"), "shout") })
	before := p.bytes("gated")
	whole, small := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "small")
	p.do(0, "backup", whole)
	head := p.await("old-0", "ended", ended).Hash
	p.down()
	m := pruned(t, whole, small, "0s")
	from, err := backup.ReadManifest(whole)
	if err != nil || m.Pruned != old || m.Runs != old+1 || m.Open != 1 || m.Log >= from.Log/2 || m.Bytes >= from.Bytes {
		t.Fatalf("%+v of %+v, %v", m, from, err)
	}
	t.Logf("%d of %d events, %d of %d bytes", m.Log, from.Log, m.Bytes, from.Bytes)

	t.Run("PLUS-24b made again it is the same, and nothing is left out of runs that ended later", func(t *testing.T) {
		again := pruned(t, whole, filepath.Join(t.TempDir(), "b"), "0s")
		for i, f := range m.Files {
			if again.Files[i] != f {
				t.Errorf("%+v, it was %+v", again.Files[i], f)
			}
		}
		if none := pruned(t, whole, filepath.Join(t.TempDir(), "c"), "1h"); none.Pruned != 0 || none.Log != from.Log {
			t.Errorf("%+v", none)
		}
	})
	q := p.moved(small)
	t.Run("PLUS-24b runs that were left out are shown as they ended, and what remains is sound", func(t *testing.T) {
		for id, cost := range spent {
			s := q.await(id, "ended", ended)
			if s.Status != events.Completed || s.Pruned == nil || s.Cost != cost || len(q.bytes(id)) != 1 {
				t.Errorf("%s: %s pruned %v, cost %d of %d, %d events", id, s.Status, s.Pruned, s.Cost, cost, len(q.bytes(id)))
			}
		}
		f, err := events.Decode(q.bytes("old-0")[0])
		if err != nil || f.PrevHash != head {
			t.Errorf("it follows %.12s, the last event was %.12s: %v", f.PrevHash, head, err)
		}
		if out := q.do(0, "logs", "old-0"); !strings.Contains(out, "in the backup of") {
			t.Error(out)
		}
		if out := q.do(0, "inspect", "old-0"); !strings.Contains(out, "completed") {
			t.Error(out)
		}
		if out := q.do(0, "runs"); strings.Count(out, "old-") != old || !strings.Contains(out, "gated") {
			t.Error(out)
		}
		q.do(0, "tree", "old-0")
		q.do(0, "audit", "--all")
	})
	t.Run("PLUS-24b their ids start no second run, and nothing can be done with them", func(t *testing.T) {
		if id, err := q.c.Start(q.ctx(), events.Task{ID: "old-1", Agent: "loud", Task: "shout"}); err != nil || id != "old-1" {
			t.Errorf("the same task: %q %v", id, err)
		}
		_, _ = q.c.Start(q.ctx(), events.Task{ID: "old-1", Agent: "loud", Task: "another"}) // it may see the run first
		q.until("the refusal", func() bool { return strings.Contains(q.do(0, "dead", "list"), "duplicate_id") })
		if n := len(q.bytes("old-1")); n != 1 {
			t.Errorf("%d events", n)
		}
		q.do(4, "pause", "old-2")
		for _, args := range [][]string{{"fork", "old-2", "--at", "2"}, {"fork", "old-2", "--say", "again"}, {"retry", "old-2"}} {
			if out := q.do(4, args...); !strings.Contains(out, "in a backup") {
				t.Errorf("%v: %s", args, out)
			}
		}
	})
	t.Run("PLUS-24b what was open goes on where it stood", func(t *testing.T) {
		if err := begins(q.bytes("gated"), before); err != nil {
			t.Error(err)
		}
		q.approve(q.await("gated", "waiting", waiting))
		if s := q.await("gated", "ended", ended); s.Status != events.Completed {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
	})
	t.Run("PLUS-24b a session has its history, and goes on", func(t *testing.T) {
		if out := q.do(0, "session", "history", "desk"); !strings.Contains(out, "shout") {
			t.Error(out)
		}
		q.start(events.Task{ID: "again", Agent: "loud", Task: "shout more", Session: "desk"})
		if s := q.await("again", "ended", ended); s.Status != events.Completed || s.Created.History == nil {
			t.Errorf("%s, history %v", s.Status, s.Created.History)
		}
	})
	t.Run("PLUS-24b room is made a second time, also of what went on", func(t *testing.T) {
		q.start(events.Task{ID: "later", Agent: "careful", Task: "write", Autonomy: level(1)})
		q.await("later", "waiting", waiting)
		second, less := filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "less")
		q.do(0, "backup", second)
		q.down()
		if m := pruned(t, second, less, "0s"); m.Pruned != old+2 || m.Open != 1 {
			t.Errorf("%+v", m)
		}
		r := p.moved(less)
		r.await("old-3", "ended", func(s run.State) bool { return ended(s) && s.Pruned != nil })
		r.await("gated", "ended", func(s run.State) bool { return ended(s) && s.Pruned != nil })
		r.approve(r.await("later", "waiting", waiting))
		r.await("later", "ended", ended)
		r.do(0, "audit", "--all")
	})
	t.Run("PLUS-24b what was left out is in the backup", func(t *testing.T) {
		r := p.moved(whole)
		if s := r.await("old-0", "ended", ended); s.Hash != head || s.Pruned != nil {
			t.Errorf("%.12s, it was %.12s, pruned %v", s.Hash, head, s.Pruned)
		}
	})
	t.Run("PLUS-24b a backup that is none, is damaged or of another station, and a folder that is not empty, are refused", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "to")
		for code, args := range map[int][]string{
			5: {whole + "-not", to, "--ended-before", "0s"}, 2: {whole, to}} {
			inspan(t, code, append([]string{"space", "make", "--station", "lab"}, args...)...)
		}
		inspan(t, 2, "space", "make", whole, to, "--ended-before=-1h", "--station", "lab")
		inspan(t, 2, "space", "make", whole, small, "--ended-before", "0s", "--station", "lab")
		if out := inspan(t, 2, "space", "make", whole, to, "--ended-before", "0s", "--station", "other"); !strings.Contains(out, "--station lab") {
			t.Error(out)
		}
		if err := os.WriteFile(filepath.Join(whole, "timers.jsonl"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := inspan(t, 1, "space", "make", whole, to, "--ended-before", "0s", "--station", "lab"); !strings.Contains(out, "timers.jsonl") {
			t.Error(out)
		}
		if _, err := os.Stat(to); err == nil {
			t.Error("something was written")
		}
	})
}

// cutAfter shortens the log of a backup to its first events, up to the last one on a subject, and takes a row out that is
// newer. A prefix of a log is a legal history.
func cutAfter(t *testing.T, dir, subject, row string) {
	t.Helper()
	m, err := backup.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range m.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
		switch {
		case strings.HasPrefix(f.Name, "log/"):
			last := 0
			for n, line := range lines {
				if strings.Contains(line, `"`+subject+`"`) {
					last = n + 1
				}
			}
			if last == 0 || last == len(lines) {
				t.Fatalf("%s is event %d of %d", subject, last, len(lines))
			}
			lines, m.Log = lines[:last], uint64(last) //nolint:gosec // a count
		case f.Name == "values.jsonl":
			lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `"`+row+`"`) })
		default:
			continue
		}
		short := []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n")
		if err := os.WriteFile(name, short, 0o600); err != nil {
			t.Fatal(err)
		}
		m.Files[i].Size, m.Files[i].SHA256 = int64(len(short)), run.HashOf(short)
	}
	body, err := json.Marshal(m)
	if err == nil {
		body, err = json.Marshal(map[string]any{"manifest": json.RawMessage(body), "sha256": run.HashOf(body)})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPrunedOwes is a run that ended at the very point of the backup: no one had acted on that.
func TestPrunedOwes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.do(0, "work", "add", "A thing", "--id", "thing")
	type item struct {
		Status string `json:"status"`
		Run    string `json:"run"`
	}
	read := func(out string) (i item) {
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	show := func(p *place) item { return read(p.do(0, "work", "show", "thing", "--json")) }
	id := read(p.do(0, "sling", "thing", "careful", "--json")).Run
	p.await(id, "ended", ended)
	p.until("the end of the item", func() bool { return show(p).Status == "closed" })
	done := show(p)
	dir, small := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "small")
	p.do(0, "backup", dir)
	p.down()
	cutAfter(t, dir, "station.lab.run."+id+".evt.run.completed", "work.thing")
	if m := pruned(t, dir, small, "0s"); m.Pruned != 1 {
		t.Fatalf("%+v", m)
	}
	t.Run("PLUS-24b WORK-2 what the end of a run asks for is done, although only what stands for the run is left", func(t *testing.T) {
		q := p.moved(small)
		q.until("the end of the item", func() bool { return show(q) == done })
		q.do(0, "audit", "--all")
	})
}
