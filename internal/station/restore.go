package station

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/core/checkpoint"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Errors of restores that a person decides about.
var (
	// ErrKeys means that the station had keys of its own, which are in no backup.
	ErrKeys = errors.New("the keys of the station are not in the backup")
)

// RestoreConfig says what an empty station is filled from.
type RestoreConfig struct {
	Dir string
	// Keys are those that the station had, by their names; NewKeys does without them.
	Keys    map[string][]byte
	NewKeys bool
	// GoOn lets the station work as soon as its services run; else it is halted, so that a person looks first.
	GoOn bool
	// Hold leaves the services of the station refusing to work: the caller deletes topology.RestoreKey.
	Hold bool
	// By is who restores.
	By       string
	Now      func() time.Time
	Progress backup.Progress
}

// Restored says what a restore did.
type Restored struct {
	backup.Manifest
	// Open runs that go on, and what was found when every run was audited.
	Going  int             `json:"runs_to_go_on"`
	Faults []rebuild.Fault `json:"faults"`
	// Unkeyed are runs with a call under way whose idempotency key is lost: it is not made again.
	Unkeyed []string      `json:"calls_not_made_again"`
	Halted  bool          `json:"halted"`
	Took    time.Duration `json:"took_ns"`
}

// CheckBackup reads the whole backup, compares every digest, and checks that it can be restored to a station of that
// name. It needs no server.
func CheckBackup(ctx context.Context, name string, cfg RestoreConfig) (backup.Manifest, error) {
	m, err := backup.Check(ctx, cfg.Dir, cfg.Progress)
	if err != nil {
		return m, err
	}
	if m.Station != name {
		return m, fmt.Errorf("%w: restore it with --station %s", backup.ErrOtherStation, m.Station)
	}
	for _, key := range m.Keys {
		if cfg.Keys[key] == nil && !cfg.NewKeys {
			return m, fmt.Errorf("%w: %s is missing: name the file that inspan backup --keys wrote, or do without it with --new-keys",
				ErrKeys, key)
		}
	}
	return m, nil
}

// Restore fills an empty station with a backup that CheckBackup has read, makes its views, sets the deadlines of its
// runs and audits each. Until it is done, the services of the station refuse to work. as connects as the upgrade user.
// Whoever connected closes the connections.
func Restore(ctx context.Context, name string, as func(ctx context.Context, user events.Service) (*jet.Conn, error),
	m backup.Manifest, cfg RestoreConfig) (Restored, error) {
	began := cfg.Now()
	r := Restored{Manifest: m, Faults: []rebuild.Fault{}, Unkeyed: []string{}}
	conn, err := as(ctx, topology.UpgradeUser)
	if err != nil {
		return r, fmt.Errorf("connect as %s: %w", topology.UpgradeUser, err)
	}
	if err := conn.Setup().Apply(ctx, name, jet.ApplyOptions{}); err != nil {
		return r, err
	}
	st, err := conn.Station(name)
	if err != nil {
		return r, err
	}
	if err := backup.Fill(ctx, st, cfg.Dir, m, cfg.Progress); err != nil {
		return r, err
	}
	for _, key := range m.Keys {
		if value := cfg.Keys[key]; value != nil {
			if err := st.KV(topology.ConfigBucket).Put(ctx, key, value); err != nil {
				return r, fmt.Errorf("put the key %s: %w", key, err)
			}
		}
	}
	f := &filled{st: st, cfg: cfg, r: &r}
	if err := f.finish(ctx, name, conn); err != nil {
		return r, err
	}
	if !cfg.Hold {
		if err := st.KV(topology.ConfigBucket).Delete(ctx, topology.RestoreKey); err != nil {
			return r, fmt.Errorf("note that the restore is done: %w", err)
		}
	}
	r.Took = cfg.Now().Sub(began)
	return r, nil
}

// Held fills a station with Restore and leaves its services doing nothing; it returns what the audit of its runs found.
func Held(ctx context.Context, name string, as func(ctx context.Context, user events.Service) (*jet.Conn, error),
	cfg RestoreConfig) (faults []string, err error) {
	cfg.Hold = true
	m, err := CheckBackup(ctx, name, cfg)
	if err != nil {
		return nil, err
	}
	r, err := Restore(ctx, name, as, m, cfg)
	for _, f := range r.Faults {
		faults = append(faults, "run "+f.Run+": "+f.Why)
	}
	return faults, err
}

// filled is a station that has all of its events.
type filled struct {
	st     *jet.Station
	cfg    RestoreConfig
	r      *Restored
	ledger *runlog.Ledger
}

