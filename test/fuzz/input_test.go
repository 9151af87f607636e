// Package fuzz gives the doors of a station what strangers may send, and runs the fuzz tests of the repository as a
// part of the robust programme.
//
// Promises: whatever is sent, it is judged once, within a time, and leaves either events that fold or a dead letter
// that fits the list; it is never tried for ever.
package fuzz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/gatekeeper"
	"github.com/inspan/inspan/services/planner"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
)

const (
	station = "demo"
	// slow is far above what any message within the limits needs; only work without a bound goes past it.
	slow = 10 * time.Second
)

// letter is one delivery.
type letter struct {
	subject    string
	data       []byte
	header     map[string]string
	deliveries uint64
	acks, naks int
}

func (l *letter) Subject() string           { return l.subject }
func (l *letter) Data() []byte              { return l.data }
func (l *letter) Header(name string) string { return l.header[name] }
func (l *letter) Seq() uint64               { return 7 }
func (l *letter) Time() time.Time           { return time.Unix(1_800_000_000, 0).UTC() }
func (l *letter) Deliveries() uint64        { return l.deliveries }
func (l *letter) Ack(context.Context) error { l.acks++; return nil }
func (l *letter) Nak(time.Duration) error   { l.naks++; return nil }
func (l *letter) Working() error            { return nil }
func (l *letter) again() *letter            { return &letter{l.subject, l.data, l.header, l.deliveries + 1, 0, 0} }
func (l *letter) in() kernel.Inbox          { return once{l} }

// once delivers one letter.
type once struct{ l *letter }

func (o once) Listen(ctx context.Context, _ events.Service, _ int, receive func(context.Context, kernel.Message)) error {
	receive(ctx, o.l)
	return nil
}

// agents has one agent and no model.
type agents struct{}

func (agents) Agent(_ context.Context, name string) (events.Agent, error) {
	if name != "demo" {
		return events.Agent{}, kernel.ErrNotFound
	}
	return runtest.Agent("demo", "read"), nil
}
func (agents) Names(context.Context) ([]string, error) { return []string{"demo"}, nil }
func (agents) Model(string) (llm.Model, string, error) { return nil, "", errors.New("no model here") }

// fixture is a station in memory with the role that judges a kind of input.
type fixture struct {
	t    *testing.T
	s    *mem.Station
	role runlog.Role
	cfg  kernel.LoopConfig
}

func open(t *testing.T, by events.Service, evs ...[]byte) *fixture {
	t.Helper()
	s, err := mem.New(station, mem.Config{Clock: mem.NewHand(time.Unix(1_800_000_000, 0).UTC())})
	if err != nil {
		t.Fatal(err)
	}
	d := &fixture{t: t, s: s}
	kerneltest.Seed(t, s.Journal(), evs...)
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: station, By: by, Journal: s.JournalOf(by), Entropy: rand.NewChaCha8([32]byte{1}),
		Now: func() time.Time { return time.Unix(1_800_000_000, 0).UTC() }})
	if err != nil {
		t.Fatal(err)
	}
	if by == events.Planner {
		made, _ := resolve.New(resolve.Config{Agents: agents{}})
		d.role, err = planner.New(planner.Config{Names: part.Names{Station: station}, Ledger: ledger, Timers: s.Timers(), Resolve: made})
	} else {
		var tools *tool.Registry
		if tools, err = tool.NewRegistry(); err == nil {
			d.role, err = gatekeeper.New(gatekeeper.Config{Ledger: ledger, Timers: s.Timers(), Blobs: s.Blobs(), Tools: tools})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	d.cfg = kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(ledger, d.role)}, Refusals: s.Refusals(), Log: zerolog.Nop(), Workers: 1}
	return d
}

