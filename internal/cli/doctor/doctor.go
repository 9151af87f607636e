// Package doctor has inspan doctor: it tries what this machine and the station can do, and says what is missing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/internal/cli/space"
	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/helper"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// doctorCommand is inspan doctor.
type doctorCommand struct {
	App     *app.App
	noModel bool
	role    string
}

// Command makes inspan doctor.
func Command(a *app.App) *cobra.Command {
	c := &doctorCommand{App: a}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try what this machine and the station can do, and say what is missing",
		Long: `Looks for the programs that agents need and tries the rest: a git commit in the sandbox that agents get, a file in the
store and the room there, the port, and one short question to each provider of models that has a key or an address; it costs a
few tokens, and --no-model leaves it out. No key is printed. It leaves nothing behind.

Where a NATS server is named (--server, --creds, --context), it also compares the server and these credentials with what a station needs:
version, JetStream, accounts, limits, clock, and with --role the rights of one user.

Exit code 1: something that agents need does not work, or the station has lost something that it had stored. 0: all of it does, and what is marked miss is not needed.`,
		Example: "  inspan doctor\n  inspan doctor --no-model\n  inspan doctor --json\n" +
			"  inspan doctor --server tls://nats.example:4222 --creds nats/creds/planner.creds --role planner", Args: app.Args(0),
		RunE: c.run,
	}
	cmd.Flags().BoolVar(&c.noModel, "no-model", false, "ask no model")
	cmd.Flags().StringVar(&c.role, "role", "", "the user whose rights these credentials should have: "+
		strings.Join(topology.AllUsers(), ", "))
	return cmd
}

func (a *doctorCommand) run(cmd *cobra.Command, _ []string) error {
	if a.role != "" && !slices.Contains(topology.AllUsers(), a.role) {
		return app.Usage("--role is %q, want one of %s", a.role, strings.Join(topology.AllUsers(), ", "))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), doctorWait)
	defer cancel()
	found := slices.Concat(machine(ctx), optIn(ctx, a.App), requirements(ctx, a.App), tryAll(ctx, a.App, !a.noModel),
		stationFindings(ctx, a.App, a.role))
	if a.App.JSON {
		return errors.Join(a.App.PrintJSON(found), unmet(found))
	}
	Print(a.App, found)
	return unmet(found)
}

// Finding is one line of the doctor.
type Finding struct {
	What  string `json:"what"`
	OK    bool   `json:"ok"`
	State string `json:"state"`
	// Needed is true for what agents cannot do without: where it is not ok, the doctor ends with 1.
	Needed bool `json:"needed,omitempty"`
	// Hint says what to do where it is not ok.
	Hint string `json:"hint,omitempty"`
	// Walls are what a sandbox enforces on this machine.
	Isolation []sandbox.Capability `json:"walls,omitempty"`
}

// doctorWait bounds all that the doctor does.
const doctorWait = 2 * time.Minute

