package recovery

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// records are the places where the records of a block begin.
func records(block []byte) (at []int) {
	for i := 0; i+22 <= len(block); {
		at = append(at, i)
		i += int(binary.LittleEndian.Uint32(block[i:]) &^ (1 << 31))
	}
	return at
}

func TestFlippedLength(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	before, evs := map[string][][]byte{}, 0
	for i := range 4 {
		id := fmt.Sprintf("r%d", i)
		p.start(events.Task{ID: id, Agent: "careful", Task: "write"})
		p.await(id, "ended", ended)
		before[id] = p.bytes(id)
		evs += len(before[id])
	}
	p.down()
	b, err := os.ReadFile(p.logBlock())
	if err != nil {
		t.Fatal(err)
	}
	at := records(b)
	b[at[len(at)/2]+1] ^= 4
	if err := os.WriteFile(p.logBlock(), b, 0o640); err != nil {
		t.Fatal(err)
	}
	p.up()
	left := 0
	for id := range before {
		left += len(p.bytes(id))
	}
	if left != evs && !p.station.Damage().Damaged() {
		t.Errorf("%d of %d events are left, and nothing reported it", left, evs)
	}
}

// logBlock is the file of a small log.
func (p *place) logBlock() string {
	p.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(p.dir, "store", "nats", "jetstream", "*", "streams", topology.Log(p.name), "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		p.t.Fatalf("blocks of the log: %v %v", blocks, err)
	}
	return blocks[0]
}

// ruin writes over the middle of a record, as no single bit does, and returns which record that is.
func (p *place) ruin() int {
	p.t.Helper()
	b, err := os.ReadFile(p.logBlock())
	if err != nil {
		p.t.Fatal(err)
	}
	at := records(b)
	i := len(at) / 2
	copy(b[at[i]+300:], "????????????")
	if err := os.WriteFile(p.logBlock(), b, 0o640); err != nil {
		p.t.Fatal(err)
	}
	return i + 1
}