func (f *filled) finish(ctx context.Context, name string, conn *jet.Conn) error {
	var err error
	if f.ledger, err = runlog.NewLedger(runlog.LedgerConfig{Station: name, By: events.Planner, Journal: f.st.Journal(),
		Pages: runlog.NewPages(0), Entropy: rand.Reader}); err != nil {
		return err
	}
	if !f.cfg.GoOn { // first: who is interrupted leaves a station that does nothing
		if err := f.halt(ctx, name); err != nil {
			return err
		}
	}
	runs, err := f.st.Logged(ctx)
	if err != nil {
		return err
	}
	for i, id := range runs {
		if err := f.settle(ctx, id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if f.cfg.Progress != nil {
			f.cfg.Progress("runs audited", uint64(i+1), uint64(len(runs))) //nolint:gosec // a count
		}
	}
	views, err := Views(ctx, name, func(context.Context, events.Service) (*jet.Conn, error) { return conn, nil })
	if err != nil {
		return err
	}
	rep, err := rebuild.All(ctx, views)
	if err != nil {
		return err
	}
	for _, fault := range rep.Faults {
		if !slices.ContainsFunc(f.r.Faults, func(of rebuild.Fault) bool { return of.Run == fault.Run }) {
			f.r.Faults = append(f.r.Faults, fault)
		}
	}
	if len(runs) != f.r.Runs {
		f.r.Faults = append(f.r.Faults, rebuild.Fault{Why: fmt.Sprintf("the station has %d runs, the backup %d", len(runs),
			f.r.Runs)})
	}
	return nil
}

// halt halts the station before anything of it runs, unless it was halted when the backup was taken.
func (f *filled) halt(ctx context.Context, name string) error {
	l, err := halt.NewLedger(halt.LedgerConfig{Station: name, By: events.Planner,
		Journal: f.st.JournalFor(events.HaltAggregate), Entropy: rand.Reader})
	if err != nil {
		return err
	}
	c := events.HaltControl{Action: events.HaltAction, By: cmp.Or(f.cfg.By, "unknown"),
		Reason: "restored from a backup of " + f.r.Cut.Format(time.RFC3339) + ": check what was done since"}
	_, err = l.Write(ctx, events.HaltID, func(s halt.State, now time.Time) ([]events.Payload, error) {
		next, err := halt.Steer(s, halt.Wish{HaltControl: c}, now)
		return next.Changes(), err
	})
	if _, already := errors.AsType[*halt.Refused](err); err != nil && !already {
		return fmt.Errorf("halt the restored station: %w", err)
	}
	f.r.Halted = true
	return nil
}

// settle audits a run and sets the timers that no event asks for, where it is open.
func (f *filled) settle(ctx context.Context, id string) error {
	a := audit.New(audit.Config{Run: id})
	for after, more := uint64(0), true; more; {
		var evs []kernel.Record
		var err error
		if evs, more, err = f.st.Journal().Read(ctx, id, after); err != nil {
			return err
		}
		for _, e := range evs {
			a.Event(ctx, e)
			after = e.Seq
		}
		more = more && len(evs) > 0
	}
	if rep := a.End(); !rep.Sound {
		f.r.Faults = append(f.r.Faults, rebuild.Fault{Run: id, Why: rep.First.Error()})
		return nil // its services hold it
	}
	s, _, err := f.ledger.State(ctx, id)
	if err != nil || s.Status.Ended() {
		return err
	}
	f.r.Going++
	if s, err = f.unkeyed(ctx, s); err != nil {
		return err
	}
	timers := f.st.Timers()
	if at, ok := checkpoint.Wake(s, f.cfg.Now()); ok {
		if err := timers.Set(ctx, id, "run.checkpoint", at, s.Sequence); err != nil {
			return err
		}
	}
	if at, ok := lifecycle.Deadline(s); ok {
		return timers.Set(ctx, id, "run.deadline", at, s.Sequence)
	}
	return nil
}

// unkeyed says of a run with a call under way whose idempotency key is lost that the run has moved: what began under
// the earlier key is not begun again under another.
func (f *filled) unkeyed(ctx context.Context, s run.State) (run.State, error) {
	if f.cfg.Keys[topology.StationKeyKey] != nil || !slices.Contains(f.r.Keys, topology.StationKeyKey) {
		return s, nil
	}
	for _, c := range s.Open {
		if c.Phase != run.CallStarted || c.Effect != "idempotent" {
			continue
		}
		f.r.Unkeyed = append(f.r.Unkeyed, s.HarnessID)
		w, err := f.ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			return lifecycle.Move(s, false, false, f.cfg.By), nil
		})
		return w.State, err
	}
	return s, nil
}
