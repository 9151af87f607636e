// Package demo shows the whole system at work: a station in this process, a real repair of a real Go module by the
// agent "fixer", a gate before the commit, and what it all cost.
//
// Promises: only the model is scripted, and only as long as no other is named; the files, the tests, git, the gate and
// every event are real. Nothing outside of its own folder is touched. It needs the program and git: the examples are in
// the program. What the agent reports is not believed: the run has the acceptance checks of verify.go, and the demo
// succeeds only where they passed on the very commit that is on the branch.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/examples"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Options of the demo.
type Options struct {
	// Examples has agents/, scripts/ and testdata/invoice/; nil means those in the program.
	Examples fs.FS
	// Store is the folder to work in.
	Store string
	// Model replaces the scripted one, "anthropic/...", "openai/..." or "gemini/...".
	Model string
	// Sandbox is auto, bwrap or host.
	Sandbox string
	// Base is the configuration from the environment, for the model keys.
	Base service.Config
	Log  zerolog.Logger
	// Out takes the report; See is told of each event as it comes.
	Out io.Writer
	See func(f events.Event, p events.Payload, s run.State)
	// Approve answers a gate: true for yes; with no, reason says why.
	Approve func(ctx context.Context, g *events.GateOpenedData) (yes bool, reason string, err error)
}

const (
	runID   = "demo"
	session = "demo"
	task    = "Find out why the tests of this Go module fail and fix the cause. Then commit the fix."
)

// Errors of a demo that did not do its job.
var (
	// ErrNotDone means that the run did not complete.
	ErrNotDone = errors.New("the run did not complete")
	// ErrNotVerified means that the run completed and its result does not stand the demo's checks.
	ErrNotVerified = errors.New("the run completed, but the result is not there")
)

// Places in the examples.
const (
	agentsDir  = "agents"
	scriptsDir = "scripts"
	moduleDir  = "testdata/invoice"
)

// Run carries the demo out.
func Run(ctx context.Context, o Options) error {
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("the demo works in a git repository: install git: %w", err)
	}
	if o.Examples == nil {
		o.Examples = examples.Files
	}
	files := filepath.Join(o.Store, "examples")
	for _, dir := range []string{agentsDir, scriptsDir} {
		if err := unpack(o.Examples, dir, filepath.Join(files, dir)); err != nil {
			return err
		}
	}
	st, err := station.Up(ctx, station.Config{StoreDir: o.Store, AgentsDir: filepath.Join(files, agentsDir),
		ScriptsDir: filepath.Join(files, scriptsDir), Sandbox: o.Sandbox, Base: o.Base, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close(ctx) }() // its failures were seen by the run
	repo := filepath.Join(st.Workspace(), "session", session)
	if err := prepare(ctx, o.Examples, repo); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "Station %q: %s; tools run in %s.\nWorkspace: %s, a git repository of a Go module whose tests fail.\n\n", st.Name(), st.Durability(), st.SandboxMode(), repo)
	checks, err := accept(o.Examples)
	if err != nil {
		return err
	}
	begin := time.Now()
	s, err := follow(ctx, st, o, checks)
	if err != nil {
		return err
	}
	report(ctx, o.Out, s, st, repo, time.Since(begin))
	if s.Status != events.Completed {
		return fmt.Errorf("%w: it is %s (%s)", ErrNotDone, s.Status, whyEnded(s))
	}
	found, err := verify(ctx, s, repo)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.Out, found)
	return nil
}

// whyEnded is the reason that a run gives for not being complete.
func whyEnded(s run.State) string {
	switch {
	case s.Result != nil && s.Result.Error != "":
		return s.Result.Error
	case s.PauseReason != "":
		return s.PauseReason
	}
	return "no reason given"
}

