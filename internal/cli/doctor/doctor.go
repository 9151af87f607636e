// Package doctor has inspan doctor: it tries what this machine and the station can do, and says what is missing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/machine"
	"github.com/inspan/inspan/internal/cli/doctor/model"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/cli/doctor/server"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/internal/cli/space"
	"github.com/inspan/inspan/internal/operator"
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
	found := machine.Findings(ctx, a.App)
	if !a.noModel {
		found = append(found, model.Findings(ctx, a.App)...)
	}
	found = append(found, stationFindings(ctx, a.App, a.role)...)
	if a.App.JSON {
		return errors.Join(a.App.PrintJSON(found), report.Unmet(found))
	}
	report.Print(a.App, found)
	return report.Unmet(found)
}

// doctorWait bounds all that the doctor does.
const doctorWait = 2 * time.Minute

func stationFindings(ctx context.Context, a *app.App, role string) []report.Finding {
	if a.NamesServer() && !a.Local && app.Listens(ctx, a.Server) == nil {
		found := server.Findings(ctx, a, role)
		if server.IsService(role) || len(found) == 1 { // no client of the station, or no server that answers
			return found
		}
		return append(found, clientFindings(ctx, a)...)
	}
	return clientFindings(ctx, a)
}

func clientFindings(ctx context.Context, a *app.App) []report.Finding {
	c, err := a.Connect(ctx)
	if err != nil {
		return []report.Finding{{What: "station", State: "not reachable at " + a.Address(), Hint: "start one with: inspan up"}}
	}
	defer c.Close()
	h, err := c.Health(ctx)
	if err != nil {
		return []report.Finding{{What: "station", State: "no answer", Hint: err.Error()}}
	}
	found := []report.Finding{{What: "station", OK: true, State: c.Station() + " at " + a.Address() + ", nats-server " +
		h.ServerVersion},
		{What: "durability", OK: h.SyncAlways, State: h.Durability,
			Hint: "set jetstream { sync_interval: always } on the server: a power cut loses what was acknowledged last"}}
	store, start := lossFinding(ctx, c), "start one: its work waits until then"
	if found = append(found, store); !store.OK {
		start = "a station whose store is damaged takes no work"
	}
	found = append(found, spaceFindings(ctx, c)...)
	if h, err := client.NewHalts(c).Get(ctx); err == nil && h.Halted {
		found = append(found, report.Finding{What: "work", State: halts.Line(h, time.Now()), Hint: halts.Hint(h)})
		start = "start one, and release the station"
	}
	for _, role := range topology.AllSubscriptions() {
		n := h.Services[string(role.Role)]
		found = append(found, report.Finding{What: string(role.Role), OK: n > 0, State: fmt.Sprintf("%d running", n), Hint: start})
	}
	return append(found, agentFindings(ctx, c)...)
}

// lossFinding reports what the station has lost, as far as it knows, and whether its log is whole now.
func lossFinding(ctx context.Context, c *client.Client) report.Finding {
	f := report.Finding{What: "streams", Hint: "the station takes no work: see The store is damaged in docs/runbook.md"}
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
func spaceFindings(ctx context.Context, c *client.Client) (found []report.Finding) {
	all, err := client.SpaceOf(ctx, c)
	if err != nil {
		return []report.Finding{{What: "space", State: "unknown", Hint: err.Error()}}
	}
	for _, s := range all {
		if s.Warns() {
			found = append(found, report.Finding{What: "space", State: space.Warning(s),
				Hint: "raise its limit or give its work to another station: The log is full in docs/runbook.md"})
		}
	}
	return found
}

func agentFindings(ctx context.Context, c *client.Client) []report.Finding {
	agents, err := c.Agents(ctx)
	if err != nil {
		return []report.Finding{{What: "agents", State: "unknown", Hint: err.Error()}}
	}
	var names []string
	for _, g := range agents {
		names = append(names, g.Name+" ("+g.Model+")")
	}
	return []report.Finding{{What: "agents", OK: len(names) > 0, State: cmp.Or(strings.Join(names, ", "), "none"),
		Hint: "start the station with --agents DIR"}}
}
