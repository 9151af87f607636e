package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/move"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// parked makes the store of a station with a run that waits at a gate and one that has ended in a session.
func parked(t *testing.T) string {
	t.Helper()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.start(events.Task{ID: "done", Agent: "loud", Task: "shout", Session: "desk"})
	p.await("done", "ended", ended)
	p.await("gated", "waiting", waiting)
	p.down()
	return filepath.Join(p.dir, "store")
}

// moving is a move between two stores whose services do not run.
type moving struct {
	t        *testing.T
	from, to *jet.Station
	source   *station.Station
	cfg      move.Config
	// stop is the step that the move ends before; steps are those that began.
	stop  move.Step
	steps []move.Step
	// at is called when a step begins.
	at func(move.Step)
}

var errStopped = errors.New("stopped here")

// still opens a store whose services do not run.
func still(t *testing.T, store string) (*station.Station, *jet.Station) {
	t.Helper()
	st, err := rise(t.Context(), station.Config{StoreDir: store, Station: "lab", Still: true, LazySync: true, Log: zerolog.Nop(), Base: base(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close(context.Background()) }) // some tests close it before
	conn, err := st.As(t.Context(), topology.UpgradeUser)
	if err != nil {
		t.Fatal(err)
	}
	s, err := conn.Station("lab")
	if err != nil {
		t.Fatal(err)
	}
	return st, s
}

func newMoving(t *testing.T, store string) *moving {
	t.Helper()
	m := &moving{t: t}
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	m.source, m.from = still(t, dir)
	m.cfg = move.Config{Station: "lab", Dir: t.TempDir(), NewKeys: true, By: "ada", Version: "test", Now: time.Now,
		From: move.Source{Name: "old", Station: m.from, Steer: move.Steer(m.from, "lab")}, Begin: m.begin}
	m.target(filepath.Join(t.TempDir(), "store"))
	return m
}

// target makes a store the target of the move.
func (m *moving) target(store string) {
	m.t.Helper()
	st, s := still(m.t, store)
	m.to = s
	m.cfg.To = move.Target{Name: "new", As: st.As, Fill: func(ctx context.Context, dir string) ([]string, error) {
		return station.Held(ctx, "lab", st.As, station.RestoreConfig{Dir: dir, NewKeys: true, By: "ada", Now: time.Now})
	}}
}

func (m *moving) begin(s move.Step) error {
	m.steps = append(m.steps, s)
	if m.at != nil {
		m.at(s)
	}
	m.once()
	if s == m.stop {
		return errStopped
	}
	return nil
}

// live reports whether the services of a place would work.
func (m *moving) live(st *jet.Station) bool {
	m.t.Helper()
	_, err := st.KV(topology.ConfigBucket).Get(m.t.Context(), topology.RestoreKey)
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		m.t.Fatal(err)
	}
	log, lerr := st.LogState(m.t.Context())
	if lerr != nil {
		m.t.Fatal(lerr)
	}
	return err != nil && log.Last > 0 && !m.halts(st).Halted
}

