package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/callback"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// receiver is a program of others that is called.
type receiver struct {
	*httptest.Server
	mu sync.Mutex
	// status is what it answers, calls what it was called with. Guarded by mu.
	status int
	calls  []received
}

type received struct{ id, body, path string }

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, received{req.Header.Get("webhook-id"), string(b), req.URL.Path})
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) on(path string) (some []received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.path == path {
			some = append(some, c)
		}
	}
	return some
}

// callBack calls back for a world until stop is called.
func (w *world) callBack(t *testing.T, dir string, log *logged, delays ...time.Duration) (stop func()) {
	t.Helper()
	targets, err := callback.Load(filepath.Join(dir, "callbacks"), filepath.Join(dir, "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := station.Gateway(t.Context(), w.station)
	if err != nil {
		t.Fatal(err)
	}
	st, err := conn.Station(w.station.Name())
	if err != nil {
		t.Fatal(err)
	}
	c, err := callback.New(t.Context(), callback.Config{Client: w.client, Targets: targets, State: filepath.Join(dir, "state.json"), Refuse: st.Refusals(), Delays: delays, Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	w, r, dir, log := newWorld(t), newReceiver(t), t.TempDir(), &logged{}
	for name, text := range map[string]string{
		"secrets/key":         hookKey,
		"callbacks/all.toml":  "kind = \"webhook\"\non = [\"completed\", \"failed\", \"gate\"]\nsecret = \"secret:key\"\nprivate = true\noutput = true\nurl = \"" + r.URL + "/all\"\n",
		"callbacks/one.toml":  "kind = \"webhook\"\non = [\"completed\"]\nagents = [\"talker\"]\nsecret = \"secret:key\"\nprivate = true\nurl = \"" + r.URL + "/one\"\n",
		"callbacks/chat.toml": "kind = \"slack\"\non = [\"failed\"]\nprivate = true\nurl = \"" + r.URL + "/chat\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(agent string) string {
		t.Helper()
		autonomy := 5
		if agent == "asks" || agent == "slowly" {
			autonomy = 1
		}
		id, err := w.client.Start(t.Context(), events.Task{Agent: agent, Task: "x", Autonomy: &autonomy})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	start("helper") // before there were callbacks
	until(t, func() bool {
		a, err := w.client.Runs().List(t.Context())
		return err == nil && len(a) == 1 && a[0].Status.Ended()
	})
	stop := w.callBack(t, dir, log, time.Millisecond, time.Millisecond)
	t.Run("DLV-8 PLUS-15b configured callbacks are called once when a run completes, fails or waits at a gate", func(t *testing.T) {
		run, broken := start("helper"), start("broken")
		gated := start("asks")
		until(t, func() bool { return len(r.on("/all")) >= 3 && len(r.on("/chat")) >= 1 })
		types := map[string]string{}
		for _, c := range r.on("/all") {
			v := in[callback.Call](t, answered{body: c.body})
			types[v.Data.Run] += v.Type
			if c.id == "" || v.Data.Station != w.station.Name() || v.Type == "run.completed" && v.Data.Output != "It is done." {
				t.Errorf("%+v", c)
			}
		}
		if want := map[string]string{run: "run.completed", broken: "run.failed", gated: "gate.opened"}; fmt.Sprint(types) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", types, want)
		}
		if c := r.on("/chat"); len(c) != 1 || !strings.Contains(c[0].body, "broken failed") {
			t.Errorf("%v", c)
		}
	})
	t.Run("DLV-8 a call that fails is made again with the same id and body, also by the next process", func(t *testing.T) {
		until(t, func() bool { // what was called for before is noted
			s, err := callback.ReadState(filepath.Join(dir, "state.json"))
			return err == nil && len(s.Pending) == 0
		})
		stop()
		stop = w.callBack(t, dir, log, time.Millisecond, time.Hour)
		r.answer(http.StatusInternalServerError)
		start("talker")
		until(t, func() bool { return len(r.on("/one")) >= 2 })
		stop()
		state, err := callback.ReadState(filepath.Join(dir, "state.json"))
		if err != nil || len(state.Pending) != 2 {
			t.Fatalf("%+v, %v", state.Pending, err)
		}
		r.answer(http.StatusNoContent)
		for i := range state.Pending { // an hour has passed
			state.Pending[i].Next = time.Now()
		}
		writeState(t, filepath.Join(dir, "state.json"), state)
		before := len(r.on("/one"))
		stop = w.callBack(t, dir, log, time.Millisecond, time.Hour)
		until(t, func() bool {
			s, err := callback.ReadState(filepath.Join(dir, "state.json"))
			return err == nil && len(s.Pending) == 0
		})
		calls := r.on("/one")
		if len(calls) != before+1 || slices.ContainsFunc(calls, func(c received) bool { return c != calls[0] }) {
			t.Errorf("%d before: %v", before, calls)
		}
	})
	t.Run("DLV-8 after the last attempt a call is a dead letter with the reason, and no secret is anywhere", func(t *testing.T) {
		stop()
		stop = w.callBack(t, dir, log, time.Millisecond, time.Millisecond)
		r.answer(http.StatusBadGateway)
		run := start("talker")
		until(t, func() bool { return len(w.letters(t, callback.CodeFailed)) >= 2 })
		for _, l := range w.letters(t, callback.CodeFailed) {
			if l.By != "gateway" || l.Run != run || !strings.Contains(l.Reason, "after 3 attempts: the receiver answered 502") || !strings.Contains(l.Data, run) {
				t.Errorf("%+v", l)
			}
		}
		if n := len(r.on("/one")); n != 3+3 {
			t.Errorf("%d calls", n)
		}
		state, err := os.ReadFile(filepath.Join(dir, "state.json"))
		if err != nil || strings.Contains(string(state), hookKey) || log.has(hookKey) || strings.Contains(fmt.Sprint(w.letters(t, callback.CodeFailed)), hookKey) {
			t.Errorf("%v\n%s", err, state)
		}
	})
	t.Run("PLUS-23a reminders of a gate are called for once each, over a restart, and the group is called once it was escalated", func(t *testing.T) {
		for name, text := range map[string]string{
			"callbacks/again.toml": "kind = \"webhook\"\non = [\"reminder\"]\nsecret = \"secret:key\"\nprivate = true\nurl = \"" + r.URL + "/again\"\n",
			"callbacks/leads.toml": "kind = \"slack\"\non = [\"reminder\"]\ngroups = [\"leads\"]\nprivate = true\nurl = \"" + r.URL + "/leads\"\n",
			"callbacks/owner.toml": "kind = \"slack\"\non = [\"reminder\"]\ngroups = [\"owners\"]\nprivate = true\nurl = \"" + r.URL + "/owner\"\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stop := w.callBack(t, dir, log)
		run := start("slowly")
		of := func(path string) (some []received) {
			for _, c := range r.on(path) {
				if strings.Contains(c.body, run) {
					some = append(some, c)
				}
			}
			return some
		}
		until(t, func() bool { return len(of("/again")) >= 1 })
		stop()
		w.callBack(t, dir, log)
		called := func() map[string]bool {
			ids := map[string]bool{}
			for _, c := range of("/again") {
				ids[c.id] = true
			}
			return ids
		}
		until(t, func() bool { return len(called()) >= 3 && len(of("/leads")) >= 1 })
		numbers := 0
		for _, c := range of("/again") {
			if !strings.Contains(c.body, `"type":"gate.reminded"`) || !strings.Contains(c.body, "for an answer before step") {
				t.Errorf("%s", c.body)
			}
		}
		for item, err := range w.client.Events(t.Context(), run, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Payload.Kind() == events.GateReminded {
				numbers++
			}
			if item.Event.Sequence >= item.State.Sequence && numbers >= 3 {
				break
			}
		}
		// The stop may have come between a call and the note that it was made: then it comes again, with its id.
		if calls, ids := len(of("/again")), len(called()); calls > ids+1 {
			t.Errorf("%d calls with %d ids", calls, ids)
		}
		if n := len(r.on("/owner")); n != 0 {
			t.Errorf("%d calls of a group that was not meant", n)
		}
	})
	t.Run("DLV-8 two processes do not call for one state", func(t *testing.T) {
		w.callBack(t, dir, log)
		if _, err := callback.New(t.Context(), callback.Config{Client: w.client, State: filepath.Join(dir, "state.json")}); err == nil {
			t.Error("a second one began")
		}
	})
}

func TestCallbacksOfDeputies(t *testing.T) {
	t.Parallel()
	p, r, dir, log := newPeople(t), newReceiver(t), t.TempDir(), &logged{}
	w, state := p.world, filepath.Join(dir, "state.json")
	own, names := map[string]client.Deputies{}, map[string]string{}
	writeFile(t, filepath.Join(dir, "secrets", "key"), hookKey)
	target := func(name, more string) {
		writeFile(t, filepath.Join(dir, "callbacks", name+".toml"), "kind = \"webhook\"\non = [\"gate\", \"reminder\", \"completed\"]\nsecret = \"secret:key\"\nprivate = true\nurl = \""+
			r.URL+"/"+name+"\"\n"+more)
	}
	target("all", "")
	for _, who := range []string{"ann", "bob", "carol"} {
		token := p.token(t, who, "engineers")
		c, err := p.connect(t, token)
		if err != nil {
			t.Fatal(err)
		}
		own[who], names[who] = client.NewDeputies(c), p.name(t, token)
		target(who, "people = [\""+names[who]+"\"]\n")
	}
	stop := w.callBack(t, dir, log)
	away := func(t *testing.T, who, to string) {
		t.Helper()
		if _, err := own[who].Control(t.Context(), names[who], events.DeputyControl{Action: events.AwayAction, To: names[to], Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(t *testing.T, agent, by string) string {
		t.Helper()
		autonomy := 1
		id, err := w.client.Start(t.Context(), events.Task{Agent: agent, Task: "x", Autonomy: &autonomy, By: names[by]})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	// of are the calls of a target about a run, by the position of the event.
	of := func(t *testing.T, target, run string) map[uint64]callback.CallData {
		t.Helper()
		calls := map[uint64]callback.CallData{}
		for _, c := range r.on("/" + target) {
			if d := in[callback.Call](t, answered{body: c.body}).Data; d.Run == run {
				calls[d.Sequence] = d
			}
		}
		return calls
	}
	// quiet waits until nothing is to be called any more of what was read of the log.
	quiet := func(t *testing.T) {
		t.Helper()
		until(t, func() bool {
			s, err := callback.ReadState(state)
			return err == nil && len(s.Pending) == 0
		})
	}
	called := func(t *testing.T, target, run string) callback.CallData {
		t.Helper()
		until(t, func() bool { return len(of(t, target, run)) > 0 })
		for _, d := range of(t, target, run) {
			return d
		}
		return callback.CallData{}
	}
	silent := func(t *testing.T, run string, targets ...string) {
		t.Helper()
		quiet(t)
		for _, target := range targets {
			if calls := of(t, target, run); len(calls) > 0 {
				t.Errorf("%s was called: %v", target, calls)
			}
		}
	}
	t.Run("PLUS-23b notices of a gate go to who is away and to the deputy, also where the deputy is named in a circle", func(t *testing.T) {
		run := start(t, "asks", "ann")
		called(t, "ann", run)
		silent(t, run, "bob", "carol") // late: it was opened before
		away(t, "ann", "bob")
		away(t, "bob", "ann")
		run = start(t, "asks", "ann")
		for _, target := range []string{"ann", "bob"} {
			if d := called(t, target, run); len(d.Deputies) != 1 || d.Deputies[0].For != names["ann"] || d.Deputies[0].By != names["bob"] {
				t.Errorf("%s: %+v", target, d)
			}
		}
		silent(t, run, "carol")
	})
	t.Run("PLUS-23b reminders of a gate call the deputy as often as who is away", func(t *testing.T) {
		run := start(t, "slowly", "ann")
		until(t, func() bool { return len(of(t, "ann", run)) >= 3 && len(of(t, "bob", run)) >= 3 })
		for _, d := range of(t, "bob", run) {
			if d.Kind != notify.Gate && d.Kind != notify.Reminder || len(d.Deputies) != 1 || d.Deputies[0].By != names["bob"] {
				t.Errorf("%+v", d)
			}
		}
		silent(t, run, "carol")
	})
	t.Run("PLUS-23b a deputy that another one replaces is called no more, over a restart, and no one is once who was away is back", func(t *testing.T) {
		away(t, "ann", "carol")
		stop()
		stop = w.callBack(t, dir, log)
		run := start(t, "asks", "ann")
		called(t, "carol", run)
		called(t, "ann", run)
		silent(t, run, "bob")
		if _, err := own["ann"].Control(t.Context(), names["ann"], events.DeputyControl{Action: events.BackAction}); err != nil {
			t.Fatal(err)
		}
		run = start(t, "asks", "ann")
		if d := called(t, "ann", run); len(d.Deputies) != 0 {
			t.Errorf("%+v", d)
		}
		silent(t, run, "bob", "carol")
		seen := map[string]bool{}
		for _, target := range []string{"all", "ann", "bob", "carol"} {
			for _, c := range r.on("/" + target) {
				if seen[c.id] && target == "carol" { // calls of the others may be made again by the restart
					t.Errorf("%s twice: %s", target, c.body)
				}
				seen[c.id] = true
			}
		}
	})
	stop()
}

// writeFile writes a file and its folder.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeState writes the state of callbacks.
func writeState(t *testing.T, path string, s callback.State) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
