package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func marshal(v any) ([]byte, error) { return json.Marshal(v) }

// collect reads a watch to its end and checks that it is whole.
func collect(t *testing.T, ctx context.Context, w *world, runID string, from uint64, each func(client.Item)) []uint64 {
	var seen []uint64
	for item, err := range w.c.Watch(ctx, runID, from) {
		if err != nil {
			t.Errorf("watch from %d: after %d events: %v", from, len(seen), err)
			return seen
		}
		seen = append(seen, item.Event.Sequence)
		if item.State.Sequence != item.Event.Sequence {
			t.Errorf("event %d comes with state %d", item.Event.Sequence, item.State.Sequence)
		}
		each(item)
	}
	return seen
}

// away is a journal that no one answers for some reads. over is closed with the last of them.
type away struct {
	kernel.Journal
	reads atomic.Int64
	over  chan struct{}
}

func (a *away) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	if n := a.reads.Add(1); n > 1 && n < 4 {
		if n == 3 {
			close(a.over)
		}
		return nil, false, fmt.Errorf("read run %s: %w", id, jet.ErrUnanswered)
	}
	return a.Journal.Read(ctx, id, after)
}

func TestWatchAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("OBS-15 a watcher outlives a station that starts again", func(t *testing.T) {
		t.Parallel()
		w := w.on(t)
		ctx := within(t)
		last := w.say("r", runtest.Created(), runtest.Started())
		var log *away
		c := client.Through(w.c, func(j kernel.Journal) kernel.Journal { log = &away{Journal: j, over: make(chan struct{})}; return log })
		n := 0
		for item, err := range c.Watch(ctx, "r", 0) {
			if err != nil {
				t.Fatalf("after %d events and %d reads: %v", n, log.reads.Load(), err)
			}
			if n++; item.State.Status.Ended() || log.reads.Load() > 3 {
				break
			}
			if n == 2 { // what is behind this is read when the station answers again
				go func() {
					<-log.over
					w.say("r", runtest.Failed(last, "over", "over"))
				}()
			}
		}
		if n != 3 || log.reads.Load() < 3 {
			t.Errorf("%d events after %d reads, want 3 events, and reads that no one answered", n, log.reads.Load())
		}
	})
	t.Run("CLI-1 a station that was never there is an error at once", func(t *testing.T) {
		t.Parallel()
		var log *away
		c := client.Through(w.c, func(j kernel.Journal) kernel.Journal {
			log = &away{Journal: j, over: make(chan struct{})}
			log.reads.Store(1)
			return log
		})
		for _, err := range c.Watch(within(t), "none", 0) {
			if !errors.Is(err, jet.ErrUnanswered) {
				t.Errorf("got %v, want that no one answers", err)
			}
		}
	})
}