func (m *moving) halts(st *jet.Station) halt.State {
	m.t.Helper()
	l, err := halt.NewLedger(halt.LedgerConfig{Station: "lab", By: events.Planner, Journal: st.JournalFor(events.HaltAggregate), Entropy: rand.Reader})
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := l.Fresh(m.t.Context(), events.HaltID)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// once sees that the station is not live at both places.
func (m *moving) once() {
	m.t.Helper()
	if m.live(m.from) && m.live(m.to) {
		m.t.Errorf("after %v the station is live at both places", m.steps)
	}
}

// run moves and wants an error, or none.
func (m *moving) run(want error) move.Result {
	m.t.Helper()
	r, err := move.Run(m.t.Context(), m.cfg)
	if !errors.Is(err, want) || want == nil && err != nil {
		m.t.Fatalf("after %v: %v, want %v", m.steps, err, want)
	}
	m.once()
	return r
}

// moved sees that the station is live at the target alone, with the events that the source has.
func (m *moving) moved() {
	m.t.Helper()
	if m.live(m.from) || !m.live(m.to) {
		m.t.Errorf("live at the source: %t, at the target: %t", m.live(m.from), m.live(m.to))
	}
	if h := m.halts(m.from); h.MovedTo != "new" {
		m.t.Errorf("the source says that it moved to %q", h.MovedTo)
	}
	if h := m.halts(m.to); h.MovedTo != "" {
		m.t.Errorf("the target says that it moved to %q", h.MovedTo)
	}
	for _, id := range []string{"gated", "done"} {
		want, _, err := m.from.Journal().Last(m.t.Context(), id)
		got, _, err2 := m.to.Journal().Last(m.t.Context(), id)
		if err != nil || err2 != nil || string(got.Bytes) != string(want.Bytes) || len(want.Bytes) == 0 {
			m.t.Errorf("the last event of %s: %s, want %s, %v %v", id, got.Bytes, want.Bytes, err, err2)
		}
	}
	release := events.HaltControl{Action: events.ReleaseAction, Number: m.halts(m.from).Number, By: "ben"}
	no, refused := errors.AsType[*halt.Refused](m.cfg.From.Steer(m.t.Context(), release))
	if !refused || no.Code != halt.Moved || !strings.Contains(no.Error(), "moved to new") {
		m.t.Errorf("a release of the source: %v", no)
	}
}

func TestMoveSteps(t *testing.T) {
	t.Parallel()
	store := parked(t)
	for _, stop := range move.Steps() {
		t.Run("PLUS-18b a move that ends before this step goes on, and the station is live once: "+string(stop), func(t *testing.T) {
			t.Parallel()
			m := newMoving(t, store)
			m.stop = stop
			m.run(errStopped)
			m.run(errStopped) // and once more
			m.stop = ""
			if r := m.run(nil); !r.Released || r.Already || r.Runs != 2 || r.Open != 1 {
				t.Errorf("%+v", r)
			}
			m.moved()
			if r := m.run(nil); !r.Already {
				t.Errorf("a second move: %+v", r)
			}
			m.moved()
		})
		t.Run("PLUS-18b a move that ends before this step is taken back, and the source goes on: "+string(stop), func(t *testing.T) {
			t.Parallel()
			m := newMoving(t, store)
			m.stop = stop
			m.run(errStopped)
			for range 2 { // twice is once
				if _, err := move.Abort(t.Context(), m.cfg); err != nil {
					t.Fatal(err)
				}
				if !m.live(m.from) || m.live(m.to) || m.halts(m.from).MovedTo != "" {
					t.Errorf("live at the source: %t, at the target: %t", m.live(m.from), m.live(m.to))
				}
			}
			m.stop = ""
			if i := slices.Index(move.Steps(), stop); i > slices.Index(move.Steps(), move.StepRestore) {
				m.run(move.ErrAborted) // it has an older copy
				m.target(filepath.Join(t.TempDir(), "store"))
			}
			m.run(nil)
			m.moved()
			if _, err := move.Abort(t.Context(), m.cfg); !errors.Is(err, move.ErrReleased) {
				t.Errorf("taken back after the release: %v", err)
			}
			m.moved()
		})
	}
}

// append stores an event of a run at the source, as a service does that has not seen the halt.
func (m *moving) append() {
	m.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "lab", By: events.Planner, Journal: m.from.Journal(), Pages: runlog.NewPages(0), Entropy: rand.Reader})
	if err == nil {
		_, err = l.Write(m.t.Context(), "gated", func(s run.State, _ time.Time) ([]events.Payload, error) {
			return lifecycle.Move(s, false, false, "zombie"), nil
		})
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// put sends a task to the source.
func (m *moving) put(id string) {
	m.t.Helper()
	task := backup.Message{Subject: "station.lab.task", Data: fmt.Appendf(nil, `{"id":%q,"agent":"loud","task":"shout"}`, id)}
	if err := m.from.PutInput(m.t.Context(), task); err != nil {
		m.t.Fatal(err)
	}
}

// inputs counts the tasks that wait at the target.
func (m *moving) inputs() map[string]int {
	m.t.Helper()
	n := map[string]int{}
	for after := uint64(0); ; {
		in, ok, err := m.to.InAfter(m.t.Context(), after)
		if err != nil {
			m.t.Fatal(err)
		}
		if !ok {
			return n
		}
		n[string(in.Data)]++
		after = in.Seq
	}
}

func TestMoveRaces(t *testing.T) {
	t.Parallel()
	store := parked(t)
	t.Run("PLUS-18b a source that stores an event after its copy was taken is copied again", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.at = func(s move.Step) {
			if s == move.StepMark {
				m.at = nil
				m.append()
			}
		}
		m.run(nil)
		m.moved()
	})
	t.Run("PLUS-18b also one that does so while it is marked, whose mark is taken back for that", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		steer, marks := m.cfg.From.Steer, 0
		m.cfg.From.Steer = func(ctx context.Context, c events.HaltControl) error {
			if c.Action == events.MoveAction {
				if marks++; marks == 1 {
					m.append()
				}
			}
			return steer(ctx, c)
		}
		m.run(nil)
		m.moved()
		if marks != 2 {
			t.Errorf("it was marked %d times", marks)
		}
	})
	t.Run("PLUS-18b a second move at the same time is refused", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.at = func(s move.Step) {
			if _, err := move.Run(t.Context(), m.cfg); !errors.Is(err, disk.ErrLocked) {
				t.Errorf("at %s: %v", s, err)
			}
		}
		m.run(nil)
		m.moved()
		if len(m.steps) != len(move.Steps()) {
			t.Errorf("%v", m.steps)
		}
	})
	t.Run("PLUS-18b what takes a move back just before the release prevents it", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.at = func(s move.Step) {
			if s == move.StepRelease {
				if _, err := move.Abort(t.Context(), m.cfg); err != nil {
					t.Error(err)
				}
			}
		}
		m.run(move.ErrAborted)
		if !m.live(m.from) || m.live(m.to) {
			t.Errorf("live at the source: %t, at the target: %t", m.live(m.from), m.live(m.to))
		}
	})
	t.Run("PLUS-18b a target that was released and does not work yet is not taken back", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.stop = move.StepRelease
		m.run(errStopped)
		free := events.HaltControl{Action: events.ReleaseAction, Number: m.halts(m.to).Number, By: "ada"}
		if err := move.Steer(m.to, "lab")(t.Context(), free); err != nil {
			t.Fatal(err)
		}
		if _, err := move.Abort(t.Context(), m.cfg); !errors.Is(err, move.ErrReleased) {
			t.Errorf("%v", err)
		}
		m.stop = ""
		m.run(nil)
		m.moved()
	})
	t.Run("PLUS-18a what comes to the source meanwhile goes along once, also where the move ends in between", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.put("before")
		m.at = func(s move.Step) {
			switch s {
			case move.StepRestore:
				m.put("copied")
			case move.StepCarry:
				m.put("marked")
			case move.StepRelease:
				m.put("late-" + fmt.Sprint(len(m.steps)))
			}
		}
		m.stop = move.StepRelease
		m.run(errStopped)
		m.at, m.stop = nil, ""
		m.at = func(s move.Step) {
			if s == move.StepRelease {
				m.put("later")
			}
		}
		r := m.run(nil)
		if r.Late != 1 || r.Carried != 1 {
			t.Errorf("%+v", r)
		}
		all := m.inputs()
		if len(all) != 4 {
			t.Errorf("%v", all)
		}
		for task, n := range all {
			if n != 1 {
				t.Errorf("%s is there %d times", task, n)
			}
		}
	})
}

