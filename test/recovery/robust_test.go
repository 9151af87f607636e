//go:build slow

package recovery

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/test/robust/report"
)

// seed is INSPAN_ROBUST_SEED, or drawn; it is printed either way.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("INSPAN_ROBUST_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("INSPAN_ROBUST_SEED: %v", err)
		}
	}
	t.Logf("seed %d", n)
	return n
}

// walk is a random legal history.
func walk(r *rand.Rand, evs int) *runtest.Builder {
	b := runtest.New("demo", "r")
	for len(b.Events()) < evs {
		moves := runtest.Moves(b.State())
		if len(moves) == 0 {
			break
		}
		p := moves[r.IntN(len(moves))]
		if (p.Kind() == events.RunFailed || p.Kind() == events.RunPaused) && r.IntN(8) > 0 {
			continue
		}
		if _, err := b.Try(p); err != nil {
			panic(err)
		}
	}
	return b
}

var ways = []struct {
	name   string
	change func(*rand.Rand, [][]byte) [][]byte
}{
	{"changed", func(r *rand.Rand, f [][]byte) [][]byte {
		i := r.IntN(len(f))
		f[i] = bytes.Clone(f[i])
		f[i][r.IntN(len(f[i]))] ^= byte(1 + r.IntN(255))
		return f
	}},
	{"dropped", func(r *rand.Rand, f [][]byte) [][]byte { i := r.IntN(len(f)); return slices.Delete(f, i, i+1) }},
	{"swapped", func(r *rand.Rand, f [][]byte) [][]byte {
		i := r.IntN(len(f) - 1)
		f[i], f[i+1] = f[i+1], f[i]
		return f
	}},
	{"cut off", func(r *rand.Rand, f [][]byte) [][]byte { return f[:r.IntN(len(f))] }},
	{"repeated", func(r *rand.Rand, f [][]byte) [][]byte {
		return slices.Insert(f, r.IntN(len(f)+1), f[r.IntN(len(f))])
	}},
}

// mutate audits changed logs for a while.
func mutate(t *testing.T, p *report.Part, r *rand.Rand, budget time.Duration) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize))
	tried, found, sound, logs := 0, 0, 0, 0
	for end := time.Now().Add(budget); time.Now().Before(end); {
		b := walk(r, 2+r.IntN(60))
		cfg := audit.Config{Run: "r", Anchors: []run.Anchor{run.AnchorOf(b.State(), 1, runtest.Start, key)}, Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}}
		look := func(evs [][]byte) audit.Report {
			rep, err := audit.File(context.Background(), cfg, bytes.NewReader(runtest.Lines(evs)))
			if err != nil {
				t.Fatal(err)
			}
			return rep
		}
		if logs++; look(b.Events()).Sound {
			sound++
		} else {
			p.Violate("seed %d: log %d was not touched and is said to be wrong", p.Seed, logs)
		}
		for _, w := range ways {
			tried++
			if rep := look(w.change(r, slices.Clone(b.Events()))); !rep.Sound && rep.First != nil {
				found++
			} else {
				p.Violate("seed %d: log %d, an event was %s and it was not found", p.Seed, logs, w.name)
			}
		}
	}
	p.Add("mutations of logs (changed, dropped, swapped, cut off, repeated)", tried, "at least 500")
	p.Add("mutations found", found, fmt.Sprint(tried))
	p.Add("untouched logs that are sound", sound, fmt.Sprint(logs))
	if tried < 500 {
		p.Violate("only %d mutations were tried in %s", tried, budget)
	}
}

const (
	robustRuns = 60
	robustCuts = 6
)

// restore loses a station with runs at gates, brings them back with interruptions, and lets them go on.
func restore(t *testing.T, p *report.Part, r *rand.Rand) {
	t.Helper()
	lab := newPlace(t, "lab")
	lab.up()
	before, evs := map[string][][]byte{}, 0
	for i := range robustRuns {
		lab.start(events.Task{ID: fmt.Sprintf("r%d", i), Agent: "careful", Task: "write", Autonomy: level(1)})
	}
	for i := range robustRuns {
		id := fmt.Sprintf("r%d", i)
		lab.await(id, "waiting", waiting)
		before[id] = lab.bytes(id)
		evs += len(before[id])
	}
	lab.down()
	lab.wipe()
	took, cuts := bringBack(t, p, r, lab)
	lab.up()
	back, completed := 0, 0
	for id, want := range before {
		if err := begins(lab.bytes(id), want); err != nil {
			p.Violate("seed %d: run %s after the restore: %v", p.Seed, id, err)
			continue
		}
		back++
		lab.approve(lab.await(id, "waiting", waiting))
		if s := lab.await(id, "ended", ended); s.Status == events.Completed {
			completed++
		} else {
			p.Violate("seed %d: run %s ended as %s", p.Seed, id, s.Status)
		}
		if rep, err := lab.audited(id); err != nil || !rep.Sound || rep.Anchored == 0 {
			p.Violate("seed %d: audit of %s: %v %+v, anchored up to event %d", p.Seed, id, err, rep.First, rep.Anchored)
		}
	}
	p.Add("runs at a gate when the station was lost", robustRuns, "")
	p.Add("restores interrupted in the middle, then done again", cuts, "at least 1")
	p.Add("runs back byte for byte", back, fmt.Sprint(robustRuns))
	p.Add("runs completed after the restore", completed, fmt.Sprint(robustRuns))
	p.Add("events restored, and the time of the last, whole restore", fmt.Sprintf("%d events, %s", evs, took.Round(time.Millisecond)), "")
}