// hear has the role judge a letter through the loop that every service runs.
func (d *fixture) receive(l *letter) {
	d.t.Helper()
	d.cfg.Inbox = l.in()
	loop, err := kernel.NewLoop(d.cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	begin := time.Now()
	if err := loop.Run(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	if took := time.Since(begin); took > slow {
		d.t.Fatalf("took %s for %d bytes", took, len(l.data))
	}
	if l.acks != 1 || l.naks != 0 {
		d.t.Fatalf("%d acks and %d naks: it would come again for ever", l.acks, l.naks)
	}
}

func (d *fixture) events() (n int) {
	for _, id := range d.s.Runs() {
		n += len(d.s.Log(id))
	}
	return n
}

// judge hears a letter twice and looks at what it left.
func (d *fixture) judge(l *letter) {
	d.t.Helper()
	before := d.events()
	d.receive(l)
	after, dead := d.events(), d.s.Dead()
	switch {
	case len(dead) > 1:
		d.t.Fatalf("%d dead letters of one message", len(dead))
	case len(dead) == 1 && after > before:
		d.t.Fatalf("refused (%s), and yet %d events were said", dead[0].Letter.Code, after-before)
	case len(dead) == 1:
		d.checkLetter(dead[0].Letter)
	}
	for _, id := range d.s.Runs() {
		var s run.State
		for _, f := range d.s.Log(id) {
			if len(f.Bytes) > events.MaxEvent {
				d.t.Fatalf("an event of %d bytes", len(f.Bytes))
			}
			next, err := s.Apply(f.Bytes)
			if err != nil {
				d.t.Fatalf("the log does not fold: %v", err)
			}
			s = next
		}
	}
	d.receive(l.again())
	if d.events() != after {
		d.t.Fatalf("the second look said %d events", d.events()-after)
	}
}

func (d *fixture) checkLetter(l kernel.DeadLetter) {
	d.t.Helper()
	b, err := json.Marshal(l)
	if err != nil || len(b) > events.MaxDeadLetter {
		d.t.Fatalf("the dead letter has %d bytes (%v), the list takes %d", len(b), err, events.MaxDeadLetter)
	}
	if l.Code == "internal_error" {
		d.t.Fatal("the role panicked")
	}
	if l.Code == "" || l.Reason == "" || l.Hint == "" || strings.Contains(l.Code, " ") {
		d.t.Fatalf("a refusal without code, reason or hint: %+v", l)
	}
	for what, text := range map[string]string{"reason": l.Reason, "hint": l.Hint, "data": l.Data, "token": l.Token} {
		if !utf8.ValidString(text) {
			d.t.Fatalf("the %s is not UTF-8: %q", what, text)
		}
	}
}

// hostile are texts that stand where a name or a reason should.
var hostile = []string{"", "x", "\x00", "\u202egnp.exe", "\u2066\u2069", "a\r\nb", "\xff\xfe", "../..", "{{x}}", "\\ud800", "é", strings.Repeat("<", 3000), "*", ">"}

// large returns documents of about size bytes that get larger on the way, or are deep.
func large(field string, size int) [][]byte {
	text := func(unit string) []byte {
		return []byte(`{"` + field + `":"` + strings.Repeat(unit, size/len(unit)) + `"}`)
	}
	return [][]byte{text("<"), text("\\u0001"), text("é"), text("\\ud83d\\ude00"), text("x"),
		[]byte(strings.Repeat("[", size)), []byte(strings.Repeat(`{"a":`, size/5)), []byte(`{"specversion":"1.0","data":` + strings.Repeat("[", size))}
}

// Sizes of large documents: small ones for the fuzzer, which has to be quick, and the largest that a stream takes.
const (
	seedSize = 2 << 10
	fullSize = topology.MaxInput - 4<<10
)

// judgeTask, judgeControl and judgeAnswer are what the fuzz tests of this file hold an input against.
func judgeTask(t *testing.T, data []byte, id, source, token string) {
	l := &letter{subject: events.TaskSubject(station), data: data, deliveries: 1, header: map[string]string{"Inspan-Token": token}}
	if id != "" || source != "" {
		l.header["ce-id"], l.header["ce-source"], l.header["ce-specversion"], l.header["ce-type"] = id, source, "1.0", events.TaskType
	}
	d := open(t, events.Planner)
	d.judge(l)
	if len(d.s.Runs()) > 1 || len(d.s.Runs()) == 1 == (len(d.s.Dead()) > 0) {
		t.Fatalf("%d runs and %d dead letters", len(d.s.Runs()), len(d.s.Dead()))
	}
}

func judgeControl(t *testing.T, evs [][]byte, data []byte, runID, token string) {
	l := &letter{subject: events.ControlSubject(station, runID), data: data, deliveries: 1, header: map[string]string{"Inspan-Token": token}}
	open(t, events.Planner, evs...).judge(l)
}

func judgeAnswer(t *testing.T, evs [][]byte, data []byte, rest, token string) {
	l := &letter{subject: "station." + station + ".run." + rest, data: data, deliveries: 1, header: map[string]string{"Inspan-Token": token}}
	open(t, events.Gatekeeper, evs...).judge(l)
}

// with puts a field in front of a document, so that the rest of it is in order.
func with(front string, b []byte) []byte {
	return []byte(strings.Replace(string(b), "{", "{"+front+",", 1))
}

var (
	taskFields    = []string{"task", "id", "model", "timeout", "nosuch"}
	controlFields = []string{"action", "by", "reason", "nosuch"}
	answerFields  = []string{"decision", "by", "reason", "proposal_hash", "nosuch"}
)

const soundTask = `"agent":"demo","task":"x"`

// TestLarge gives each door the largest documents that its stream takes.
func TestLarge(t *testing.T) {
	t.Parallel()
	evs := running().Events()
	each := func(name string, fields []string, judge func(t *testing.T, b []byte)) {
		t.Run("SAFE-12 SAFE-15 "+name+" of any size and depth are judged once", func(t *testing.T) {
			t.Parallel()
			for _, field := range fields {
				for _, b := range large(field, fullSize) {
					judge(t, b)
				}
			}
		})
	}
	each("tasks", taskFields, func(t *testing.T, b []byte) {
		judgeTask(t, b, "1", "/me", "tok")
		judgeTask(t, with(soundTask, b), "", "", "")
	})
	each("controls", controlFields, func(t *testing.T, b []byte) {
		judgeControl(t, evs, b, "r", "")
		judgeControl(t, evs, with(`"action":"stop"`, b), "r", strings.Repeat("\x01", 4<<10))
	})
	each("answers", answerFields, func(t *testing.T, b []byte) {
		judgeAnswer(t, evs, b, "r.gate.g-1", "")
		judgeAnswer(t, evs, with(`"decision":"reject"`, b), "r.gate.g-1", "")
	})
	t.Run("SAFE-15 PLAN-1 a plan that no event has room for is refused before its run begins", func(t *testing.T) {
		t.Parallel()
		judgeTask(t, largePlan(), "", "", "")
	})
}

// largePlan has steps of the size allowed, which together are larger than an event once they are written as JSON.
func largePlan() []byte {
	var steps []string
	for n := range 20 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","description":"%s"}`, n, strings.Repeat("<", 3000)))
	}
	return []byte(`{` + soundTask + `,"plan":{"steps":[` + strings.Join(steps, ",") + `]}}`)
}

// FuzzTask proves SAFE-12 and LIFE-9 for what is published on the task subject.
func FuzzTask(f *testing.F) {
	add := func(data string) { f.Add([]byte(data), "", "", "") }
	for _, s := range []string{`{"agent":"demo","task":"fix the wheel"}`, `{"agent":"demo","task":"x","id":"t-1","timeout":"30m","autonomy":5}`,
		`{"agent":"demo","task":"x","plan":{"steps":[{"id":"a","description":"b"},{"id":"c","needs":["a"]}]}}`, `{"agent":"nobody","task":"x"}`,
		`{"agent":"demo","task":"x","timeout":"2562047h","max_steps":-1}`, `{"agent":"demo","task":"x","unknown":1}`, `{}`, `null`, `[]`, ``, `{"agent":"demo","task":"x"}{}`,
		`{"specversion":"1.0","id":"1","source":"/me","type":"dev.inspan.task.v1","data":{"agent":"demo","task":"x"}}`,
		`{"agent":"demo","task":"x","model":"a/b","variables":{"a":"b"},"session_id":"s","parent_run_id":"p"}`} {
		add(s)
	}
	for _, h := range hostile {
		b, _ := json.Marshal(map[string]any{"agent": "demo", "task": h, "id": h, "session_id": h, "timeout": h, "model": h, "variables": map[string]string{h: h}})
		f.Add(b, h, h, h)
	}
	for _, field := range taskFields {
		for _, b := range large(field, seedSize) {
			f.Add(with(soundTask, b), "", "", "")
			f.Add(b, "1", "/me", "tok")
		}
	}
	f.Fuzz(judgeTask)
}

// running is a run in the middle, with a gate before its call.
func running() *runtest.Builder {
	b := runtest.New(station, "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "I push.", runtest.Asked(1, 1, "bash", `{"command":"git push"}`)), runtest.GateAt("g-1", "a", "c1-1"))
	return b
}

// FuzzControl proves SAFE-12 and LIFE-9 for what is published to steer a run.
func FuzzControl(f *testing.F) {
	for _, s := range []string{`{"action":"pause","by":"anna","reason":"lunch"}`, `{"action":"resume"}`, `{"action":"stop"}`, `{"action":"autonomy","level":4}`,
		`{"action":"autonomy","level":-1}`, `{"action":"explode"}`, `{"action":1}`, `{"action":"pause","more":1}`, ``, `null`} {
		f.Add([]byte(s), "r", "")
	}
	for _, h := range hostile {
		b, _ := json.Marshal(map[string]string{"action": "pause", "by": h, "reason": h})
		f.Add(b, "r", h)
		c, _ := json.Marshal(map[string]string{"action": h})
		f.Add(c, "nosuch", h)
	}
	for _, field := range controlFields {
		for _, b := range large(field, seedSize) {
			f.Add(b, "r", "")
			f.Add(with(`"action":"stop"`, b), "r", "")
		}
	}
	evs := running().Events()
	f.Fuzz(func(t *testing.T, data []byte, runID, token string) { judgeControl(t, evs, data, runID, token) })
}

// FuzzAnswer proves SAFE-12 and GATE-5 for what is published as the answer to a gate.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"decision":"approve"}`, `{"decision":"reject","reason":"no","by":"anna"}`, `{"decision":"maybe"}`, `{"decision":"approve","proposal_hash":"x"}`,
		`{"decision":" YES "}`, ``, `null`, `{"decision":"approve","more":1}`} {
		f.Add([]byte(s), "r.gate.g-1", "")
		f.Add([]byte(s), "r.gate.g-1.anna", "")
		f.Add([]byte(s), "nosuch.gate.g-1", "")
	}
	for _, h := range hostile {
		b, _ := json.Marshal(map[string]string{"decision": "reject", "by": h, "reason": h, "proposal_hash": h})
		f.Add(b, "r.gate.g-1", h)
		f.Add([]byte(`{"decision":"approve"}`), "r.gate.g-1."+h, h)
	}
	for _, field := range answerFields {
		for _, b := range large(field, seedSize) {
			f.Add(b, "r.gate.g-1", "")
			f.Add(with(`"decision":"reject"`, b), "r.gate.g-1", "")
		}
	}
	evs := running().Events()
	f.Fuzz(func(t *testing.T, data []byte, rest, token string) { judgeAnswer(t, evs, data, rest, token) })
}
