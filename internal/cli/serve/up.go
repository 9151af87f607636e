// Package serve has the commands that run and set up a station: up and setup.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/edge"
	"github.com/inspan/inspan/internal/cli/reload"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/storecheck"
)

// upCommand is inspan up.
type upCommand struct {
	App    *app.App
	own    app.OwnStation
	listen string
	port   int
	http   string
	// metrics is the address of /metrics; empty for none.
	metrics string
}

// Up makes inspan up.
func Up(a *app.App) *cobra.Command {
	c := &upCommand{App: a}
	c.port = -1
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a station: a NATS server and all five services in this process",
		Long: `Runs a station on this machine until it is interrupted. Everything is kept under --store; started again with the
same --store, it goes on with the runs that were not finished, also after kill -9. It listens on 127.0.0.1 unless
--listen says otherwise; other commands in the same project find it there. Any client that reaches it may dispatch, watch, steer and
answer gates, without a password and without a name, until it has users of its own (inspan user add); only the services in this process
may append events, and no client may change or erase what is stored.
When files of its agents change, it registers them again: a file that is wrong changes nothing and is reported, an agent whose file is
removed is no longer registered, and runs that have begun keep what they began with. It does the same with the files of the folder
schedules and with the key schedule of agents' files. Agents and scripts are in ./agents and ./scripts (or examples/agents and
examples/scripts) unless flags name others; of what no one named it uses what was accepted (inspan trust).
With --http it also answers over HTTP, to whoever has a token (inspan token add), and serves the web console; docs/gateway.md has the
requests, docs/console.md the console.
With --local there is no server: it works off what is in the local store, and no client reaches it meanwhile.

Before it opens the store it looks for damage. A flipped bit is turned back where a checksum proves which one it was. Where
something is lost it says what, and runs without taking work: what is left can be read, audited, exported and restored, and
the exit code is 1. --accept-loss with the ID that it names makes it work on with what is left.`,
		Example: `  inspan up
  inspan up --agents team/agents --scripts team/scripts
  inspan up --http 127.0.0.1:8222 --metrics 127.0.0.1:9464
  inspan up --listen 127.0.0.1:4333 --station lab --store /var/lib/inspan --json`,
		Args: app.Args(0),
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.own.Loss, "accept-loss", "",
		"work on although something of the store is lost: the ID that inspan up or inspan doctor named")
	cmd.Flags().StringVar(&c.listen, "listen", "127.0.0.1:4222", "host:port for NATS clients; port 0 is any free one")
	cmd.Flags().IntVar(&c.port, "port", -1, "port of 127.0.0.1 for NATS clients, in place of --listen; 0 is any free one")
	cmd.Flags().StringVar(&c.http, "http", "",
		"host:port of the gateway, which answers over HTTP; port 0 is any free one; without it there is none")
	cmd.Flags().StringVar(&c.metrics, "metrics", "",
		"host:port of /metrics for Prometheus, /healthz and /readyz; port 0 is any free one; without it there is none")
	cmd.Flags().StringVar(&c.own.Store, "store", a.Folder, "folder to keep the station in (INSPAN_STORE)")
	c.own.Flags(a, cmd)
	return cmd
}

func (a *upCommand) run(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"listen", "port", "http", "metrics"} {
		if a.App.Local && a.App.Given(name) {
			return app.Usage("--local does without NATS, so there is nothing to reach at --%s: leave one of them out", name)
		}
	}
	if a.port >= 0 {
		if cmd.Flags().Changed("listen") {
			return app.Usage("--listen names a port already: leave --port out")
		}
		a.listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port))
	}
	a.own.Schedules = app.ProjectSchedules
	a.own.Guess()
	web, err := edge.Listen(a.http, a.own.Store)
	if err != nil {
		return err
	}
	metrics, err := serveMetrics(cmd.Context(), a.metrics)
	if err != nil {
		return errors.Join(err, web.Close())
	}
	defer metrics.close()
	a.own.Console = web != nil
	a.own.Closed = append(web.Closed(), metrics.closed()...)
	how := app.Starting{Listen: a.listen, Metrics: metrics.of()}
	st, err := reload.Start(cmd.Context(), a.App, &a.own, how, func(line string) {
		fmt.Fprintln(a.App.Err, a.App.Wrapped(line, 0))
	})
	if err != nil {
		return errors.Join(notUp(cmd.Context(), a.listen, err), web.Close())
	}
	metrics.started(st.Station)
	damage := reportDamage(a.App, st.Station)
	err = web.Serve(cmd.Context(), a.App, st.Station)
	var sides *edge.Sides
	if err == nil {
		sides, err = edge.Follow(cmd.Context(), a.App, st.Station, a.own.Store)
	}
	if err == nil {
		err = greet(a.App, st.Station, a.own, web, metrics)
	}
	if err != nil {
		return errors.Join(err, sides.Close(), web.Close(), st.Close(context.WithoutCancel(cmd.Context())))
	}
	var failure error
	select {
	case <-cmd.Context().Done():
		fmt.Fprintln(a.App.Err, "Stopping: no new work is taken, what is under way is finished.")
	case failure = <-st.Failed():
	case failure = <-web.Failed():
		web = nil // it has ended
	}
	return errors.Join(failure, sides.Close(), web.Close(), st.Close(context.WithoutCancel(cmd.Context())), damage)
}