func TestDamage(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	before := map[string][][]byte{}
	for i := range 4 {
		id := fmt.Sprintf("r%d", i)
		p.start(events.Task{ID: id, Agent: "careful", Task: "write"})
		p.await(id, "ended", ended)
		before[id] = p.bytes(id)
	}
	p.down()
	seq := p.ruin()
	p.up()
	lost := p.station.Damage()
	t.Run("SAFE-2 what is lost is named: one message, with its position and its run", func(t *testing.T) {
		all := lost.Lost()
		if len(all) != 1 || all[0].Messages() != 1 || all[0].From != uint64(seq) || len(all[0].Runs) != 1 || all[0].Stream != topology.Log("lab") {
			t.Fatalf("%+v", all)
		}
		if s, err := p.c.State(p.ctx(), all[0].Runs[0]); err == nil && s.Sequence >= uint64(len(before[all[0].Runs[0]])) {
			t.Errorf("run %s has %d events", all[0].Runs[0], s.Sequence)
		}
	})
	t.Run("SAFE-2 CLI-9 doctor, audit --all and audit say it; whoever dispatches learns why nothing is done", func(t *testing.T) {
		if out := p.do(1, "doctor", "--no-model"); !strings.Contains(out, "DAMAGED, loss "+lost.ID()) {
			t.Errorf("%s", out)
		}
		if out := p.do(1, "audit", "--all"); !strings.Contains(out, lost.ID()) || !strings.Contains(out, "station lab is not sound") {
			t.Errorf("%s", out)
		}
		if out := p.do(1, "audit", "--all", "--json"); !strings.Contains(out, `"sound": false`) || !strings.Contains(out, lost.ID()) {
			t.Errorf("%s", out)
		}
		p.do(1, "audit", lost.Lost()[0].Runs[0])
		_, err := p.c.Start(p.ctx(), events.Task{ID: "more", Agent: "careful", Task: "write"})
		if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Code != station.CodeDamaged || !strings.Contains(refused.Reason, lost.ID()) {
			t.Errorf("a new task: %v", err)
		}
		if _, err := p.c.State(p.ctx(), "more"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("it has begun: %v", err)
		}
	})
	t.Run("SAFE-2 what is left can be read and exported, byte for byte", func(t *testing.T) {
		for id, want := range before {
			if slices.Contains(lost.Lost()[0].Runs, id) {
				continue
			}
			if err := begins(p.bytes(id), want); err != nil || len(p.bytes(id)) != len(want) {
				t.Errorf("%s: %v", id, err)
			}
			p.do(0, "export", id)
			p.do(0, "export", id, "--bundle", filepath.Join(p.dir, id+".bundle"))
		}
	})
	t.Run("SAFE-2 it stays reported, also where the server has made the files look whole, until a person accepts what is lost", func(t *testing.T) {
		p.down()
		p.up()
		if again := p.station.Damage(); again.ID() != lost.ID() {
			t.Fatalf("%s, want %s: %v", again.ID(), lost.ID(), again)
		}
		p.down()
		p.loss = "0123456789ab"
		if err := p.open(); !errors.Is(err, station.ErrNoLoss) {
			t.Fatalf("another loss was accepted: %v", err)
		}
		p.loss = lost.ID()
		p.up()
		if again := p.station.Damage(); again.Damaged() {
			t.Fatalf("%v", again)
		}
		p.start(events.Task{ID: "more", Agent: "careful", Task: "write"})
		p.await("more", "ended", ended)
		p.down()
		p.loss = ""
		p.up()
		if again := p.station.Damage(); again.Damaged() {
			t.Errorf("what was accepted is reported again: %v", again)
		}
		p.do(0, "audit", "r0")
		l, err := storecheck.LoadLosses(filepath.Join(p.dir, "store"))
		if err != nil || len(l.Accepted) != 1 || l.Accepted[0].ID != lost.ID() {
			t.Errorf("%+v %v", l, err)
		}
	})
	t.Run("EVT-9 SAFE-2 the runs come back from the archive into a store whose streams were taken away, and nothing is reported", func(t *testing.T) {
		p.down()
		p.wipe()
		inspan(t, 0, "restore", "--from", p.archive, "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		p.up()
		if again := p.station.Damage(); again.Damaged() {
			t.Fatalf("%v", again)
		}
		for id, want := range before {
			if err := begins(p.bytes(id), want); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		p.do(0, "audit", "--all")
	})
	t.Run("SAFE-2 a store whose streams are gone is not taken for a new one", func(t *testing.T) {
		p.down()
		p.wipe()
		p.up()
		if !p.station.Damage().Damaged() {
			t.Error("all streams are gone, and nothing reported it")
		}
	})
}

// TestWithoutMarks opens a store that an earlier version made.
func TestWithoutMarks(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	for i := range 3 {
		id := fmt.Sprintf("r%d", i)
		p.start(events.Task{ID: id, Agent: "careful", Task: "write"})
		p.await(id, "ended", ended)
	}
	p.down()
	forget := func() {
		if err := storecheck.Forget(filepath.Join(p.dir, "store")); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	p.up()
	t.Run("SAFE-2 a store of an earlier version is opened without an alarm, and its marks begin", func(t *testing.T) {
		if lost, notes := p.station.Damage(), p.station.Repairs(); lost.Damaged() || len(notes) > 0 {
			t.Errorf("%v %v", lost, notes)
		}
		if m, _, err := storecheck.Load(filepath.Join(p.dir, "store")); err != nil || m == nil || m.Streams[storecheck.Key(topology.StreamsAccount("lab"), topology.Log("lab"))].Last == 0 {
			t.Errorf("%+v %v", m, err)
		}
	})
	p.down()
	forget()
	b, err := os.ReadFile(p.logBlock())
	if err != nil {
		t.Fatal(err)
	}
	at := records(b)
	if err := os.Truncate(p.logBlock(), int64(at[len(at)-3])); err != nil {
		t.Fatal(err)
	}
	p.up()
	t.Run("SAFE-2 SAFE-3 without marks the index says which runs lost their end", func(t *testing.T) {
		lost := p.station.Damage().Lost()
		named := slices.ContainsFunc(lost, func(f storecheck.Finding) bool {
			return slices.Equal(f.Runs, []string{"r2"}) && strings.Contains(f.What, ", the index has event ")
		})
		if !named {
			t.Errorf("%+v", lost)
		}
	})
}

// TestViewsLost ruins the index, which is made again.
func TestViewsLost(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	for i := range 3 {
		id := fmt.Sprintf("r%d", i)
		p.start(events.Task{ID: id, Agent: "careful", Task: "write"})
		p.await(id, "ended", ended)
	}
	p.down()
	blocks, err := filepath.Glob(filepath.Join(p.dir, "store", "nats", "jetstream", "*", "streams", storecheck.ViewsStream, "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%v %v", blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0x55
	}
	if err := os.WriteFile(blocks[0], b, 0o640); err != nil {
		t.Fatal(err)
	}
	p.up()
	t.Run("SAFE-2 PERS-21 an index that is lost is made again from the log, and the station works meanwhile", func(t *testing.T) {
		if lost := p.station.Damage(); lost.Damaged() || len(p.station.Repairs()) == 0 {
			t.Fatalf("%v %v", lost, p.station.Repairs())
		}
		for ctx := p.ctx(); ; {
			all, err := p.c.Runs().List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 3 && !slices.ContainsFunc(all, func(i run.Info) bool { return i.Anchor == nil || i.Status != events.Completed }) {
				break
			}
		}
		p.start(events.Task{ID: "more", Agent: "careful", Task: "write"})
		p.await("more", "ended", ended)
		p.do(0, "audit", "--all")
	})
}

// TestNoFalseAlarm copies a store while its station works, as a crash at that moment would leave it.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.often = 5 * time.Millisecond // so that crashes come while the marks are written
	p.up()
	const crashes = 6
	var copies []string
	for i := range crashes {
		p.start(events.Task{ID: fmt.Sprintf("r%d", i), Agent: "careful", Task: "write"})
		to := filepath.Join(t.TempDir(), "store")
		files(t, filepath.Dir(to))
		// By name the marks come before the streams: a crash may leave them behind what is stored, and never ahead of
		// it.
		copyStore(t, filepath.Join(p.dir, "store"), to)
		copies = append(copies, to)
	}
	p.down()
	for i, store := range copies {
		q := &place{t: t, dir: filepath.Dir(store), name: "lab"}
		if err := q.open(); err != nil {
			t.Fatal(err)
		}
		if lost := q.station.Damage(); lost.Damaged() {
			t.Errorf("crash %d: %v", i, lost)
		}
		if err := q.station.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := q.open(); err != nil {
			t.Fatal(err)
		}
		if lost, repairs := q.station.Damage(), q.station.Repairs(); lost.Damaged() || len(repairs) > 0 {
			t.Errorf("after crash %d and an ordinary end: %v %v", i, lost, repairs)
		}
		if err := q.station.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestFlips turns a few bits of each kind of file; the robust programme turns a thousand.
func TestFlips(t *testing.T) {
	t.Parallel()
	const most = 1 // of each kind
	s, n, seed := grow(t, true), tally{}, uint64(1)
	r := rand.New(rand.NewPCG(seed, 1))
	drawn := map[string]int{}
	for range 400 {
		rel, at, bit := s.draw(r)
		kind := kindOf(rel)
		if drawn[kind]++; drawn[kind] > most {
			continue
		}
		verdict, why := s.flip(t, rel, at, bit, false)
		n.add(kind, verdict)
		if verdict == flipSilent {
			t.Errorf("SAFE-2: seed %d: bit %d of byte %d of %s: nothing reported it: %s", seed, bit, at, rel, why)
		}
	}
	if verdict, why := s.flip(t, s.object(), s.part(t)+20, 7, false); verdict != flipRepaired {
		t.Errorf("SAFE-2: a bit in the length of the subject of a part of an object: %s: %s", verdict, why)
	}
	t.Logf("seed %d\n%s", seed, n)
	if len(n) < 10 {
		t.Errorf("only %d kinds of files were damaged", len(n))
	}
}

// object is the file that the parts of the objects are in.
func (s *specimen) object() string {
	for rel := range s.files {
		if kindOf(rel) == "messages of OBJ" {
			return rel
		}
	}
	return ""
}

// part is where the last part of an object begins in that file.
func (s *specimen) part(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, s.object()))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range slices.Backward(records(b)) {
		if binary.LittleEndian.Uint32(b[at:])>>31 == 0 { // without headers
			return int64(at)
		}
	}
	t.Fatal("no object has a part")
	return 0
}
