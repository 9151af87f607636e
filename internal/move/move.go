// Package move moves a station to another place under its name: another server, cluster, account or folder.
//
// Promises: a station is live at one place at most. The log of the source is marked with where it went (halt.moved)
// before the target is released, and planners release no marked station by mistake. The target does nothing before that
// (topology.RestoreKey). What was done is read from the two places at each start and from no file, so whoever is
// interrupted calls again, from any machine, and a second move says that there is nothing left to do. Nothing of the
// source is deleted. Before the mark every event of the source is compared with the target. ADR 0089.
package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Errors of moves. Each says what to do next.
var (
	// ErrSame means that source and target are one station.
	ErrSame = errors.New("source and target are the same station: name another place")
	// ErrElsewhere means that the source has moved to another place than the target.
	ErrElsewhere = errors.New("the station has moved to another place")
	// ErrOther means that the target has a station of that name with other content.
	ErrOther = errors.New("the target has a station of this name already")
	// ErrServed means that services of the target run.
	ErrServed = errors.New("services of the target run")
	// ErrAborted means that a move to the target was taken back, or that this was begun.
	ErrAborted = errors.New("the move to this target was taken back")
	// ErrReleased means that the target works already, so that the move is not taken back.
	ErrReleased = errors.New("the target is released")
	// ErrDiffers means that the target does not have what the source has.
	ErrDiffers = errors.New("the target differs from the source")
	// ErrFaults means that the audit of the target has found something.
	ErrFaults = errors.New("the audit of the target has found faults")
	// ErrRoom means that the target cannot store what the source has.
	ErrRoom = errors.New("the target has too little room")
	// ErrKeys means that the station made keys for itself that are not given.
	ErrKeys = errors.New("the keys of the station are not given")
	// errStale means that the source went on after its copy was taken.
	errStale = errors.New("the source stored events after its copy was taken")
)

// Step is a part of a move that is done again when a move is called again after it was interrupted.
type Step string

// The steps, in order.
const (
	StepHalt    Step = "halt"
	StepBackup  Step = "backup"
	StepRestore Step = "restore"
	StepCompare Step = "compare"
	StepMark    Step = "mark"
	StepRoutes  Step = "routes"
	StepCarry   Step = "carry"
	StepRelease Step = "release"
)

// Steps returns all steps in order.
func Steps() []Step {
	return []Step{StepHalt, StepBackup, StepRestore, StepCompare, StepMark, StepRoutes, StepCarry, StepRelease}
}

// Source is the station that moves.
type Source struct {
	// Name says where it is, for people, and is shown at the target.
	Name    string
	Station *jet.Station
	// Steer carries out a control of the emergency stop and returns once it is recorded.
	Steer func(ctx context.Context, c events.HaltControl) error
}

// Target is where it goes.
type Target struct {
	// Name says where that is, for people; it is stored in the log of the source.
	Name string
	// As connects as a user: the upgrade user is used.
	As func(ctx context.Context, user events.Service) (*jet.Conn, error)
	// Fill fills it from the backup in a folder, audits every run, and leaves its services doing nothing, by
	// topology.RestoreKey. Called again it goes on. Looking and taking a move back do without it.
	Fill func(ctx context.Context, dir string) (faults []string, err error)
}

// Config of a move.
type Config struct {
	Station string
	From    Source
	To      Target
	// Dir is a folder of the move: the copy is put there.
	Dir string
	// Keys are those that the station made for itself, by their names, which Fill puts; NewKeys does without.
	Keys    map[string][]byte
	NewKeys bool
	// By is who moves it, Version that of the program.
	By, Version string
	Now         func() time.Time
	Progress    backup.Progress
	// Begin is called before each step; an error ends the move there. It may be nil.
	Begin func(Step) error
	// Reroute changes the routes of this person, or with back changes them back, and returns the projects; may be nil.
	Reroute func(back bool) ([]string, error)
}