// bringBack restores all runs; the first tries are cut off at a random moment.
func bringBack(t *testing.T, p *report.Part, r *rand.Rand, lab *place) (time.Duration, int) {
	t.Helper()
	src, err := archive.Open(lab.archive)
	if err != nil {
		t.Fatal(err)
	}
	all, err := src.Runs(t.Context())
	if err != nil || len(all) != robustRuns {
		p.Violate("seed %d: the archive has %d runs, %v", p.Seed, len(all), err)
	}
	still, err := station.Up(t.Context(), station.Config{StoreDir: filepath.Join(lab.dir, "store"), Station: lab.name, Still: true, LazySync: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer still.Close(context.Background()) //nolint:errcheck // it has no roles that could fail
	cuts := 0
	var took time.Duration
	for try := range robustCuts + 1 {
		ctx, cancel := context.WithCancel(t.Context())
		if try < robustCuts {
			time.AfterFunc(time.Duration(1+r.IntN(40))*time.Millisecond, cancel)
		}
		to, err := station.NewRestorer(t.Context(), lab.name, still.As)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for _, m := range all {
			if _, err = to.Bring(ctx, src, m, archive.How{By: "anna"}); err != nil {
				break
			}
		}
		cancel()
		took = time.Since(begin)
		switch {
		case try == robustCuts && err != nil:
			p.Violate("seed %d: the last restore: %v", p.Seed, err)
		case try < robustCuts && err != nil && ctx.Err() != nil:
			cuts++
		case err != nil:
			p.Violate("seed %d: restore %d: %v", p.Seed, try, err)
		}
	}
	if cuts == 0 {
		p.Violate("seed %d: no restore was interrupted", p.Seed)
	}
	return took, cuts
}

// moves lets runs move between two stations.
func moves(t *testing.T, p *report.Part) {
	t.Helper()
	const some = 8
	a, b := newPlace(t, "paris"), newPlace(t, "berlin")
	b.strange = true
	a.up()
	b.up()
	begin, completed := time.Now(), 0
	for i := range some {
		id := fmt.Sprintf("m%d", i)
		file := filepath.Join(a.dir, id+".bundle")
		a.start(events.Task{ID: id, Agent: "careful", Task: "write", Autonomy: level(1)})
		a.await(id, "waiting", waiting)
		a.do(0, "export", id, "--bundle", file, "--move")
		b.do(0, "import", file)
		b.approve(b.await(id, "waiting", waiting))
		if s := b.await(id, "ended", ended); s.Status == events.Completed && s.Identity.Station == "berlin" {
			completed++
		} else {
			p.Violate("run %s ended as %s at %s", id, s.Status, s.Identity.Station)
		}
		if left, err := a.c.State(a.ctx(), id); err != nil || !left.Status.Ended() {
			p.Violate("run %s is %s where it came from, %v", id, left.Status, err)
		}
	}
	p.Add("runs moved between stations at a gate, completed at the other and ended at the first", completed, fmt.Sprint(some))
	p.Add("time of a run with its move", (time.Since(begin) / some).Round(time.Millisecond), "")
}

func TestRobustRecovery(t *testing.T) {
	n := seed(t)
	p := report.Part{Name: "recovery", Title: "Moving and checking runs", Seed: n}
	r := rand.New(rand.NewPCG(n, 1))
	mutate(t, &p, r, 15*time.Second)
	restore(t, &p, r)
	moves(t, &p)
	p.Untried = append(p.Untried, "A disk that loses what it said was on disk: the archive relies on fsync.")
	if err := p.Save(); err != nil {
		t.Error(err)
	}
	for _, row := range p.Rows {
		t.Logf("%s: %s", row.What, row.Saw)
	}
	if len(p.Violations) > 0 {
		t.Error(errors.New(fmt.Sprint(p.Violations)))
	}
}

// audited is the audit of a run that ended. Its signed head comes with its row, a moment behind the end.
func (p *place) audited(runID string) (rep audit.Report, err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx(), patience)
	defer cancel()
	for {
		rep, err = operator.Audit(ctx, p.c, runID, operator.Trust{})
		if err != nil || !rep.Sound || rep.Anchored > 0 {
			return rep, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return rep, err
		}
	}
}