// notUp says why a station did not come up: that a person interrupted it, or what listens where it was to listen.
func notUp(ctx context.Context, listen string, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return app.Exit(app.ExitInterrupted, errors.New("interrupted before the station was up: nothing is lost, start it again"))
	}
	if !errors.Is(err, station.ErrPortInUse) {
		return err
	}
	who := "another program, which is no NATS server,"
	switch name, asked := station.Listening(ctx, listen); {
	case asked == nil && station.StationOf(name) != "":
		who = fmt.Sprintf("station %s of another inspan up", station.StationOf(name))
	case asked == nil:
		who = fmt.Sprintf("the NATS server %q", name)
	}
	host, port, bad := net.SplitHostPort(listen)
	if bad != nil {
		return err
	}
	return fmt.Errorf("port %s of %s is in use: %s listens there; name another port (--port 0 takes any that is free), or use what is there with --server nats://%s", port, host, who, listen)
}

// errDamaged is how a station ends whose store has lost something.
var errDamaged = errors.New("the store is damaged: the station took no work")

// reportDamage says what the store has lost; what was repaired is in the log.
func reportDamage(a *app.App, st *station.Station) error {
	p, lost := a.Paint(), st.Damage()
	if !lost.Damaged() {
		return nil
	}
	fmt.Fprintf(a.Err, "%s THE STORE IS DAMAGED (loss %s). The station takes no work; what is left can be read, audited, exported and restored.\n", p.Red("●"), lost.ID())
	for _, f := range lost.Lost() {
		fmt.Fprintf(a.Err, "  %s\n", f)
	}
	from := "an archive"
	if cfg, err := a.Config(); err == nil && cfg.Archive != "" {
		from = cfg.Archive
	}
	fmt.Fprintf(a.Err, "Files are kept as they were in the folder %s of the store. Restore from %s into a new store (docs/runbook.md),\nor accept what is lost: inspan up --accept-loss %s\n", storecheck.CopiesFolder, from, lost.ID())
	return errDamaged
}

// greet prints what a person needs to use the station with nothing but the nats program.
func greet(a *app.App, st *station.Station, l app.OwnStation, web *edge.Web, metrics *scraped) error {
	server, name := st.URL(), st.Name()
	list, err := userlist.Read(l.Store)
	if err != nil {
		return err
	}
	if a.JSON {
		about := map[string]string{"station": name, "url": server, "durability": st.Durability(), "sandbox": st.SandboxMode(),
			"workspace": st.Workspace(), "store": l.Store}
		if list.Closed {
			about["users"] = strings.Join(list.Names(), ",")
		}
		if web != nil {
			about["gateway"], about["console"] = web.Address(), web.Console()
		}
		if metrics != nil {
			about["metrics"] = "http://" + metrics.address + "/metrics"
		}
		if lost := st.Damage(); lost.Damaged() {
			about["loss"], about["lost"] = lost.ID(), lost.Error()
		}
		return a.PrintJSON(about)
	}
	p := a.Paint()
	address := p.Bold(server)
	if server == "" {
		address = "none, without NATS"
	}
	mode := st.SandboxMode()
	if mode == "host" {
		mode += p.Yellow("  (tools run without isolation; inspan doctor says why)")
	}
	if cfg, err := a.Config(); err == nil && server != "" {
		cfg.Sandbox = l.Sandbox
		if said := all.Toolrunner(cfg).Reaches(sandbox.Mode(st.SandboxMode())); said != "" {
			fmt.Fprintln(a.Err, p.Yellow("Gates: "+said+"."))
		}
	}
	if st.Damage().Damaged() {
		fmt.Fprintf(a.Out, "%s Station %s is up and takes no work: its store is damaged.\n\n", p.Red("●"), p.Bold(name))
	} else {
		fmt.Fprintf(a.Out, "%s Station %s is up.\n\n", p.Green("●"), p.Bold(name))
	}
	rows := [][2]string{{"address", address}, {"durability", st.Durability()}, {"sandbox", mode},
		{"workspace", st.Workspace()}, {"store", l.Store},
		{"agents", cmp.Or(l.Source, l.Agents, "none new; name a folder with --agents")}}
	login, approver := "", ""
	if list.Closed {
		login, approver = " --nkey KEYFILE", ".NAME"
		rows = append(rows, [2]string{"users", cmp.Or(strings.Join(list.Names(), ", "), "none: inspan user add NAME")})
	} else if server != "" && !loopback(server) {
		rows = append(rows, [2]string{"users",
			p.Yellow("whoever reaches the address, until there is a first one: inspan user add NAME")})
	}
	if web != nil {
		rows = append(rows, web.Row(l.Store), [2]string{"console", web.Console()})
	}
	if metrics != nil {
		rows = append(rows, [2]string{"metrics", "http://" + metrics.address + "/metrics"})
	}
	a.Pairs(rows)
	fmt.Fprintln(a.Out)
	if a.Local {
		fmt.Fprintln(a.Out, p.Dim("It works off what is in its local store; no one reaches it meanwhile. Ctrl+C stops it."))
		fmt.Fprintln(a.Out, p.Dim("Then inspan run --local gives it a task, and inspan runs --local shows them."))
		return nil
	}
	a.Pairs([][2]string{
		{"dispatch", p.Cyan(fmt.Sprintf(`nats -s %s%s pub station.%s.task '{"agent":"fixer","task":"..."}'`, server, login, name))},
		{"watch", p.Cyan(fmt.Sprintf(`nats -s %s%s sub 'station.%s.run.*.stream'`, server, login, name))},
		{"approve", p.Cyan(fmt.Sprintf(`nats -s %s%s pub station.%s.run.RUN.gate.GATE%s '{"decision":"approve"}'`, server, login, name, approver))},
	})
	fmt.Fprintln(a.Out, "\n"+p.Dim("Or, in another terminal in this project: inspan run, inspan runs, inspan gates."))
	fmt.Fprintln(a.Out, p.Dim("Ctrl+C stops the station; with the same --store it goes on where it stopped."))
	return nil
}

// loopback reports whether no other machine reaches an address.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
