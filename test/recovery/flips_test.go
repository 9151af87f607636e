package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// specimen is a store whose copies are damaged, one bit at a time.
type specimen struct {
	dir string
	// saw is what anybody can observe of a station on a sound copy.
	saw map[string]string
	// files are those that a bit may flip in, with their sizes.
	files map[string]int64
}

// ids of the runs of a specimen.
const (
	specimenDone  = "done"
	specimenLoud  = "loud"
	specimenGated = "gated"
	specimenTalk  = "talk"
)

// grow makes a store with runs of several kinds. crashed leaves it as kill -9 does, else the station ends by itself.
func grow(t testing.TB, crashed bool) *specimen {
	t.Helper()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: specimenDone, Agent: "careful", Task: "write"})
	p.start(events.Task{ID: specimenLoud, Agent: "loud", Task: "shout"})
	p.start(events.Task{ID: specimenGated, Agent: "careful", Task: "write", Autonomy: level(1)})
	if _, err := p.c.Sessions().Start(p.ctx(), "chat", "", events.SessionSettings{}); err != nil {
		t.Fatal(err)
	}
	p.start(events.Task{ID: specimenTalk, Agent: "careful", Task: "write", Session: "chat"})
	p.await(specimenDone, "ended", ended)
	p.await(specimenLoud, "ended", ended)
	p.await(specimenTalk, "ended", ended)
	p.await(specimenGated, "waiting", waiting)
	if err := p.c.Sessions().Settled(p.ctx(), "chat", specimenTalk); err != nil {
		t.Fatal(err)
	}
	s := &specimen{dir: t.TempDir(), files: map[string]int64{}}
	if crashed {
		p.quiet()
		s.take(t, p.dir)
		p.down()
	} else {
		p.down()
		s.take(t, p.dir)
	}
	err := filepath.WalkDir(filepath.Join(s.dir, "store"), func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "workspace" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && d.Name() != "lock" {
			s.files[rel] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	q := s.copy(t)
	if err := q.open(); err != nil {
		t.Fatal(err)
	}
	if lost := q.station.Damage(); lost.Damaged() {
		t.Fatalf("a sound store is called damaged: %v", lost)
	}
	if s.saw, err = q.observe(); err != nil {
		t.Fatal(err)
	}
	q.down()
	return s
}

// quiet waits until the marks have all that is stored.
func (p *place) quiet() {
	p.t.Helper()
	dir := filepath.Join(p.dir, "store")
	for ctx := p.ctx(); kernel.Sleep(ctx, 50*time.Millisecond) == nil; {
		m, _, err := storecheck.Load(dir)
		if err != nil || m == nil {
			continue
		}
		if fresh(dir, m) {
			return
		}
	}
	p.t.Fatal("the marks do not follow the streams")
}

// fresh reports whether the digests of the marks are those of the files.
func fresh(dir string, m *storecheck.Marks) bool {
	for rel, f := range m.Files {
		b, err := os.ReadFile(filepath.Join(dir, rel))
		if err != nil || storecheck.FileOf(b).SHA256 != f.SHA256 {
			return false
		}
	}
	return true
}

// take copies a folder of a station into the specimen.
func (s *specimen) take(t testing.TB, from string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(s.dir, "agents"), os.DirFS(filepath.Join(from, "agents"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(s.dir, "scripts"), os.DirFS(filepath.Join(from, "scripts"))); err != nil {
		t.Fatal(err)
	}
	copyStore(t, filepath.Join(from, "store"), filepath.Join(s.dir, "store"))
}

// copyStore copies the files of a store, without the folders in memory that its batches are gathered in.
func copyStore(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a server that works has removed it meanwhile
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// copy makes a station's folder of the specimen.
func (s *specimen) copy(t testing.TB) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), name: "lab"}
	p.archive = filepath.Join(p.dir, "archive")
	copyStore(t, s.dir, p.dir)
	return p
}

// open starts a station without listening; an error is one of the start.
func (p *place) open() error {
	base, err := service.FromEnv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := station.Config{StoreDir: filepath.Join(p.dir, "store"), Station: p.name, AgentsDir: filepath.Join(p.dir, "agents"), ScriptsDir: filepath.Join(p.dir, "scripts"),
		Sandbox: "host", LazySync: true, AcceptLoss: p.loss, Log: zerolog.Nop(), Base: base}
	st, err := rise(ctx, cfg)
	if err != nil {
		return err
	}
	p.station = st
	p.c, err = operator.On(st.Conn(), p.name)
	return err
}

