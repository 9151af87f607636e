package forward_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/callback"
	"github.com/inspan/inspan/internal/forward"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const key = "a key of some length"

// plane is a receiver. answer gives the status of a call by its number and size.
type plane struct {
	*httptest.Server
	mu sync.Mutex
	// Guarded by mu.
	answer  func(call, bytes int) int
	calls   int
	ids     []string // of the calls, in order
	got     []string // source and id of the events that were taken, in order
	wrong   []string
	biggest int
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{answer: func(int, int) int { return http.StatusAccepted }}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		m := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(m, "%s.%s.%s", id, stamp, body)
		if r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)) {
			p.wrong = append(p.wrong, "a signature")
		}
		var evs []struct{ Source, ID, SpecVersion string }
		if err := json.Unmarshal(body, &evs); err != nil || len(evs) == 0 ||
			r.Header.Get("Content-Type") != "application/cloudevents-batch+json" {
			p.wrong = append(p.wrong, fmt.Sprintf("%v %.100s", err, body))
		}
		p.calls++
		p.ids = append(p.ids, id)
		p.biggest = max(p.biggest, len(evs))
		status := p.answer(p.calls, len(body))
		if status < 300 {
			for _, e := range evs {
				p.got = append(p.got, e.Source+" "+e.ID)
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *plane) with(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *plane) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got...)
}

// world is a station with a log.
type world struct {
	// over is closed when the forwarder that was started last has ended.
	over <-chan struct{}
	t    *testing.T
	st   *jet.Station
	path string
	runs int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	conn := jettest.Connect(t, jettest.Server(t), jet.Config{})
	return &world{t: t, st: jettest.Station(t, conn, "s1", jet.ApplyOptions{}), path: filepath.Join(t.TempDir(),
		"state.json")}
}

// append stores a run of two events and returns them as a receiver names them.
func (w *world) append(text string) (names []string) {
	w.t.Helper()
	w.runs++
	id := fmt.Sprintf("run-%d", w.runs)
	b := runtest.New("s1", id)
	created := runtest.Created()
	created.Task += text
	b.Append(created, runtest.Started())
	head := uint64(0)
	for _, stored := range b.Events() {
		e, err := events.Decode(stored)
		if err != nil {
			w.t.Fatal(err)
		}
		kind, _ := e.Kind()
		ack := w.st.Journal().Append(w.t.Context(), kernel.Entry{ID: id, Kind: kind, Head: head, Bytes: stored})
		if ack.Outcome != kernel.Stored {
			w.t.Fatalf("%+v", ack)
		}
		head = ack.Seq
		names = append(names, e.Source+" "+e.ID)
	}
	return names
}

