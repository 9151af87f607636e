package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// shell is a person with a home, whose commands are processes of their own.
type shell struct {
	t    *testing.T
	home string
}

func newShell(t *testing.T) shell {
	t.Helper()
	return shell{t, t.TempDir()}
}

func (s shell) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), commandLine+"="+strings.Join(args, "\n"), "HOME="+s.home, "XDG_CONFIG_HOME="+s.home)
	return cmd
}

// do runs a command and wants its exit code and words.
func (s shell) do(code int, words []string, args ...string) string {
	s.t.Helper()
	var out bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), fmt.Sprintf("%s%d\n", exitLine, code)) {
		s.t.Fatalf("inspan %s: %v, want exit %d\n%s", strings.Join(args, " "), err, code, out.String())
	}
	for _, w := range words {
		if !strings.Contains(out.String(), w) {
			s.t.Errorf("inspan %s does not say %q:\n%s", strings.Join(args, " "), w, out.String())
		}
	}
	return out.String()
}

// killed runs a command that is killed as soon as it says something; it reports whether that was said.
func (s shell) killed(at string, args ...string) bool {
	s.t.Helper()
	var out bytes.Buffer
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, dieAt+"="+at)
	cmd.Stderr = &out
	_ = cmd.Run() // it is killed
	return strings.Contains(out.String(), at) && !strings.Contains(out.String(), exitLine)
}