// limit bounds the log of the target, in bytes.
func (m *moving) limit(most int64) {
	m.t.Helper()
	conn, err := m.cfg.To.As(m.t.Context(), topology.UpgradeUser)
	if err == nil {
		err = conn.Setup().Apply(m.t.Context(), "lab", jet.ApplyOptions{Limits: topology.Limits{LogBytes: most}})
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// served has a place whose planner works as the target, and sees that it is refused.
func (m *moving) served() {
	m.t.Helper()
	st, there := still(m.t, filepath.Join(m.t.TempDir(), "store"))
	conn, err := st.As(m.t.Context(), events.Planner)
	if err != nil {
		m.t.Fatal(err)
	}
	own, err := conn.Station("lab")
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, end := context.WithCancel(m.t.Context())
	ended := make(chan error, 1) // it never waits for us
	go func() { ended <- own.Inbox().Listen(ctx, events.Planner, 1, func(context.Context, kernel.Message) {}) }()
	for role := events.Service(""); role == ""; {
		if role, err = there.Worked(ctx); err != nil {
			m.t.Fatal(err)
		}
	}
	m.cfg.To.As = st.As
	if _, err := move.Run(ctx, m.cfg); !errors.Is(err, move.ErrServed) {
		m.t.Errorf("to a place whose services run: %v", err)
	}
	end()
	<-ended
}

func TestMoveRefused(t *testing.T) {
	t.Parallel()
	store := parked(t)
	// untouched sees that the source goes on.
	untouched := func(t *testing.T, m *moving) {
		t.Helper()
		if len(m.steps) > 0 || !m.live(m.from) {
			t.Errorf("the source was stopped: %v", m.steps)
		}
	}
	t.Run("PLUS-18a a station that was halted for another reason stays halted at the target", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		stop := events.HaltControl{Action: events.HaltAction, By: "eve", Reason: "the wrong shop"}
		if err := m.cfg.From.Steer(t.Context(), stop); err != nil {
			t.Fatal(err)
		}
		if p, err := move.Look(t.Context(), m.cfg); err != nil || !p.Stays || p.State != "fresh" || p.Reason != "the wrong shop" {
			t.Errorf("%+v %v", p, err)
		}
		if r := m.run(nil); r.Released {
			t.Errorf("%+v", r)
		}
		h := m.halts(m.to)
		if _, err := m.to.KV(topology.ConfigBucket).Get(t.Context(), topology.RestoreKey); !errors.Is(err, kernel.ErrNotFound) || !h.Halted || h.MovedTo != "" || h.Reason != "the wrong shop" {
			t.Errorf("%v %+v", err, h)
		}
	})
	t.Run("PLUS-18a a target with other content, the source itself, and a place without room are refused before the source is halted", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.cfg.To.As = m.source.As
		if _, err := move.Run(t.Context(), m.cfg); !errors.Is(err, move.ErrSame) {
			t.Errorf("to itself: %v", err)
		}
		m.target(parked(t))
		if _, err := move.Run(t.Context(), m.cfg); !errors.Is(err, move.ErrOther) {
			t.Errorf("to a place with a station: %v", err)
		}
		m.served()
		server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Port: -1, MaxStore: 64 << 10, LazySync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		m.cfg.To.As = func(ctx context.Context, _ events.Service) (*jet.Conn, error) {
			c, err := jet.Connect(ctx, jet.Config{URL: server.URL()})
			if err == nil {
				t.Cleanup(c.Close)
			}
			return c, err
		}
		if _, err := move.Run(t.Context(), m.cfg); err == nil || !strings.Contains(err.Error(), "set the target up") {
			t.Errorf("to a place without room: %v", err)
		}
		m.cfg.NewKeys = false
		m.target(filepath.Join(t.TempDir(), "store"))
		if p, err := move.Look(t.Context(), m.cfg); err != nil || len(p.Keys) == 0 {
			t.Fatalf("%+v %v", p, err)
		}
		m.run(move.ErrKeys)
		untouched(t, m)
	})
	t.Run("PLUS-18b a target that fills up on the way leaves a source that is halted and a target that does nothing, and the same call goes on", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.limit(1 << 10)
		m.run(move.ErrRoom)
		if len(m.steps) > 0 || !m.live(m.from) {
			t.Errorf("the source was stopped: %v", m.steps)
		}
		m.limit(64 << 20)
		m.at = func(s move.Step) {
			if s == move.StepRestore {
				m.limit(4 << 10)
			}
		}
		_, err := move.Run(t.Context(), m.cfg)
		if err == nil || !strings.Contains(err.Error(), "fill the target") || m.live(m.from) || m.live(m.to) {
			t.Fatalf("%v, live at the source: %t, at the target: %t", err, m.live(m.from), m.live(m.to))
		}
		if s, err := m.to.LogState(t.Context()); err != nil || s.Last == 0 {
			t.Errorf("%+v %v: it did not fill up on the way", s, err)
		}
		m.at = nil
		m.limit(64 << 20)
		m.run(nil)
		m.moved()
	})
	t.Run("PLUS-18b a place that a run went on at, or that an earlier copy is at, is not filled further", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.stop = move.StepMark
		m.run(errStopped)
		release := events.HaltControl{Action: events.ReleaseAction, Number: m.halts(m.from).Number, By: "ben"}
		if err := m.cfg.From.Steer(t.Context(), release); err != nil {
			t.Fatal(err)
		}
		m.steps, m.stop = nil, ""
		m.run(move.ErrAborted)
		untouched(t, m)
	})
	t.Run("PLUS-18b without the source the target is not released, and a target that is gone leaves a source that says so", func(t *testing.T) {
		t.Parallel()
		m := newMoving(t, store)
		m.stop = move.StepRelease
		m.run(errStopped)
		m.stop = ""
		lost := *m
		lost.target(filepath.Join(t.TempDir(), "store"))
		_, err := move.Run(t.Context(), lost.cfg)
		if !errors.Is(err, move.ErrElsewhere) || !strings.Contains(err.Error(), "--although-moved") {
			t.Errorf("%v", err)
		}
		if err := m.source.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := move.Run(ctx, m.cfg); err == nil || m.live(m.to) {
			t.Errorf("%v, live: %t", err, m.live(m.to))
		}
	})
}
