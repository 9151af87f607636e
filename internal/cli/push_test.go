package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	roles "github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// remotePassword is that of every user of a newRemote.
const remotePassword = "x-password"

// newRemote starts a server with the accounts of a deployment, and a planner that serves the station "default". as is the
// address with the login of a user.
func newRemote(t *testing.T) (as func(user string) string) {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Port, cfg.LazySync = -1, true
		cfg.Accounts = topology.Accounts("default", []topology.User{
			topology.Outsider("default", "operator", "", topology.MayDispatch, topology.MayWatch, topology.MayApprove)},
			func(string) string { return strconv.Quote(remotePassword) }, topology.Setup("default"))
	})
	cfg, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Station, cfg.NATSURL, cfg.NATSPassword, cfg.AcceptLazy = "default", s.URL(), secret.New(remotePassword), true
	cfg.NATSUser = topology.SetupUser
	if _, err := roles.Setup(t.Context(), cfg, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	cfg.NATSUser = string(events.Planner)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- roles.Serve(ctx, all.Program(events.Planner, &cfg), zerolog.Nop()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return func(user string) string {
		return strings.Replace(s.URL(), "://", "://"+user+":"+remotePassword+"@", 1)
	}
}

// pushed is what inspan agent push --json prints.
type pushed struct {
	Station string
	DryRun  bool `json:"dry_run"`
	Agents  []struct {
		Agent, File, State string
		Fields             []string
		Errors             []agentfile.Error
	}
}

func (p pushed) states() string {
	var out []string
	for _, a := range p.Agents {
		out = append(out, a.Agent+" "+a.State+strings.Join(append([]string{""}, a.Fields...), " "))
	}
	return strings.Join(out, ", ")
}

func TestPush(t *testing.T) {
	t.Parallel()
	url := newRemote(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, "agents", name) }
	putFile(t, at("reader.prompt"), agent("reader", "read"))
	putFile(t, at("lab/review/critic.prompt"), agent("critic", "read"))
	push := func(t *testing.T, code int, want string, args ...string) said {
		t.Helper()
		s := inspan(t, append([]string{"agent", "push", "--json", "--server", url(topology.SetupUser)}, args...)...)
		if s.code != code {
			t.Fatalf("exit %d, want %d\n%s%s", s.code, code, s.out, s.err)
		}
		if got := decode[pushed](t, s.out).states(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return s
	}
	registered := func(t *testing.T) (names []string) {
		t.Helper()
		for _, a := range decode[[]events.Agent](t, inspan(t, "agents", "--json", "--server", url("operator")).out) {
			names = append(names, a.Name+" "+a.Description)
		}
		return names
	}
	t.Run("ID-10 ID-11 a dry run registers nothing; what is pushed is what the planner pins at once", func(t *testing.T) {
		s := push(t, 0, "critic new, reader new", at(""), "--dry-run")
		if p := decode[pushed](t, s.out); !p.DryRun || p.Station != "default" || p.Agents[0].File != at("lab/review/critic.prompt") {
			t.Errorf("%+v", p)
		}
		if got := registered(t); len(got) != 0 {
			t.Fatalf("registered: %q", got)
		}
		push(t, 0, "critic new, reader new", at(""))
		push(t, 0, "critic unchanged, reader unchanged", at(""))
		if s := inspan(t, "run", "reader", "x", "--id", "run-p", "--detach", "--server", url("operator")); s.code != 0 {
			t.Fatal(s.err)
		}
		putFile(t, at("reader.prompt"), strings.Replace(agent("reader", "read"), "A test agent", "The second one", 1))
		push(t, 0, "reader changed description", at("reader.prompt"))
		if got := registered(t); len(got) != 2 || got[1] != "reader The second one" {
			t.Errorf("registered: %q", got)
		}
		if s := inspan(t, "export", "run-p", "--format", "json", "--server", url("operator")); !strings.Contains(s.out, "A test agent") || strings.Contains(s.out, "The second one") {
			t.Errorf("the run has another agent\n%s", s.err)
		}
	})
	t.Run("ID-11 a file of a role is pushed with its role, and nothing where one of the files is wrong", func(t *testing.T) {
		putFile(t, at("lab/review/role.yaml"), "version: 1\nharness: {max_steps: 3}\n")
		push(t, 0, "critic changed max_steps", at("lab/review/critic.prompt"))
		putFile(t, at("odd.prompt"), "---\nmodle: x\n---\nDo.\n")
		putFile(t, at("reader.prompt"), agent("reader", "read"))
		push(t, 1, "critic unchanged, reader changed description, odd invalid", at(""))
		s := push(t, 1, "odd invalid", at("odd.prompt"))
		if e := decode[pushed](t, s.out).Agents[0].Errors; len(e) != 2 || e[1].Line != 2 || e[1].File != at("odd.prompt") {
			t.Errorf("%+v", e)
		}
		if got := registered(t); got[1] != "reader The second one" {
			t.Errorf("registered: %q", got)
		}
		if err := os.Remove(at("odd.prompt")); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range [][]string{{at("nothing.prompt")}, {at("lab/review/role.yaml")}} {
			if s := inspan(t, append([]string{"agent", "push", "--server", url(topology.SetupUser)}, wrong...)...); s.code != 2 {
				t.Errorf("%q: exit %d: %s", wrong, s.code, s.err)
			}
		}
	})
	t.Run("SAFE-5 ID-11 a user who may not write agents is refused with what to do, and a context says who pushes", func(t *testing.T) {
		s := inspan(t, "agent", "push", at(""), "--server", url("operator"))
		if s.code != 4 || !strings.Contains(s.err, "this user may not register agents at station default") || !strings.Contains(s.err, "--context") {
			t.Errorf("exit %d: %s", s.code, s.err)
		}
		if strings.Contains(s.err, remotePassword) {
			t.Errorf("the password is shown: %s", s.err)
		}
		if s := inspan(t, "agent", "push", at(""), "--dry-run", "--server", url("operator")); s.code != 0 || !strings.Contains(s.out, "1 agent would be registered") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
		home := t.TempDir()
		putFile(t, filepath.Join(home, "nats", "context", "prod.json"), `{"url":"`+strings.Replace(url(topology.SetupUser), topology.SetupUser+":"+remotePassword+"@", "", 1)+`","user":"setup","password":"`+remotePassword+`"}`)
		env := []string{"XDG_CONFIG_HOME=" + home, "HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state")}
		if s := process(t, dir, env, "agent", "push", "--context", "nats:prod"); s.code != 4 || !strings.Contains(s.err, "inspan trust") {
			t.Errorf("a folder that no one named: exit %d: %s", s.code, s.err)
		}
		if s := process(t, dir, env, "agent", "push", "--trust", "--context", "nats:prod"); s.code != 0 || !strings.Contains(s.out, "1 agent registered at station default") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
		if s := process(t, dir, append(env, "INSPAN_NATS_USER=setup", "INSPAN_NATS_PASSWORD="+remotePassword), "agent", "push", "agents", "--server", strings.Replace(url("x"), "x:"+remotePassword+"@", "", 1)); s.code != 0 || !strings.Contains(s.out, "0 agents registered") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("ID-11 a station of inspan up says how it takes agents, and a local store takes them", func(t *testing.T) {
		d := newDesk(t).up()
		d.want(4, words{"a station of inspan up registers the files of its own folder"}, "agent", "push", at(""))
		home := t.TempDir()
		env := []string{"INSPAN_STORE=" + filepath.Join(home, "store")}
		if s := process(t, dir, env, "run", "reader", "x", "--local", "--agents", at(""), "--scripts", filepath.Join(d.dir, "scripts"), "--sandbox", "host"); s.code != 0 {
			t.Fatal(s.err)
		}
		putFile(t, at("late.prompt"), agent("late", "read"))
		if s := process(t, dir, env, "agent", "push", "agents", "--local"); s.code != 0 || !strings.Contains(s.out, "1 agent registered") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
	})
}