// forward sends to a plane until stop is called. failed has what it ended with, if it ended by itself.
func (w *world) forward(p *plane, tune ...func(*forward.Config)) (stop func() error) {
	w.t.Helper()
	to, err := callback.NewReceiver(p.URL, key, true)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := forward.Config{Log: w.st, To: to, State: w.path, FromStart: true, Refuse: w.st.Refusals(),
		Report: zerolog.Nop(),
		Waits:  []time.Duration{time.Millisecond}}
	for _, f := range tune {
		f(&cfg)
	}
	f, err := forward.New(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	over := make(chan struct{})
	w.over = over
	go func() {
		defer close(over)
		ended <- f.Run(ctx)
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come in two minutes")
		}
	}
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %d events\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	t.Run("OBS-17 all events come in the order of the log, signed, in batches, and go on behind a restart",
		func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newPlane(t)
			var want []string
			for range 120 {
				want = append(want, w.append("")...)
			}
			stop := w.forward(p)
			until(t, func() bool { return len(p.taken()) >= len(want) })
			want = append(want, w.append("later")...)
			until(t, func() bool { return len(p.taken()) >= len(want) })
			if err := stop(); err != nil {
				t.Error(err)
			}
			want = append(want, w.append("while it was away")...)
			w.forward(p)
			until(t, func() bool { return len(p.taken()) >= len(want) })
			same(t, p.taken(), want)
			p.with(func() {
				if len(p.wrong) > 0 || p.biggest > 100 || p.calls < 4 {
					t.Errorf("%q, batches of %d, %d calls", p.wrong, p.biggest, p.calls)
				}
			})
		})
	t.Run("OBS-17 a receiver that is away loses nothing: the same call comes again, and nothing before it is over",
		func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newPlane(t)
			statuses := []int{500, 503, 401, 404, 429, 302}
			p.with(func() {
				p.answer = func(call, _ int) int {
					if call <= len(statuses) {
						return statuses[call-1]
					}
					return 200
				}
			})
			want := w.append("")
			w.forward(p)
			until(t, func() bool { return len(p.taken()) >= len(want) })
			same(t, p.taken(), want)
			p.with(func() {
				for _, id := range p.ids {
					if id != p.ids[0] {
						t.Errorf("the attempts have the ids %q", p.ids)
					}
				}
			})
		})
	t.Run("OBS-17 a process that is killed behind the answer sends again, and skips nothing", func(t *testing.T) {
		t.Parallel()
		w, p := newWorld(t), newPlane(t)
		want := w.append("")
		stop := w.forward(p)
		var before []byte
		until(t, func() bool { // it is written behind the answer
			var s forward.State
			var err error
			before, err = os.ReadFile(w.path)
			return err == nil && json.Unmarshal(before, &s) == nil && s.Position > 0
		})
		more := w.append("second")
		until(t, func() bool { return len(p.taken()) >= len(want)+len(more) })
		_ = stop()
		if err := os.WriteFile(w.path, before, 0o600); err != nil { // as if it had not come to write it
			t.Fatal(err)
		}
		w.forward(p)
		until(t, func() bool { return len(p.taken()) >= len(want)+2*len(more) })
		same(t, p.taken(), append(append(want, more...), more...))
	})
	t.Run("OBS-17 a batch that is too large comes in halves, and an event that is leaves a dead letter",
		func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newPlane(t)
			var want []string
			for range 8 {
				want = append(want, w.append("")...)
			}
			large := w.append(strings.Repeat("x", 20_000))
			want = append(append(want, large[1]), w.append("")...)
			p.with(func() {
				p.answer = func(_, bytes int) int {
					if bytes > 10_000 {
						return 413
					}
					return 204
				}
			})
			w.forward(p)
			until(t, func() bool { return len(p.taken()) >= len(want) })
			same(t, p.taken(), want)
			letters, _, err := w.st.Dead(t.Context(), 0)
			if err != nil || len(letters) != 1 || letters[0].Letter.Code != forward.Code {
				t.Errorf("%+v, %v", letters, err)
			}
		})
	t.Run("OBS-17 only the types that are wanted are sent, and a receiver that is gone for ever ends it",
		func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newPlane(t)
			first := w.append("")
			stop := w.forward(p, func(c *forward.Config) { c.Kinds = []string{"run.crea*"} })
			until(t, func() bool { return len(p.taken()) == 1 })
			second := w.append("")
			until(t, func() bool { return len(p.taken()) == 2 })
			same(t, p.taken(), []string{first[0], second[0]})
			p.with(func() { p.answer = func(int, int) int { return 410 } })
			w.append("")
			until(t, func() bool {
				var calls int
				p.with(func() { calls = p.calls })
				return calls >= 3
			})
			until(t, func() bool { // the answer has been read, too
				select {
				case <-w.over:
					return true
				default:
					return false
				}
			})
			if err := stop(); err == nil || !strings.Contains(err.Error(), "410") {
				t.Errorf("%v", err)
			}
		})
	t.Run("OBS-17 it begins with what comes, two processes do not share a file, and one of another station is refused",
		func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newPlane(t)
			w.append("before")
			now := func(c *forward.Config) { c.FromStart = false }
			w.forward(p, now)
			want := w.append("after")
			until(t, func() bool { return len(p.taken()) >= len(want) })
			same(t, p.taken(), want)
			if f, err := forward.New(t.Context(), forward.Config{Log: w.st, State: w.path}); err == nil {
				t.Errorf("%+v", f)
			}
			other := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(other, []byte(`{"station":"s2","position":1}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := forward.New(t.Context(), forward.Config{Log: w.st,
				State: other}); err == nil || !strings.Contains(err.Error(), "s2") {
				t.Errorf("%v", err)
			}
			for _, address := range []string{"http://plane.example.com/", "ftp://x", "https://u:p@plane.example.com/"} {
				if _, err := callback.NewReceiver(address, key, false); err == nil {
					t.Errorf("%s is taken", address)
				}
			}
			if _, err := callback.NewReceiver("https://plane.example.com/", "short", false); err == nil {
				t.Error("a short key is taken")
			}
		})
}