// Result says what a move did.
type Result struct {
	Station string `json:"station"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Already says that the station had moved there before.
	Already bool `json:"already"`
	// Runs and Events were compared; Open runs have not ended.
	Runs   int    `json:"runs"`
	Open   int    `json:"open_runs"`
	Events uint64 `json:"events"`
	// Carried inputs came to the source after the copy was taken, and went to the target before it was released. Late
	// ones came after that, and are at the source.
	Carried int `json:"inputs_carried"`
	Late    int `json:"inputs_late"`
	// Released is false where the station was halted for another reason than the move: it stays halted.
	Released bool     `json:"released"`
	Projects []string `json:"projects,omitempty"`
	// Copy is the folder with the backup that was restored; empty where that was done before.
	Copy string        `json:"backup,omitempty"`
	Took time.Duration `json:"took_ns"`
}

// reason begins the reason of a halt that a move orders: such a halt ends with the move.
const reason = "the station moves to "

// maxCopies bounds how often the source is copied again because it went on.
const maxCopies = 3

// mover is one call.
type mover struct {
	Config
	to *jet.Station
	// setUp is of the connection to the target.
	setUp jet.Setup
	out   Result
}

// Run moves the station, or goes on with a move that was interrupted.
func Run(ctx context.Context, cfg Config) (Result, error) {
	began := cfg.Now()
	m, err := open(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	held, err := m.hold()
	if err != nil {
		return m.out, err
	}
	err = errors.Join(m.run(ctx), held.Close())
	m.out.Took = cfg.Now().Sub(began)
	return m.out, err
}

func open(ctx context.Context, cfg Config) (*mover, error) {
	m := &mover{Config: cfg, out: Result{Station: cfg.Station, From: cfg.From.Name, To: cfg.To.Name}}
	conn, err := cfg.To.As(ctx, topology.UpgradeUser)
	if err != nil {
		return nil, fmt.Errorf("connect to the target as %s, whom --users names on a server with users; an inspan up that runs lets no one in as that, so stop it and name its folder with --store: %w",
			topology.UpgradeUser, err)
	}
	m.setUp = conn.Setup()
	m.to, err = conn.Station(cfg.Station)
	return m, err
}

// hold keeps a second call on this machine away.
func (m *mover) hold() (*disk.Lock, error) {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of the move: %w", err)
	}
	held, err := disk.TakeLock(filepath.Join(m.Dir, "lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%s: %w: wait for the move that runs there, or stop it", m.Dir, err)
	}
	return held, err
}

func (m *mover) begin(s Step) error {
	if m.Begin == nil {
		return nil
	}
	return m.Begin(s)
}

func (m *mover) run(ctx context.Context) error {
	for range maxCopies {
		v, err := m.look(ctx)
		if err != nil {
			return err
		}
		p, err := v.phase()
		switch {
		case err != nil:
			return err
		case p == done:
			return m.finished(ctx, v)
		case p != marked:
			err = m.copy(ctx, v)
		}
		if err == nil {
			err = m.settle(ctx)
		}
		if !errors.Is(err, errStale) {
			return err
		}
	}
	return fmt.Errorf("%w, %d times: stop the services of the source, then call this again", errStale, maxCopies)
}

// copy brings the target to where the source is, and marks the source.
func (m *mover) copy(ctx context.Context, v view) error {
	if err := m.ready(ctx, v); err != nil {
		return err
	}
	if err := m.begin(StepHalt); err != nil {
		return err
	}
	h, err := m.halt(ctx)
	if err != nil {
		return err
	}
	if err := m.begin(StepBackup); err != nil {
		return err
	}
	dir, man, err := m.backup(ctx, v.source, h.Number)
	if err != nil {
		return err
	}
	m.out.Copy = dir
	if err := m.begin(StepRestore); err != nil {
		return err
	}
	if err := m.restore(ctx, dir, record{From: v.source, Halt: h.Number, In: man.In, Log: man.Log}); err != nil {
		return err
	}
	if err := m.begin(StepCompare); err != nil {
		return err
	}
	if err := m.compare(ctx, man.Log); err != nil {
		return err
	}
	if err := m.begin(StepMark); err != nil {
		return err
	}
	return m.mark(ctx, h.Number, man.Log)
}

// halt halts the source, and returns once its log does not grow.
func (m *mover) halt(ctx context.Context) (events.Halt, error) {
	h, err := halted(ctx, m.From.Station, m.Station)
	if err != nil {
		return h.Halt, err
	}
	if !h.Halted {
		ctl := events.HaltControl{Action: events.HaltAction, By: m.By, Reason: reason + m.To.Name}
		if err := m.From.Steer(ctx, ctl); err != nil {
			return h.Halt, fmt.Errorf("halt the source: %w", err)
		}
		if h, err = halted(ctx, m.From.Station, m.Station); err != nil {
			return h.Halt, err
		}
	}
	for last := uint64(0); ; {
		s, err := m.From.Station.LogState(ctx)
		if err != nil || s.Last == last {
			return h.Halt, err
		}
		last = s.Last
		if err := kernel.Sleep(ctx, quiet); err != nil {
			return h.Halt, err
		}
	}
}

// quiet is how long the log of a halted station has not grown before it is copied: longer than its services take to
// see the halt. What is stored later is found before the source is marked, and after.
const quiet = 1500 * time.Millisecond

// backup copies the source, or returns the copy of the same point that is there.
func (m *mover) backup(ctx context.Context, source string, halt int) (string, backup.Manifest, error) {
	name := strings.NewReplacer(":", "", ".", "-").Replace(source)
	dir := filepath.Join(m.Dir, fmt.Sprintf("backup-%s-%d", name, halt))
	log, err := m.From.Station.LogState(ctx)
	if err != nil {
		return dir, backup.Manifest{}, err
	}
	man, err := backup.ReadManifest(dir)
	switch {
	case err == nil && man.Station == m.Station && man.Log == log.Last:
		return dir, man, nil
	case !errors.Is(err, backup.ErrNoBackup): // an older one, or a damaged one
		if err := os.RemoveAll(dir); err != nil {
			return dir, man, fmt.Errorf("remove the older copy: %w", err)
		}
	}
	man, err = backup.Take(ctx, backup.TakeConfig{Source: m.From.Station, Station: m.Station, Dir: dir, Version: m.Version,
		Now: m.Now, Progress: m.Progress})
	return dir, man, err
}

// restore fills the target, which does nothing then, and audits every run.
func (m *mover) restore(ctx context.Context, dir string, rec record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := m.to.KV(topology.ConfigBucket).Put(ctx, topology.MoveKey, b); err != nil {
		return fmt.Errorf("note at the target what is copied: %w", err)
	}
	faults, err := m.To.Fill(ctx, dir)
	if err != nil {
		return fmt.Errorf("fill the target: %w", err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %d, the first is %s; inspan audit --all shows those of the source", ErrFaults, len(faults),
			faults[0])
	}
	return nil
}

// mark marks the source, whose log must be where the copy ends.
func (m *mover) mark(ctx context.Context, halt int, log uint64) error {
	s, err := m.From.Station.LogState(ctx)
	if err != nil {
		return err
	}
	if s.Last != log {
		return errStale
	}
	place, err := m.to.Identity(ctx)
	if err != nil {
		return err
	}
	err = m.From.Steer(ctx, events.HaltControl{Action: events.MoveAction, Number: halt, By: m.By, To: m.To.Name,
		Place: place})
	if err != nil {
		return fmt.Errorf("mark the source as moved: %w", err)
	}
	return nil
}

// settle does what follows the mark, up to the release.
func (m *mover) settle(ctx context.Context) error {
	v, err := m.look(ctx)
	if err != nil {
		return err
	}
	if v.rec == nil {
		return fmt.Errorf("the source is marked as moved, and the target does not know of the move: take it back with --abort")
	}
	if err := m.still(ctx, v); err != nil {
		return err
	}
	if m.out.Events == 0 { // an earlier call has compared them
		if err := m.compare(ctx, v.rec.Log); err != nil {
			return err
		}
	}
	if err := m.begin(StepRoutes); err != nil {
		return err
	}
	if m.Reroute != nil {
		if m.out.Projects, err = m.Reroute(false); err != nil {
			return fmt.Errorf("routes of projects: %w", err)
		}
	}
	if err := m.begin(StepCarry); err != nil {
		return err
	}
	carried, err := m.carry(ctx, v.rec.In)
	if err != nil {
		return err
	}
	if err := m.begin(StepRelease); err != nil {
		return err
	}
	return m.release(ctx, v, carried)
}
