package deputies

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/deputy"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/events"
)

// frontDesk is a log of deputies, the controls of people, and gatekeepers that die at an operation on the log.
type frontDesk struct {
	t   *testing.T
	st  *mem.Station
	now time.Time
	// left counts the operations until the death, which comes after the operation where late is set; -1 is never.
	left int
	late bool
	died bool
	kill context.CancelFunc
	// inputs are the controls by their position, codes how the last delivery of each ended.
	inputs []deputyInput
	codes  []string
}

type deputyInput struct {
	kernel.Message
	name, body string
	seq        uint64
}

// Subject implements kernel.Message.
func (m deputyInput) Subject() string { return events.DeputySubject("s1", m.name) }

// Data implements kernel.Message.
func (m deputyInput) Data() []byte { return []byte(m.body) }

// Header implements kernel.Message.
func (m deputyInput) Header(string) string { return "" }

// Seq implements kernel.Message.
func (m deputyInput) Seq() uint64 { return m.seq }

var errDied = errors.New("the gatekeeper died")

// dies makes an operation, or is the death of its gatekeeper before or after it.
func (f *frontDesk) dies(do func()) bool {
	f.left--
	if f.left != -1 {
		do()
		return false
	}
	if f.late {
		do()
	}
	f.died = true
	f.kill()
	return true
}

// mortalDeputies is the log of a gatekeeper that dies.
type mortalDeputies struct {
	kernel.Journal
	f *frontDesk
}

// Append implements kernel.Journal.
func (j mortalDeputies) Append(ctx context.Context, e kernel.Entry) (ack kernel.Ack) {
	if ctx.Err() != nil || j.f.dies(func() { ack = j.Journal.Append(ctx, e) }) {
		return kernel.Ack{Outcome: kernel.Transient, Err: errDied}
	}
	return ack
}

// Read implements kernel.Journal.
func (j mortalDeputies) Read(ctx context.Context, id string, after uint64) (all []kernel.Record, more bool, err error) {
	if ctx.Err() != nil || j.f.dies(func() { all, more, err = j.Journal.Read(ctx, id, after) }) {
		return nil, false, errDied
	}
	return all, more, err
}

// Last implements kernel.Journal.
func (j mortalDeputies) Last(ctx context.Context, id string) (r kernel.Record, ok bool, err error) {
	if ctx.Err() != nil || j.f.dies(func() { r, ok, err = j.Journal.Last(ctx, id) }) {
		return r, false, errDied
	}
	return r, ok, err
}

func newFrontDesk(t *testing.T) *frontDesk {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &frontDesk{t: t, st: st, left: -1, now: time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)}
}

// ask has somebody publish a control.
func (f *frontDesk) ask(name string, c events.DeputyControl) {
	f.t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.inputs = append(f.inputs, deputyInput{name: name, body: string(b), seq: uint64(len(f.inputs) + 1)})
}

func (f *frontDesk) away(name, to string) {
	f.ask(name, events.DeputyControl{Action: events.AwayAction, To: to, Until: f.now.Add(time.Hour)})
}

func (f *frontDesk) back(name string) { f.ask(name, events.DeputyControl{Action: events.BackAction}) }

// gatekeeper is one that knows nothing.
func (f *frontDesk) gatekeeper() Deputies {
	f.t.Helper()
	l, err := deputy.NewLedger(deputy.LedgerConfig{Station: "s1", By: events.Gatekeeper, Entropy: rand.Reader,
		Journal: mortalDeputies{f.st.JournalFor(events.DeputyAggregate), f}, Now: func() time.Time { return f.now }})
	if err != nil {
		f.t.Fatal(err)
	}
	return Deputies{l}
}

// deliver has a gatekeeper carry out a control. It reports whether that acknowledged it: a control whose gatekeeper
// died comes again.
func (f *frontDesk) deliver(d Deputies, i int) bool {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.kill = cancel
	err := d.Input(ctx, f.inputs[i])
	refused, isRefusal := errors.AsType[*kernel.Refusal](err)
	for len(f.codes) <= i {
		f.codes = append(f.codes, "")
	}
	switch {
	case ctx.Err() != nil:
		return false
	case isRefusal:
		f.codes[i] = refused.Code
	case err != nil:
		f.t.Fatalf("control %d: %v", i+1, err)
	default:
		f.codes[i] = "done"
	}
	return true
}