// observe is what anybody can see of a station: all it has, and that it takes new work and goes on with old.
func (p *place) observe() (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	saw := map[string]string{}
	note := func(what string, v any, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		b, err := json.Marshal(v)
		saw[what] = string(b)
		return err
	}
	runs, err := p.c.Runs().List(ctx)
	if err := note("runs", runs, err); err != nil {
		return saw, err
	}
	gates, err := p.c.Gates().List(ctx)
	if err := note("gates", gates, err); err != nil {
		return saw, err
	}
	agents, err := p.c.Agents(ctx)
	if err := note("agents", agents, err); err != nil {
		return saw, err
	}
	sessions, err := p.c.Sessions().List(ctx)
	if err := note("sessions", sessions, err); err != nil {
		return saw, err
	}
	said, err := p.c.Sessions().History(ctx, "chat")
	if err := note("history", said, err); err != nil {
		return saw, err
	}
	letters, err := p.c.DeadLetters().List(ctx)
	if err := note("dead letters", len(letters), err); err != nil {
		return saw, err
	}
	for _, id := range []string{specimenDone, specimenLoud, specimenGated, specimenTalk} {
		if err := p.observeRun(ctx, id, note); err != nil {
			return saw, err
		}
	}
	return saw, p.works(ctx)
}

func (p *place) observeRun(ctx context.Context, id string, note func(string, any, error) error) error {
	var all [][]byte
	for item, err := range p.c.Events(ctx, id, 0) {
		if err != nil {
			return fmt.Errorf("events of %s: %w", id, err)
		}
		all = append(all, item.Bytes)
	}
	if err := note("events of "+id, all, nil); err != nil {
		return err
	}
	report, err := operator.Audit(ctx, p.c, id, operator.Trust{})
	if err := note("audit of "+id, report, err); err != nil {
		return err
	}
	made, err := p.c.Artifacts().List(ctx, id)
	if err := note("artifacts of "+id, made, err); err != nil {
		return err
	}
	for _, a := range made {
		_, r, err := p.c.Artifacts().Open(ctx, id, a.ID)
		if err != nil {
			return fmt.Errorf("artifact %s: %w", a.ID, err)
		}
		b, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err == nil {
			err = note("artifact "+a.ID, b, nil)
		}
		if err != nil {
			return fmt.Errorf("artifact %s: %w", a.ID, err)
		}
	}
	return nil
}

// works lets a new task and the run at a gate come to their end.
func (p *place) works(ctx context.Context) error {
	if _, err := p.c.Start(ctx, events.Task{ID: "new", Agent: "careful", Task: "write"}); err != nil {
		return fmt.Errorf("a new task: %w", err)
	}
	s, err := p.c.State(ctx, specimenGated)
	if err != nil || len(s.Waiting()) == 0 {
		return fmt.Errorf("the gate: %w", err)
	}
	if _, err := p.c.Gates().Approve(ctx, client.Decision{Run: specimenGated, Gate: s.Waiting()[0].ID, By: "anna"}); err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	for _, id := range []string{"new", specimenGated} {
		var last run.State
		for item, err := range p.c.Watch(ctx, id, 0) {
			if err != nil {
				return fmt.Errorf("run %s is %s at event %d: %w", id, last.Status, last.Sequence, err)
			}
			last = item.State
		}
		if last.Status != events.Completed {
			return fmt.Errorf("run %s is %s", id, last.Status)
		}
	}
	return nil
}

// Verdicts of a flip: no file was changed back and nothing that can be observed differs, everything is as it was, it
// was reported as lost, or what can be observed differs and nothing reported it.
const (
	flipHarmless = "without effect"
	flipRepaired = "repaired"
	flipReported = "reported"
	flipSilent   = "silent"
)

