package cli

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

// finding is one line of the doctor.
type finding struct {
	What  string `json:"what"`
	OK    bool   `json:"ok"`
	State string `json:"state"`
	// Needed is true for what agents cannot do without: where it is not ok, the doctor ends with 1.
	Needed bool `json:"needed,omitempty"`
	// Hint says what to do where it is not ok.
	Hint string `json:"hint,omitempty"`
	// Walls are what a sandbox enforces on this machine.
	Walls []sandbox.Capability `json:"walls,omitempty"`
}

func (a *app) doctorCmd() *cobra.Command {
	var noModel bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try what this machine and the station can do, and say what is missing",
		Long: `Looks for the programs that agents need and tries the rest: a git commit in the sandbox that agents get, a file in the
store and the room there, the port, and one short question to each provider of models that has a key or an address; it costs a
few tokens, and --no-model leaves it out. No key is printed. It leaves nothing behind.

Exit code 1: something that agents need does not work, or the station has lost something that it had stored. 0: all of it does, and what is marked miss is not needed.`,
		Example: "  inspan doctor\n  inspan doctor --no-model\n  inspan doctor --json", Args: args(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorWait)
			defer cancel()
			found := slices.Concat(machine(ctx), a.optIn(ctx), a.requirements(ctx), a.tried(ctx, !noModel), a.stationFindings(ctx))
			if a.json {
				return errors.Join(a.printJSON(found), unmet(found))
			}
			a.findings(found)
			return unmet(found)
		},
	}
	cmd.Flags().BoolVar(&noModel, "no-model", false, "ask no model")
	return cmd
}

// doctorWait bounds all that the doctor does.
const doctorWait = 2 * time.Minute