// TestMoveCommand moves a station with one command, which is killed at each of its steps.
func TestMoveCommand(t *testing.T) {
	t.Parallel()
	const gates = 5
	p := newPlace(t, "lab")
	effects, _ := p.paying()
	p.up()
	heads := map[string]string{}
	for i := range gates {
		p.start(events.Task{ID: fmt.Sprintf("gated-%d", i), Agent: "careful", Task: "write", Autonomy: level(1)})
	}
	p.start(events.Task{ID: "done", Agent: "loud", Task: "shout", Session: "desk"})
	heads["done"] = p.await("done", "ended", ended).Hash
	for i := range gates {
		id := fmt.Sprintf("gated-%d", i)
		heads[id] = p.await(id, "waiting", waiting).Hash
	}
	p.start(events.Task{ID: "paid", Agent: "paying", Task: "pay"})
	p.until("the payment", func() bool { return lineCount(effects) == 1 })
	q := newPlace(t, "lab")
	q.strange = true // the agents come from the copy
	again, _ := q.paying()
	store := filepath.Join(q.dir, "store")
	sh := newShell(t)
	sh.do(0, nil, "context", "add", "old", "--server", p.station.URL(), "--station", "lab")
	sh.do(0, nil, "context", "add", "new", "--server", "nats://127.0.0.1:1", "--station", "lab")
	sh.do(0, nil, "stations", "route", "web", "lab", "--context", "old")
	line := []string{"stations", "move", "lab", "--from", "old", "--store", store, "--to", "new", "--new-keys"}
	before := p.listed()
	t.Run("PLUS-18a the plan changes nothing, and nothing is moved without consent", func(t *testing.T) {
		sh.do(0, []string{"7, 6 open", "gated-0", "waits at a gate", "stay there: a run that needs them fails", "8. release the target", "web", "--dry-run"}, append(line, "--dry-run")...)
		sh.do(1, []string{"nothing was changed", "--yes"}, line...)
		sh.do(4, []string{"--from-users", "--new-keys", "nothing was changed"}, slices.Concat(line[:len(line)-1], []string{"--yes"})...)
		sh.do(2, []string{"name the target"}, "stations", "move", "lab", "--from", "old")
		sh.do(2, []string{"the same context"}, "stations", "move", "lab", "--from", "old", "--to", "old")
		sh.do(2, []string{"reaches station lab, not eu"}, "stations", "move", "eu", "--from", "old", "--to", "new")
		if now := p.listed(); now.Halted || now.Runs != before.Runs || now.Events != before.Events {
			t.Errorf("the source has %+v, it had %+v", now, before)
		}
		if _, err := os.Stat(store); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the target: %v", err)
		}
	})
	line = append(line, "--yes")
	t.Run("PLUS-18b a move that is killed at each step goes on where it was", func(t *testing.T) {
		for _, at := range []string{"halt the source", "copy the source", "fill the target", "compare every event", "mark the source",
			"change your routes", "carry tasks", "release the target"} {
			if !sh.killed(at, line...) {
				t.Errorf("the move ended before: %s", at)
			}
			switch at {
			case "copy the source": // what comes while nothing runs goes along
				if _, err := p.c.Dispatch(p.ctx(), events.Task{ID: "early", Agent: "loud", Task: "shout"}); err != nil {
					t.Fatal(err)
				}
			case "change your routes":
				if _, err := p.c.Dispatch(p.ctx(), events.Task{ID: "late", Agent: "loud", Task: "shout"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		sh.do(0, nil, line...)
	})
	t.Run("PLUS-18a the source is halted, says where it went, and is not released by mistake", func(t *testing.T) {
		sh.do(4, []string{"moved to folder " + store, "--although-moved"}, "release", "--context", "old")
		sh.do(4, []string{"has moved to"}, "run", "loud", "shout", "--context", "old")
		sh.do(0, []string{"moved to"}, "stations", "list", "--context", "old")
		sh.do(0, []string{"it has moved to"}, "top", "--once", "--context", "old")
		sh.do(0, []string{"new"}, "stations", "route", "web")
		sh.do(0, []string{"had moved", "before"}, line...)
		sh.do(4, []string{"moved to another place", store}, "stations", "move", "lab", "--from", "old", "--store", t.TempDir(), "--new-keys", "--yes")
		sh.do(4, []string{"the target is released"}, append(line, "--abort")...)
	})
	q.up()
	t.Run("PLUS-18a EVT-9 at the target the runs go on, with what came meanwhile", func(t *testing.T) {
		for id, want := range heads {
			if strings.HasPrefix(id, "gated") {
				if s, err := q.c.State(q.ctx(), id); err != nil || s.Hash != want {
					t.Errorf("run %s: head %s, %v, want %s", id, s.Hash, err, want)
				}
			}
		}
		for i := range gates {
			q.approve(q.await(fmt.Sprintf("gated-%d", i), "waiting", waiting))
		}
		for _, id := range []string{"gated-0", "gated-1", "gated-2", "gated-3", "gated-4", "done", "paid", "early", "late"} {
			q.until(id, func() bool { _, err := q.c.State(q.ctx(), id); return err == nil })
			if s := q.await(id, "ended", ended); s.Status != events.Completed {
				t.Errorf("%s: %s %+v", id, s.Status, s.Result)
			}
		}
		if n := lineCount(effects) + lineCount(again); n != 1 {
			t.Errorf("a call that may be made once was made %d times", n)
		}
		q.do(0, "audit", "--all")
		if now := p.listed(); !now.Halted || now.Runs != 7 || now.Open != 6 {
			t.Errorf("the source has %+v", now)
		}
	})
	t.Run("PLUS-18a a place that has the station is no target", func(t *testing.T) {
		sh.do(0, nil, "context", "add", "new", "--force", "--server", q.station.URL(), "--station", "lab")
		other := newPlace(t, "lab")
		other.up()
		other.start(events.Task{ID: "other", Agent: "loud", Task: "shout"})
		other.await("other", "ended", ended)
		full := filepath.Join(other.dir, "store")
		other.down()
		was := q.listed()
		sh.do(4, []string{"has a station of this name already", "name another place"}, "stations", "move", "lab", "--from", "new", "--store", full, "--new-keys", "--yes")
		if now := q.listed(); now.Halted || now.Events != was.Events {
			t.Errorf("the source has %+v, it had %+v", now, was)
		}
	})
}

// TestMoveStores moves a station between folders of stations that do not run, with its keys.
func TestMoveStores(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("gated", "waiting", waiting)
	p.down()
	keys := func(store string) map[string][]byte {
		t.Helper()
		st, of := still(t, store)
		defer func() {
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		keys, err := of.ReadKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	from := filepath.Join(p.dir, "store")
	want := keys(from)
	sh := newShell(t)
	q := newPlace(t, "lab")
	q.strange = true
	store := filepath.Join(q.dir, "store")
	line := []string{"stations", "move", "lab", "--from-store", from, "--store", store, "--yes"}
	t.Run("PLUS-18b a move that is taken back leaves a source that goes on and a target that does nothing", func(t *testing.T) {
		if !sh.killed("release the target", line...) {
			t.Error("the move ended before")
		}
		sh.do(0, []string{"was taken back"}, append(line, "--abort")...)
		if _, err := rise(t.Context(), station.Config{StoreDir: store, Station: "lab", LazySync: true, Log: zerolog.Nop(), Base: base(t)}); !errors.Is(err, service.ErrRestoring) {
			t.Errorf("a station at the target: %v", err)
		}
		p.up()
		p.approve(p.await("gated", "waiting", waiting))
		p.await("gated", "ended", ended)
		p.start(events.Task{ID: "second", Agent: "careful", Task: "write", Autonomy: level(1)})
		p.await("second", "waiting", waiting)
		p.down()
		sh.do(4, []string{"was taken back", "empty it"}, line...)
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("PLUS-18a a station moves between folders with the keys that it made for itself", func(t *testing.T) {
		out := sh.do(0, []string{`"released": true`, `"open_runs": 1`}, append(line, "--json")...)
		if strings.Contains(out, `"already": true`) {
			t.Error(out)
		}
		if got := keys(store); len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d keys, want the %d of the source", len(got), len(want))
		}
		q.up()
		q.approve(q.await("second", "waiting", waiting))
		q.await("second", "ended", ended)
		p.up() // by mistake
		p.do(4, "release")
		if now := p.listed(); !now.Halted || now.Open != 1 {
			t.Errorf("the source has %+v", now)
		}
	})
	t.Run("PLUS-18a a folder without a station is no source, and none is made there", func(t *testing.T) {
		none := filepath.Join(t.TempDir(), "none")
		sh.do(5, []string{"has no station"}, "stations", "move", "lab", "--from-store", none, "--store", t.TempDir(), "--yes")
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

// TestMoveUsers moves a station to a server whose users have the rights of the table and no others.
func TestMoveUsers(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("gated", "waiting", waiting)
	people := []topology.User{topology.Outsider("lab", "operator", "", topology.MayDispatch, topology.MayWatch, topology.MayApprove, topology.MayHalt, topology.MayBackup)}
	server, err := natsserver.Start(natsserver.Config{Name: "target", StoreDir: t.TempDir(), Port: -1, LazySync: true,
		Accounts: topology.Accounts("lab", people, func(user string) string { return `"of-` + user + `"` }, topology.Setup("lab"), topology.Upgrade("lab"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	sh := newShell(t)
	users := filepath.Join(sh.home, "users")
	if err := os.WriteFile(users, []byte("NATS_SETUP_PASSWORD=of-setup\nNATS_UPGRADE_PASSWORD=of-upgrade\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh.do(0, nil, "context", "add", "old", "--server", p.station.URL(), "--station", "lab")
	sh.do(0, nil, "context", "add", "new", "--server", server.URL(), "--station", "lab")
	sh.do(0, nil, "stations", "route", "web", "lab", "--context", "old")
	line := []string{"stations", "move", "lab", "--from", "old", "--to", "new", "--new-keys", "--yes"}
	t.Run("PLUS-18a SAFE-6 without the upgrade user nothing is moved, and with it all is", func(t *testing.T) {
		sh.do(1, []string{"connect to the target as upgrade"}, line...)
		if p.listed().Halted {
			t.Fatal("the source was halted")
		}
		line = append(line, "--users", users)
		sh.do(0, []string{"fresh"}, append(line, "--dry-run", "--json")...)
		if p.listed().Halted {
			t.Fatal("the source was halted")
		}
		sh.do(0, []string{"Moved station lab to context new", "Project web is routed to context new", "services of station lab"}, line...)
		sh.do(0, []string{"had moved"}, line...)
		if !strings.Contains(sh.do(0, nil, "stations", "route", "web", "--json"), `"context": "new"`) {
			t.Error("the route was not changed")
		}
	})
	t.Run("PLUS-18a the target is released, and its operator sees the runs that the source has", func(t *testing.T) {
		conn, err := jet.Connect(t.Context(), jet.Config{URL: server.URL(), User: "operator", Password: secret.New("of-operator")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		c, err := operator.On(conn, "lab")
		if err != nil {
			t.Fatal(err)
		}
		want := p.await("gated", "waiting", waiting)
		if s, err := c.State(t.Context(), "gated"); err != nil || s.Hash != want.Hash {
			t.Errorf("%v, head %s, want %s", err, s.Hash, want.Hash)
		}
		if h, err := client.NewHalts(c).Get(t.Context()); err != nil || h.Halted || h.Number != 1 {
			t.Errorf("%+v %v", h, err)
		}
		sh.do(4, []string{"the target is released"}, append(line, "--abort")...)
	})
}