// flip turns one bit of one file in a copy of the specimen and says what came of it. Where the check alone leaves every
// file as it was, byte for byte, or reports a loss, no station is started unless whole is set.
func (s *specimen) flip(t testing.TB, rel string, at int64, bit uint, whole bool) (verdict, why string) {
	t.Helper()
	damaged := func() *place {
		p := s.copy(t)
		path := filepath.Join(p.dir, rel)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 1 << bit
		if err := os.WriteFile(path, b, 0o640); err != nil { //nolint:gosec // a copy for this test alone
			t.Fatal(err)
		}
		return p
	}
	if !whole {
		if verdict, why = s.checked(t, damaged()); verdict != "" {
			return verdict, why
		}
	}
	p := damaged()
	defer os.RemoveAll(p.dir) //nolint:errcheck // a temporary folder
	if err := p.open(); err != nil {
		return flipReported, err.Error()
	}
	defer p.station.Close(context.Background()) //nolint:errcheck // the store is thrown away
	if lost := p.station.Damage(); lost.Damaged() {
		return flipReported, lost.Error()
	}
	saw, err := p.observe()
	if err != nil {
		return flipSilent, err.Error()
	}
	for _, what := range slices.Sorted(maps.Keys(s.saw)) {
		if saw[what] != s.saw[what] {
			return flipSilent, fmt.Sprintf("%s differ:\n got %.600s\nwant %.600s", what, saw[what], s.saw[what])
		}
	}
	if notes := p.station.Repairs(); len(notes) > 0 {
		return flipRepaired, notes[0].String()
	}
	return flipHarmless, ""
}

// checked runs the check of the files alone; the verdict is empty where only a station can show what came of the flip.
func (s *specimen) checked(t testing.TB, p *place) (verdict, why string) {
	t.Helper()
	defer os.RemoveAll(p.dir) //nolint:errcheck // a temporary folder
	dir := filepath.Join(p.dir, "store")
	m, _, err := storecheck.Load(dir)
	if err != nil {
		return "", ""
	}
	r, err := storecheck.Run(storecheck.Config{Store: dir, Streams: "nats", Extra: []string{"fallback.bolt", "anchor.key"}, Marks: m, Now: time.Now()})
	if err != nil {
		return flipReported, err.Error()
	}
	if r.Damaged() {
		return flipReported, r.Error()
	}
	for rel := range s.files {
		was, err := os.ReadFile(filepath.Join(s.dir, rel))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(filepath.Join(p.dir, rel)); err != nil || !bytes.Equal(is, was) {
			return "", ""
		}
	}
	return flipRepaired, r.Findings[0].String()
}

// kindOf says what a file of a store is for.
func kindOf(rel string) string {
	base := filepath.Base(rel)
	stream := ""
	if parts := strings.Split(rel, string(filepath.Separator)); len(parts) > 5 && parts[4] == "streams" {
		stream, _, _ = strings.Cut(parts[5], "_")
	}
	switch {
	case filepath.Ext(rel) == ".blk":
		return "messages of " + stream
	case base == "meta.inf" || base == "meta.sum":
		if strings.Contains(rel, "/obs/") {
			return "configuration of consumers"
		}
		return "configuration of streams"
	case base == "o.dat":
		return "state of consumers"
	case base == "index.db" || base == "thw.db" || base == "sched.db":
		return "state of streams (" + base + ")"
	case strings.HasPrefix(base, "marks"):
		return "marks"
	}
	return base
}

// draw chooses a bit: half of the time of any file, so that small ones are hit too, else of any byte.
func (s *specimen) draw(r *rand.Rand) (rel string, at int64, bit uint) {
	names := slices.Sorted(maps.Keys(s.files))
	rel = names[r.IntN(len(names))]
	if r.IntN(2) == 0 {
		var total int64
		for _, n := range names {
			total += s.files[n]
		}
		for left := r.Int64N(total); ; {
			rel = names[0]
			if left < s.files[rel] {
				break
			}
			left, names = left-s.files[rel], names[1:]
		}
	}
	return rel, r.Int64N(s.files[rel]), uint(r.IntN(8))
}

// tally counts verdicts by kind of file.
type tally map[string]map[string]int

func (n tally) add(kind, verdict string) {
	if n[kind] == nil {
		n[kind] = map[string]int{}
	}
	n[kind][verdict]++
}

func (n tally) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(&b, "%-34s %s\n", kind, n.line(kind))
	}
	return b.String()
}

func (n tally) line(kind string) string {
	v := n[kind]
	return fmt.Sprintf("%d repaired, %d reported, %d without effect, %d silent", v[flipRepaired], v[flipReported], v[flipHarmless], v[flipSilent])
}

func (n tally) count(verdict string) (all int) {
	for _, v := range n {
		all += v[verdict]
	}
	return all
}