// unmet is an error where something that is needed does not work.
func unmet(found []finding) error {
	var bad []string
	for _, f := range found {
		if f.Needed && !f.OK {
			bad = append(bad, f.What)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return exitWith(exitFailed, fmt.Errorf("agents need what does not work here: %s", strings.Join(bad, ", ")))
}

// hintAt is the column that hints begin at.
const hintAt = 25

// findings prints what was found, a line for each.
func (a *app) findings(found []finding) {
	p := a.paint()
	for _, f := range found {
		mark := p.green("ok  ")
		switch {
		case !f.OK && f.Needed:
			mark = p.red("FAIL")
		case !f.OK:
			mark = p.yellow("miss")
		}
		state := strings.Split(strings.TrimRight(a.wrapped(f.State, hintAt), "\n"), "\n")
		fmt.Fprintf(a.out, "%s  %-18s %s\n", mark, f.What, state[0])
		for _, line := range state[1:] {
			fmt.Fprintf(a.out, "%*s%s\n", hintAt, "", line)
		}
		if f.Hint != "" && !f.OK {
			for line := range strings.Lines(a.wrapped(f.Hint, hintAt)) {
				fmt.Fprintf(a.out, "%*s%s\n", hintAt, "", p.dim(strings.TrimSuffix(line, "\n")))
			}
		}
		for _, said := range walls(f.Walls) {
			for line := range strings.Lines(a.wrapped(said, hintAt)) {
				fmt.Fprintf(a.out, "%*s%s\n", hintAt, "", p.dim(strings.TrimSuffix(line, "\n")))
			}
		}
	}
}

// walls says what a sandbox enforces, and for each wall that it does not, why.
func walls(has []sandbox.Capability) []string {
	var yes, said []string
	for _, c := range has {
		if c.Enforced {
			yes = append(yes, string(c.Wall))
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
			no[c.Why] = append(no[c.Why], string(c.Wall))
		}
	}
	for _, why := range order {
		said = append(said, "not "+strings.Join(no[why], ", ")+": "+why)
	}
	return said
}

func machine(ctx context.Context) []finding {
	found := []finding{{What: "inspan", OK: true, State: service.Version() + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}}
	for _, p := range []struct{ name, arg, hint string }{
		{"git", "--version", "the git tools and the demo need it: install git"},
		{"bash", "--version", "the tool bash needs it: install bash"},
		{"go", "version", "agents that write Go need it"},
	} {
		out, err := exec.CommandContext(ctx, p.name, p.arg).Output()
		first, _, _ := strings.Cut(string(out), "\n")
		found = append(found, finding{What: p.name, OK: err == nil, State: cmp.Or(first, "not found"), Hint: p.hint, Needed: p.name != "go"})
	}
	found = append(found, helperFinding(), wallFinding(ctx))
	set := backends.Local("")
	for _, mode := range []sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host} {
		b, err := set.Pick(ctx, mode)
		found = append(found, sandboxFinding(mode, b, err))
	}
	return found
}

// helperFinding tells what sandboxes start in the place of this program.
func helperFinding() finding {
	path, err := helper.Beside()
	if err != nil {
		return finding{What: "sandbox helper", State: "this program itself, which makes each command in a sandbox start tens of milliseconds later",
			Hint: err.Error() + " (put " + helper.Name + " of the same build beside it: make build makes both)"}
	}
	return finding{What: "sandbox helper", OK: true, State: path}
}

// wallFinding tells whether git, which works outside of sandboxes, stays in a tree that commands change meanwhile.
func wallFinding(ctx context.Context) finding {
	if _, err := wall.Find(ctx, ""); err != nil {
		return finding{What: "git walls", State: "none: a command can lead git out of its workspace", Hint: err.Error() + " (see Git and the commands beside it in docs/git.md)"}
	}
	return finding{What: "git walls", OK: true, State: "links that come while git works are not followed"}
}

func sandboxFinding(mode sandbox.Mode, b sandbox.Backend, err error) finding {
	f := finding{What: "sandbox " + string(mode), OK: err == nil, State: "works"}
	if err != nil {
		f.State, f.Hint = "does not work", err.Error()
	} else {
		f.Walls = b.Capabilities()
	}
	return f
}

// reachFinding tells whether the commands of this machine's own sandboxes could answer the gates of their own run.
func reachFinding(ctx context.Context, cfg service.Config) finding {
	f := finding{What: "gates", OK: true, State: "commands of sandboxes cannot connect to the station, also with an open network"}
	b, err := backends.Local("").Choose(ctx, backends.Policy{Mode: sandbox.Mode(cfg.Sandbox), Backend: sandbox.Mode(cfg.SandboxBackend), Min: sandbox.Mode(cfg.SandboxMin)})
	if err != nil { // it is told of the sandbox itself, or the mode is one by name
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
func (a *app) optIn(ctx context.Context) []finding {
	cfg, err := a.config()
	if err != nil {
		return []finding{{What: "settings", State: "wrong", Hint: err.Error()}}
	}
	found := []finding{reachFinding(ctx, cfg)}
	for _, b := range all.Toolrunner(cfg).OptIn() {
		found = append(found, sandboxFinding(b.Mode(), b, b.Probe(ctx)))
	}
	return found
}

func (a *app) stationFindings(ctx context.Context) []finding {
	c, err := a.connect(ctx)
	if err != nil {
		return []finding{{What: "station", State: "not reachable at " + a.address(), Hint: "start one with: inspan up"}}
	}
	defer c.Close()
	h, err := c.Health(ctx)
	if err != nil {
		return []finding{{What: "station", State: "no answer", Hint: err.Error()}}
	}
	found := []finding{{What: "station", OK: true, State: c.Station() + " at " + a.address() + ", nats-server " + h.ServerVersion},
		{What: "durability", OK: h.SyncAlways, State: h.Durability, Hint: "set jetstream { sync_interval: always } on the server: a power cut loses what was acknowledged last"}}
	store, start := lossFinding(ctx, c), "start one: its work waits until then"
	if found = append(found, store); !store.OK {
		start = "a station whose store is damaged takes no work"
	}
	for _, role := range topology.Hearing() {
		n := h.Services[string(role.Role)]
		found = append(found, finding{What: string(role.Role), OK: n > 0, State: fmt.Sprintf("%d running", n), Hint: start})
	}
	return append(found, agentFindings(ctx, c)...)
}

// lossFinding tells what the station has lost, as far as it knows, and whether its log is whole now.
func lossFinding(ctx context.Context, c *client.Client) finding {
	f := finding{What: "streams", Hint: "the station takes no work: see The store is damaged in docs/runbook.md"}
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

func agentFindings(ctx context.Context, c *client.Client) []finding {
	agents, err := c.Agents(ctx)
	if err != nil {
		return []finding{{What: "agents", State: "unknown", Hint: err.Error()}}
	}
	var names []string
	for _, g := range agents {
		names = append(names, g.Name+" ("+g.Model+")")
	}
	return []finding{{What: "agents", OK: len(names) > 0, State: cmp.Or(strings.Join(names, ", "), "none"), Hint: "start the station with --agents DIR"}}
}