// log is what the log says, event by event; each must fold.
func (f *frontDesk) log() (lines []string, s deputy.State) {
	f.t.Helper()
	f.left = -1
	s, err := f.gatekeeper().Ledger.Fresh(f.t.Context(), events.DeputyID)
	if err != nil {
		f.t.Fatal(err)
	}
	all, more, err := f.st.JournalFor(events.DeputyAggregate).Read(f.t.Context(), events.DeputyID, 0)
	if err != nil || more {
		f.t.Fatal(err, more)
	}
	for _, r := range all {
		var e struct {
			Data struct {
				Event  string
				Number int
				For    string
				To     string
				Input  uint64 `json:"input_seq"`
			}
		}
		if err := json.Unmarshal(r.Bytes, &e); err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%+v", e.Data))
	}
	return lines, s
}

// TestDeputyCut has a gatekeeper die at each operation on the log, before it and after it, of naming, replacing and
// ending deputies.
func TestDeputyCut(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T) *frontDesk {
		f := newFrontDesk(t)
		f.away("ann", "bob")
		f.away("ann", "carol") // named twice: the last one counts
		f.away("carol", "ann") // a circle
		f.back("ann")
		f.back("ann") // refused
		f.away("dan", "dan")
		f.away("ann", "bob")
		return f
	}
	whole := play(t)
	for i := range whole.inputs {
		whole.deliver(whole.gatekeeper(), i)
	}
	want, _ := whole.log()
	if len(want) != 5 || whole.codes[4] != deputy.Here || whole.codes[5] != deputy.Input {
		t.Fatalf("%q\n%q", want, whole.codes)
	}
	t.Run("PLUS-23b SAFE-3 a gatekeeper that dies at any operation loses, doubles and halves no deputy", func(t *testing.T) {
		t.Parallel()
		deaths := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				f := play(t)
				f.left, f.late = op, late
				d := f.gatekeeper()
				for i := 0; i < len(f.inputs); i++ {
					for !f.deliver(d, i) {
						d = f.gatekeeper()
					}
				}
				died := f.died
				got, s := f.log()
				if !slices.Equal(got, want) || !slices.Equal(f.codes, whole.codes) || s.Of("ann").To != "bob" || s.Of("carol").To != "ann" {
					t.Errorf("death at operation %d, late %t:\n%q, want\n%q\n%q, want\n%q", op, late, got, want, f.codes, whole.codes)
				}
				if !died {
					break
				}
				deaths++
			}
		}
		if deaths < 10 {
			t.Errorf("only %d deaths", deaths)
		}
	})
	t.Run("PLUS-23b SAFE-3 a control whose gatekeeper died and that comes again after later ones brings no earlier deputy back", func(t *testing.T) {
		t.Parallel()
		for first := range whole.inputs[:4] {
			for _, late := range []bool{false, true} {
				for op := 0; ; op++ {
					f := play(t)
					d := f.gatekeeper()
					for i := range first {
						f.deliver(d, i)
					}
					f.left, f.late = op, late
					acknowledged := f.deliver(d, first)
					f.left = -1
					d = f.gatekeeper()
					for i := first + 1; i < len(f.inputs); i++ {
						f.deliver(d, i)
					}
					before, _ := f.log()
					f.deliver(d, first)
					after, s := f.log()
					// Only that of carol, who asked for nothing since, is carried out late.
					if grown := len(after) - len(before); grown > 0 && (f.inputs[first].name != "carol" || grown > 1) {
						t.Errorf("control %d, death at operation %d, late %t: %q became %q", first+1, op, late, before, after)
					}
					if s.Of("ann").To != "bob" || s.Of("carol").To != "ann" {
						t.Errorf("control %d, death at operation %d, late %t: %+v", first+1, op, late, s.Deputies)
					}
					if acknowledged {
						break
					}
				}
			}
		}
	})
	t.Run("PLUS-23b SAFE-3 two gatekeepers that are given one control name one deputy", func(t *testing.T) {
		t.Parallel()
		f := play(t)
		a, b := f.gatekeeper(), f.gatekeeper()
		for i := range f.inputs {
			for _, d := range []Deputies{a, b, a} {
				f.deliver(d, i)
			}
		}
		if got, _ := f.log(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