func whole(t *testing.T, seen []uint64, from, to uint64) {
	t.Helper()
	for i, n := range seen {
		if n != from+uint64(i) {
			t.Fatalf("event %d where %d is due", n, from+uint64(i))
		}
	}
	if uint64(len(seen)) != to-from+1 {
		t.Errorf("%d events, want %d to %d", len(seen), from, to)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("OBS-15 watchers that come before, in the middle, late and slowly all see every event once", func(t *testing.T) {
		w := w.on(t)
		ctx := within(t)
		const rounds = 200 // 2 events each: more than a watcher's backlog
		all := make(chan struct{})
		var watchers sync.WaitGroup
		results := make([][]uint64, 5)
		watch := func(i int, from uint64, each func(client.Item)) {
			watchers.Go(func() { results[i] = collect(t, ctx, w, "busy", from, each) })
		}
		quick := func(client.Item) {}
		watch(0, 0, quick)
		watch(1, 0, func(item client.Item) {
			if item.Event.Sequence == 3 {
				<-all // it looks away until everything was said
			}
		})
		w.begin("busy")
		watch(2, 0, quick)
		w.rounds("busy", 1, rounds)
		watch(3, 100, quick)
		s := w.say("busy", runtest.Turn(rounds+1, "build", "done"), runtest.StepDone("build", "done"), runtest.PlanDone(1))
		last := w.say("busy", runtest.Completed(s)).Sequence
		close(all)
		watch(4, last, quick)
		watchers.Wait()
		for i, from := range []uint64{1, 1, 1, 100, last} {
			whole(t, results[i], from, last)
		}
	})
	t.Run("OBS-15 what comes on the stream and does not fit the log is not seen", func(t *testing.T) {
		w := w.on(t)
		ctx := within(t)
		w.begin("forged")
		n := 0
		for item, err := range w.c.Watch(ctx, "forged", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 5 {
				b := runtest.New("test", "forged")
				b.Append(runtest.Created(), runtest.Started())
				fake := b.Bad(runtest.Paused("forged"), func(f *events.Event) { f.Sequence = 6 })
				w.forge("forged", fake)
				w.say("forged", runtest.Turn(1, "build", "real"))
			}
			if item.Payload.Kind() == events.RunPaused {
				t.Error("the forged event was seen")
			}
			if n == 6 {
				break
			}
		}
	})
	t.Run("OBS-2 the end of the context ends a watch with its cause, and leaving the loop with nothing", func(t *testing.T) {
		w := w.on(t)
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(within(t))
		cancel(stop)
		var got error
		for _, err := range w.c.Watch(ctx, "nobody", 0) {
			got = err
		}
		if !errors.Is(got, stop) && !errors.Is(got, context.Canceled) {
			t.Errorf("error %v", got)
		}
		for _, err := range w.c.Watch(within(t), "not an id", 0) {
			got = err
		}
		if _, ok := errors.AsType[*events.IDError](got); !ok {
			t.Errorf("error %v", got)
		}
	})
	t.Run("LIFE-9 LIFE-15 a state is read from outside; a run that does not exist is not found", func(t *testing.T) {
		w := w.on(t)
		s, err := w.c.State(within(t), "busy")
		if err != nil || s.Status != events.Completed || s.Turns().Len() != 201 {
			t.Errorf("%v, %s, %d turns", err, s.Status, s.Turns().Len())
		}
		if _, err := w.c.State(within(t), "nobody"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("error %v", err)
		}
		for range w.c.Events(within(t), "nobody", 0) {
			t.Error("an event of no one")
		}
	})
}

func TestLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := within(t)
	for i := range 70 { // more than are fetched side by side
		created := runtest.Created()
		created.Agent = fmt.Sprintf("agent-%d", i%2)
		w.index(w.say(fmt.Sprintf("r%d", i), created))
	}
	w.begin("gated")
	call := runtest.Asked(1, 1, "bash", `{}`)
	w.index(w.say("gated", runtest.Turn(1, "build", "", call), runtest.GateAt("g-1", "build", "c1-1")))
	t.Run("LIFE-8 runs come with their figures, the newest first", func(t *testing.T) {
		w := w.on(t)
		infos, err := w.c.Runs().List(ctx)
		if err != nil || len(infos) != 71 {
			t.Fatalf("%d runs, %v", len(infos), err)
		}
		if infos[0].HarnessID != "gated" || infos[70].HarnessID != "r0" {
			t.Errorf("from %s to %s", infos[0].HarnessID, infos[70].HarnessID)
		}
	})
	t.Run("GATE-14 gates come with run, step and waiting time", func(t *testing.T) {
		w := w.on(t)
		gates, err := w.c.Gates().List(ctx)
		if err != nil || len(gates) != 1 || gates[0].Gate.ID != "g-1" || gates[0].Gate.CallID != "c1-1" || gates[0].Run.HarnessID != "gated" || gates[0].Gate.CreatedAt.IsZero() {
			t.Errorf("%+v, %v", gates, err)
		}
	})
	t.Run("LIFE-9 a run is found by id, also before the index has it, or definitely not", func(t *testing.T) {
		w := w.on(t)
		if i, err := w.c.Runs().Get(ctx, "r7"); err != nil || i.AgentName != "agent-1" {
			t.Errorf("%+v %v", i, err)
		}
		w.say("young", runtest.Created())
		if i, err := w.c.Runs().Get(ctx, "young"); err != nil || i.Status != events.Created {
			t.Errorf("%+v %v", i, err)
		}
		if _, err := w.c.Runs().Get(ctx, "nobody"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("TOOL-9 objects come back by their reference", func(t *testing.T) {
		w := w.on(t)
		ref, err := w.st.Blobs().Put(ctx, "output", []byte("large"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := w.c.Object(ctx, ref); err != nil || string(b) != "large" {
			t.Errorf("%q %v", b, err)
		}
		ref.SHA256 = strings.Repeat("0", 64)
		if _, err := w.c.Object(ctx, ref); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("LIFE-8 a damaged row is an error that names it", func(t *testing.T) {
		w := w.on(t)
		if err := w.st.KV(topology.StateBucket).Put(ctx, "run.bad", []byte("{")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.c.Runs().List(ctx); err == nil || !strings.Contains(err.Error(), "run.bad") {
			t.Errorf("error %v", err)
		}
	})
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(events.Planner, func(ctx context.Context, m kernel.Message) {
		if strings.Contains(m.Subject(), ".evt.") { // planners hear of runs, too
			if err := m.Ack(ctx); err != nil {
				t.Errorf("hear: %v", err)
			}
			return
		}
		env, body, err := ce.Open(m.Data(), m.Header)
		var task events.Task
		if err == nil {
			err = ce.Strict(body, &task)
		}
		switch {
		case err != nil, env.ID != task.ID, env.Type != client.TaskType, env.Source != client.Source:
			t.Errorf("task %s: %v, %+v", m.Data(), err, env)
		case task.Agent == "nobody":
			err = w.st.Refusals().Refuse(ctx, events.Planner, kernel.DeadLetter{Subject: m.Subject(), Seq: m.Seq(), Code: "unknown_agent", Reason: "no such agent", Hint: "use worker",
				Data: string(m.Data()), Token: m.Header("Inspan-Token")})
		case task.Agent == "worker":
			w.say(task.ID, runtest.Created())
		}
		if err != nil || m.Ack(ctx) != nil {
			t.Errorf("hear: %v", err)
		}
	})
	t.Run("DEPL-6 a task is a CloudEvent, and its run has its id", func(t *testing.T) {
		w := w.on(t)
		id, err := w.c.Start(within(t), events.Task{ID: "mine", Agent: "worker", Task: "x"})
		if err != nil || id != "mine" {
			t.Errorf("%q %v", id, err)
		}
		if id, err = w.c.Start(within(t), events.Task{Agent: "worker", Task: "x"}); err != nil || !events.ValidID(id) || id == "mine" {
			t.Errorf("%q %v", id, err)
		}
	})
	t.Run("DEPL-6 what the station refuses comes back to its sender, and is in the list", func(t *testing.T) {
		w := w.on(t)
		_, err := w.c.Start(within(t), events.Task{ID: "bad", Agent: "nobody", Task: "x"})
		r, ok := errors.AsType[*client.RefusedError](err)
		if !ok || r.Code != "unknown_agent" || r.Hint != "use worker" || !strings.Contains(err.Error(), "no such agent") {
			t.Fatalf("error %v", err)
		}
		letters, err := w.c.DeadLetters().List(within(t))
		for ctx := within(t); err == nil && len(letters) == 0 && ctx.Err() == nil; { // its sender is answered before it is stored
			letters, err = w.c.DeadLetters().List(ctx)
		}
		if err != nil || len(letters) != 1 || letters[0].By != events.Planner || letters[0].Token != "bad" || !strings.Contains(letters[0].Data, "nobody") {
			t.Errorf("%+v %v", letters, err)
		}
	})
	t.Run("DEPL-6 an earlier refusal of the same id is not taken for the answer", func(t *testing.T) {
		w := w.on(t)
		if _, err := w.c.Start(within(t), events.Task{ID: "twice", Agent: "nobody", Task: "x"}); err == nil {
			t.Fatal("it was not refused")
		}
		ctx, cancel := context.WithTimeout(within(t), 3*client.LookFirst)
		defer cancel()
		_, err := w.c.Start(ctx, events.Task{ID: "twice", Agent: "sleeper", Task: "x"})
		if _, ok := errors.AsType[*client.SilentError](err); !ok {
			t.Errorf("error %v, want a SilentError", err)
		}
	})
	t.Run("DEPL-6 silence is not taken for a failure", func(t *testing.T) {
		w := w.on(t)
		ctx, cancel := context.WithTimeout(within(t), client.LookFirst) // enough to publish on a busy machine
		defer cancel()
		_, err := w.c.Start(ctx, events.Task{ID: "later", Agent: "sleeper", Task: "x"})
		s, ok := errors.AsType[*client.SilentError](err)
		if !ok || s.Run != "later" || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "inspan doctor") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("DEPL-6 an id that cannot be one is refused before it is sent", func(t *testing.T) {
		w := w.on(t)
		if _, err := w.c.Dispatch(within(t), events.Task{ID: "a b", Agent: "worker", Task: "x"}); err == nil {
			t.Error("it was sent")
		}
	})
	t.Run("DEPL-6 a station that is not set up is an error that says so", func(t *testing.T) {
		w := w.on(t)
		c, err := operator.On(w.conn, "elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Dispatch(within(t), events.Task{Agent: "worker", Task: "x"}); err == nil || !strings.Contains(err.Error(), "is station elsewhere set up") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A gatekeeper that answers as the real one does: by the message's place in the input stream.
	w.serve(events.Gatekeeper, func(ctx context.Context, m kernel.Message) {
		p, ok := events.ParseRunSubject(m.Subject())
		if !ok || p.Rest[0] != "gate" {
			_ = m.Ack(ctx)
			return
		}
		var a events.Answer
		if err := json.Unmarshal(m.Data(), &a); err != nil {
			t.Error(err)
		}
		s, err := w.c.State(ctx, p.Run)
		if err != nil {
			t.Error(err)
		}
		g := s.Gate(p.Rest[1])
		if g == nil || g.Status != run.GatePending {
			code := "unknown_gate"
			if g != nil {
				code = "gate_closed"
			}
			if err := w.st.Refusals().Refuse(ctx, events.Gatekeeper, kernel.DeadLetter{Run: p.Run, Code: code, Reason: "too late", Token: m.Header("Inspan-Token")}); err != nil {
				t.Error(err)
			}
			_ = m.Ack(ctx)
			return
		}
		var say events.Payload
		yes, no := runtest.Yes(g), runtest.No(g, a.Reason)
		yes.Input, yes.By, no.Input = m.Seq(), p.Rest[2], m.Seq()
		say = yes
		if a.Decision == "reject" {
			say = no
		}
		w.say(p.Run, say)
		if a.Decision == "reject" {
			w.say(p.Run, runtest.Paused("gate rejected"))
		}
		if err := m.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	gated := func(id string) {
		w.say(id, runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("build")), runtest.Ready("build"), runtest.GateAt("g-1", "build", ""))
	}
	t.Run("GATE-9 yes and no return when they are recorded", func(t *testing.T) {
		w := w.on(t)
		gated("yes")
		s, err := w.c.Gates().Approve(within(t), client.Decision{Run: "yes", Gate: "g-1", By: "anna"})
		if err != nil || s.Gate("g-1").Status != run.GateApproved || s.Gate("g-1").By != "anna" {
			t.Errorf("%v", err)
		}
		gated("no")
		s, err = w.c.Gates().Reject(within(t), client.Decision{Run: "no", Gate: "g-1", By: "anna", Reason: "not now"})
		if err != nil || s.Gate("g-1").Reason != "not now" || s.Status != events.Paused {
			t.Errorf("%s %v", s.Status, err)
		}
	})
	t.Run("GATE-9 of many answers at once one wins, and everybody is told which", func(t *testing.T) {
		w := w.on(t)
		gated("race")
		const people = 8
		var all sync.WaitGroup
		states, errs := make([]run.State, people), make([]error, people)
		for i := range people {
			all.Go(func() {
				d := client.Decision{Run: "race", Gate: "g-1", By: fmt.Sprintf("p%d", i)}
				if i%2 == 0 {
					states[i], errs[i] = w.c.Gates().Approve(within(t), d)
				} else {
					states[i], errs[i] = w.c.Gates().Reject(within(t), d)
				}
			})
		}
		all.Wait()
		final, err := w.c.State(within(t), "race")
		if err != nil {
			t.Fatal(err)
		}
		won := final.Gate("g-1").Status
		for i := range people {
			agrees := (won == run.GateApproved) == (i%2 == 0)
			r, refused := errors.AsType[*client.RefusedError](errs[i])
			if agrees != (errs[i] == nil) || !agrees && (!refused || r.Code != "gate_closed") {
				t.Errorf("gate %s, p%d got %v", won, i, errs[i])
			}
		}
	})
	t.Run("GATE-9 a gate that does not exist is refused; an approver must be an id", func(t *testing.T) {
		w := w.on(t)
		if _, err := w.c.Gates().Approve(within(t), client.Decision{Run: "yes", Gate: "g-2", By: "anna"}); err == nil {
			t.Error("approved")
		}
		for _, d := range []client.Decision{{Run: "a.b", Gate: "g"}, {Run: "yes", Gate: "*"}, {Run: "yes", Gate: "g-1", By: "a>b"}} {
			_, err := w.c.Gates().Approve(within(t), d)
			if _, ok := errors.AsType[*events.IDError](err); !ok {
				t.Errorf("%+v: %v", d, err)
			}
		}
	})
}

func TestRights(t *testing.T) {
	t.Parallel()
	server := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Users = []natsserver.User{{Name: "admin", Password: "x"}}
		for name, rights := range map[string][]topology.Right{"blind": {topology.MayDispatch}, "user": {topology.MayDispatch, topology.MayWatch}} {
			publish, subscribe := topology.UserPermissions("test", "", rights...)
			cfg.Users = append(cfg.Users, natsserver.User{Name: name, Password: "x", Publish: publish, Subscribe: subscribe})
		}
	})
	as := func(name string) *jet.Conn {
		return jettest.Connect(t, server, jet.Config{User: name, Password: secret.New("x")})
	}
	w := newWorldOn(t, as("admin"))
	w.serve(events.Planner, func(ctx context.Context, m kernel.Message) {
		d := kernel.DeadLetter{Subject: m.Subject(), Seq: m.Seq(), Code: "bad_input", Reason: "no", Token: m.Header("Inspan-Token")}
		if err := errors.Join(w.st.Refusals().Refuse(ctx, events.Planner, d), m.Ack(ctx)); err != nil {
			t.Error(err)
		}
	})
	on := func(t *testing.T, name string) *client.Client {
		c, err := operator.On(as(name), "test")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Run("DEPL-6 who may not listen for refusals finds them in the list", func(t *testing.T) {
		_, err := on(t, "user").Start(within(t), events.Task{Agent: "worker", Task: "x"})
		if r, ok := errors.AsType[*client.RefusedError](err); !ok || r.Code != "bad_input" {
			t.Errorf("error %v", err)
		}
	})
	t.Run("DEPL-6 who may dispatch and no more is told that it is stored", func(t *testing.T) {
		id, err := on(t, "blind").Start(within(t), events.Task{Agent: "worker", Task: "x"})
		if _, ok := errors.AsType[*client.SilentError](err); !ok || !errors.Is(err, client.ErrDenied) || id == "" {
			t.Errorf("%q, error %v", id, err)
		}
	})
}