// unpack copies one folder of the examples.
func unpack(from fs.FS, dir, to string) error {
	part, err := fs.Sub(from, dir)
	if err == nil {
		_, err = fs.Stat(part, ".")
	}
	if err != nil {
		return fmt.Errorf("the examples have no %s; leave --examples out for those in the program: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("folder of the demo: %w", err)
	}
	if err := os.CopyFS(to, part); err != nil {
		return fmt.Errorf("copy %s: %w", dir, err)
	}
	return nil
}

// branch that the agent works on.
const branch = "main"

// goMod makes a module of the files.
const goMod = "module example.com/invoice\n\ngo 1.21\n"

// prepare makes a git repository of the module.
func prepare(ctx context.Context, from fs.FS, repo string) error {
	if err := unpack(from, moduleDir, repo); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repo, "go.mod"), []byte(goMod), 0o644); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", branch}, {"config", "user.name", "Inspan demo"},
		{"config", "user.email", "demo@inspan.dev"},
		{"add", "-A"}, {"commit", "-q", "-m", "invoice: as found"}} {
		if out, err := git(ctx, repo, args...); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	// So that git status, typed by a person, says the same: the station keeps files of its own in the folder of a
	// session.
	ignored := strings.Join(gitwork.Own(), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(repo, ".git", "info", "exclude"), []byte(ignored), 0o644); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	return nil
}

func git(ctx context.Context, repo string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", repo, "-c", "commit.gpgsign=false"}, args...)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// plan of the demo: the fix, and the commit behind a gate.
var plan = &events.TaskPlan{Steps: []events.TaskStep{
	{ID: "fix", Description: "Find the cause of the failing tests, fix it and prove it."},
	{ID: "commit", Description: "Commit the fix with a message that says what was wrong.", Needs: []string{"fix"},
		Critical: true},
}}

// follow dispatches the task, tells of every event in order and answers gates, until the run ends or pauses.
func follow(ctx context.Context, st *station.Station, o Options, checks *events.Accept) (run.State, error) {
	js, err := st.Conn().Station(st.Name())
	if err != nil {
		return run.State{}, err
	}
	news := make(chan struct{}, 1) // one is enough: it only says "read on"
	stop, err := js.Watch(ctx, runID, false, func(jet.Seen) {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return run.State{}, err
	}
	defer stop()
	level, no := 3, false
	body, err := json.Marshal(events.Task{ID: runID, Agent: "fixer", Task: task, Plan: plan, Autonomy: &level,
		Session: session, Model: o.Model, Accept: checks,
		Git: &events.TaskGit{GitSettings: events.GitSettings{AutoBranch: &no, AutoCommit: &no}}}) // the agent commits
	if err != nil {
		return run.State{}, fmt.Errorf("encode the task: %w", err)
	}
	if err := js.Publish(ctx, events.TaskSubject(st.Name()), body, nil); err != nil {
		return run.State{}, err
	}
	var s run.State
	var head uint64
	for {
		evs, _, err := js.Journal().Read(ctx, runID, head)
		if err != nil {
			return s, fmt.Errorf("read the run: %w", err)
		}
		for _, r := range evs {
			if s, err = apply(ctx, s, r.Bytes, js, o); err != nil {
				return s, err
			}
			head = r.Seq
		}
		if s.Status.Ended() || s.Status == events.Paused {
			return s, nil
		}
		if len(evs) > 0 {
			continue
		}
		select {
		case <-news:
		case <-time.After(time.Second): // a hint may be lost
		case err := <-st.Failed():
			return s, err
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

// apply folds one event, shows it and answers the gate it opens.
func apply(ctx context.Context, s run.State, stored []byte, js *jet.Station, o Options) (run.State, error) {
	next, err := s.Apply(stored)
	if err != nil {
		return s, err
	}
	f, err := events.Decode(stored)
	if err != nil {
		return s, err
	}
	p, err := f.Payload()
	if err != nil {
		return s, err
	}
	o.See(f, p, next)
	g, ok := p.(*events.GateOpenedData)
	if !ok {
		return next, nil
	}
	yes, reason, err := o.Approve(ctx, g)
	if err != nil {
		return next, err
	}
	answer := events.Answer{Decision: "approve", By: "demo", ProposalHash: g.ProposalHash}
	if !yes {
		answer.Decision, answer.Reason = "reject", reason
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return next, fmt.Errorf("encode the answer: %w", err)
	}
	return next, js.Publish(ctx, g.AnswerSubject, body, nil)
}