// unmet is an error where something that is needed does not work.
func unmet(found []Finding) error {
	var bad []string
	for _, f := range found {
		if f.Needed && !f.OK {
			bad = append(bad, f.What)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return app.Exit(app.ExitFailed, fmt.Errorf("agents need what does not work here: %s", strings.Join(bad, ", ")))
}

// textAt is the column that texts begin at; on a terminal of fewer than narrow columns they begin on a line of their
// own, at narrowAt.
const (
	textAt   = 25
	narrowAt = 6
	narrow   = 60
)

// Print prints what was found, a line for each.
func Print(a *app.App, found []Finding) {
	p, at := a.Paint(), textAt
	if width, _ := a.Term.Size(); a.Term.TTY && width < narrow {
		at = narrowAt
	}
	for _, f := range found {
		mark := p.Green("ok  ")
		switch {
		case !f.OK && f.Needed:
			mark = p.Red("FAIL")
		case !f.OK:
			mark = p.Yellow("miss")
		}
		state := strings.Split(strings.TrimRight(a.Wrapped(f.State, at), "\n"), "\n")
		if at == narrowAt {
			fmt.Fprintf(a.Out, "%s  %s\n%*s%s\n", mark, f.What, at, "", state[0])
		} else {
			fmt.Fprintf(a.Out, "%s  %-18s %s\n", mark, f.What, state[0])
		}
		for _, line := range state[1:] {
			fmt.Fprintf(a.Out, "%*s%s\n", at, "", line)
		}
		if f.Hint != "" && !f.OK {
			for line := range strings.Lines(a.Wrapped(f.Hint, at)) {
				fmt.Fprintf(a.Out, "%*s%s\n", at, "", p.Dim(strings.TrimSuffix(line, "\n")))
			}
		}
		for _, said := range isolation(f.Isolation) {
			for line := range strings.Lines(a.Wrapped(said, at)) {
				fmt.Fprintf(a.Out, "%*s%s\n", at, "", p.Dim(strings.TrimSuffix(line, "\n")))
			}
		}
	}
}

// isolation says what a sandbox enforces, and for each wall that it does not, why.
func isolation(has []sandbox.Capability) []string {
	var yes, said []string
	for _, c := range has {
		if c.Enforced {
			yes = append(yes, string(c.Isolation))
		}
	}
	if len(yes) > 0 {
		said = append(said, "enforces "+strings.Join(yes, ", "))
	}
	no := map[string][]string{}
	var order []string
	for _, c := range has {
		if !c.Enforced {
			if no[c.Why] == nil {
				order = append(order, c.Why)
			}
			no[c.Why] = append(no[c.Why], string(c.Isolation))
		}
	}
	for _, why := range order {
		said = append(said, "not "+strings.Join(no[why], ", ")+": "+why)
	}
	return said
}

func machine(ctx context.Context) []Finding {
	found := []Finding{{What: "inspan", OK: true, State: service.Version() + ", " + runtime.Version() + " " +
		runtime.GOOS + "/" + runtime.GOARCH}}
	for _, p := range []struct{ name, arg, hint string }{
		{"git", "--version", "the git tools and the demo need it: install git"},
		{"bash", "--version", "the tool bash needs it: install bash"},
		{"go", "version", "agents that write Go need it"},
	} {
		out, err := exec.CommandContext(ctx, p.name, p.arg).Output()
		first, _, _ := strings.Cut(string(out), "\n")
		found = append(found, Finding{What: p.name, OK: err == nil, State: cmp.Or(first, "not found"), Hint: p.hint,
			Needed: p.name != "go"})
	}
	found = append(found, helperFinding(), gitIsolation(ctx))
	set := backends.Local("")
	for _, mode := range []sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host} {
		b, err := set.Pick(ctx, mode)
		found = append(found, sandboxFinding(mode, b, err))
	}
	return found
}

// helperFinding reports what sandboxes start in the place of this program.
func helperFinding() Finding {
	path, err := helper.Installed()
	if err != nil {
		return Finding{What: "sandbox helper",
			State: "this program itself, which makes each command in a sandbox start tens of milliseconds later",
			Hint:  err.Error() + " (put " + helper.Name + " of the same build beside it: make build makes both)"}
	}
	return Finding{What: "sandbox helper", OK: true, State: path}
}

// gitIsolation reports whether git, which works outside of sandboxes, stays in a tree that commands change meanwhile.
func gitIsolation(ctx context.Context) Finding {
	if _, err := wall.Find(ctx, ""); err != nil {
		return Finding{What: "git walls", State: "none: a command can lead git out of its workspace",
			Hint: err.Error() + " (see Git and the commands beside it in docs/git.md)"}
	}
	return Finding{What: "git walls", OK: true, State: "links that come while git works are not followed"}
}

func sandboxFinding(mode sandbox.Mode, b sandbox.Backend, err error) Finding {
	f := Finding{What: "sandbox " + string(mode), OK: err == nil, State: "works"}
	if err != nil {
		f.State, f.Hint = "does not work", err.Error()
	} else {
		f.Isolation = b.Capabilities()
	}
	return f
}

// reachFinding reports whether the commands of this machine's own sandboxes could answer the gates of their own run.
func reachFinding(ctx context.Context, cfg service.Config) Finding {
	f := Finding{What: "gates", OK: true,
		State: "commands of sandboxes cannot connect to the station, also with an open network"}
	b, err := backends.Local("").Choose(ctx, backends.Policy{Mode: sandbox.Mode(cfg.Sandbox),
		Backend: sandbox.Mode(cfg.SandboxBackend), Min: sandbox.Mode(cfg.SandboxMin)})
	if err != nil { // it is reported for the sandbox itself, or the mode is one by name
		return f
	}
	if said := all.Toolrunner(cfg).Reaches(b.Mode()); said != "" {
		f.OK, f.State, f.Hint = false, "commands of sandboxes may reach the station", said
	} else if cfg.OnlySigned {
		f.State = "only signed answers are accepted"
	}
	return f
}

// optIn looks at the sandboxes that the settings name besides those of every machine.
func optIn(ctx context.Context, a *app.App) []Finding {
	cfg, err := a.Config()
	if err != nil {
		return []Finding{{What: "settings", State: "wrong", Hint: err.Error()}}
	}
	found := []Finding{reachFinding(ctx, cfg)}
	for _, b := range all.Toolrunner(cfg).OptIn() {
		found = append(found, sandboxFinding(b.Mode(), b, b.Probe(ctx)))
	}
	return found
}

func stationFindings(ctx context.Context, a *app.App, role string) []Finding {
	if a.NamesServer() && !a.Local && app.Listens(ctx, a.Server) == nil {
		found := serverFindings(ctx, a, role)
		if isService(role) || len(found) == 1 { // no client of the station, or no server that answers
			return found
		}
		return append(found, clientFindings(ctx, a)...)
	}
	return clientFindings(ctx, a)
}

func clientFindings(ctx context.Context, a *app.App) []Finding {
	c, err := a.Connect(ctx)
	if err != nil {
		return []Finding{{What: "station", State: "not reachable at " + a.Address(), Hint: "start one with: inspan up"}}
	}
	defer c.Close()
	h, err := c.Health(ctx)
	if err != nil {
		return []Finding{{What: "station", State: "no answer", Hint: err.Error()}}
	}
	found := []Finding{{What: "station", OK: true, State: c.Station() + " at " + a.Address() + ", nats-server " +
		h.ServerVersion},
		{What: "durability", OK: h.SyncAlways, State: h.Durability,
			Hint: "set jetstream { sync_interval: always } on the server: a power cut loses what was acknowledged last"}}
	store, start := lossFinding(ctx, c), "start one: its work waits until then"
	if found = append(found, store); !store.OK {
		start = "a station whose store is damaged takes no work"
	}
	found = append(found, spaceFindings(ctx, c)...)
	if h, err := client.NewHalts(c).Get(ctx); err == nil && h.Halted {
		found = append(found, Finding{What: "work", State: halts.Line(h, time.Now()), Hint: halts.Hint(h)})
		start = "start one, and release the station"
	}
	for _, role := range topology.AllSubscriptions() {
		n := h.Services[string(role.Role)]
		found = append(found, Finding{What: string(role.Role), OK: n > 0, State: fmt.Sprintf("%d running", n), Hint: start})
	}
	return append(found, agentFindings(ctx, c)...)
}

// lossFinding reports what the station has lost, as far as it knows, and whether its log is whole now.
func lossFinding(ctx context.Context, c *client.Client) Finding {
	f := Finding{What: "streams", Hint: "the station takes no work: see The store is damaged in docs/runbook.md"}
	status, err := operator.Damage(ctx, c)
	switch {
	case err != nil:
		f.State, f.Hint = "unknown", err.Error()
	case len(status.Lost) > 0:
		f.Needed, f.State = true, "DAMAGED, loss "+cmp.Or(status.ID, "not recorded yet")+": "+strings.Join(status.Lost, "; ")
	default:
		f.OK, f.State = true, "nothing is missing"
		if len(status.Notes) > 0 {
			f.State += "; since the start " + strings.Join(status.Notes, "; ")
		}
	}
	return f
}

// spaceFindings are the streams that are full, or soon will be.
func spaceFindings(ctx context.Context, c *client.Client) (found []Finding) {
	all, err := client.SpaceOf(ctx, c)
	if err != nil {
		return []Finding{{What: "space", State: "unknown", Hint: err.Error()}}
	}
	for _, s := range all {
		if s.Warns() {
			found = append(found, Finding{What: "space", State: space.Warning(s),
				Hint: "raise its limit or give its work to another station: The log is full in docs/runbook.md"})
		}
	}
	return found
}

func agentFindings(ctx context.Context, c *client.Client) []Finding {
	agents, err := c.Agents(ctx)
	if err != nil {
		return []Finding{{What: "agents", State: "unknown", Hint: err.Error()}}
	}
	var names []string
	for _, g := range agents {
		names = append(names, g.Name+" ("+g.Model+")")
	}
	return []Finding{{What: "agents", OK: len(names) > 0, State: cmp.Or(strings.Join(names, ", "), "none"),
		Hint: "start the station with --agents DIR"}}
}
