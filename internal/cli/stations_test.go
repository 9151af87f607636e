package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
)

// stationRow is a row of inspan stations list.
type stationRow struct {
	Station  string   `json:"station"`
	Context  string   `json:"context"`
	Current  bool     `json:"current"`
	Version  string   `json:"version"`
	Runs     int      `json:"runs"`
	Open     int      `json:"open_runs"`
	Events   int      `json:"log_events"`
	Bytes    int      `json:"log_bytes"`
	Last     string   `json:"last_activity"`
	Projects []string `json:"projects"`
	Error    string   `json:"error"`
}

// upAs starts a station of a name with the agents of a desk.
func upAs(t *testing.T, d *desk, name string) *station.Station {
	t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true
	st, err := station.Up(t.Context(), station.Config{Listen: "127.0.0.1:0", Station: name, StoreDir: filepath.Join(t.TempDir(), "store"),
		AgentsDir: filepath.Join(d.dir, "agents"), ScriptsDir: filepath.Join(d.dir, "scripts"), Sandbox: "host", LazySync: true,
		Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return st
}

func TestStations(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	eu, us := upAs(t, d, "eu"), upAs(t, d, "us")
	config, dir := t.TempDir(), t.TempDir()
	web := filepath.Join(dir, "src", "web")
	inner := filepath.Join(web, "api")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	in := func(t *testing.T, at string, code int, words words, env words, args ...string) said {
		t.Helper()
		return atHome(t, config, at, code, words, env, args...)
	}
	do := func(t *testing.T, code int, words words, env words, args ...string) said {
		t.Helper()
		return in(t, dir, code, words, env, args...)
	}
	stationOf := func(t *testing.T, at string, env words, args ...string) string {
		t.Helper()
		s := in(t, at, 0, nil, env, append(words{"config", "explain", "station", "--json"}, args...)...)
		all := decode[[]struct{ Value string }](t, s.out)
		if len(all) != 1 {
			t.Fatalf("%s", s.out)
		}
		return all[0].Value
	}
	do(t, 0, nil, nil, "context", "add", "eu-prod", "--server", eu.URL(), "--station", "eu")
	do(t, 0, nil, nil, "context", "add", "us-prod", "--server", us.URL(), "--station", "us")
	t.Run("CLI-9 stations lists what each station of the contexts has, and one that is not reached says so", func(t *testing.T) {
		do(t, 0, nil, nil, "run", "reader", "look", "--id", "run-of-eu", "--context", "eu-prod")
		do(t, 0, nil, nil, "context", "add", "gone", "--server", "nats://127.0.0.1:1", "--station", "old")
		do(t, 0, words{"eu-prod", "us-prod", "not reached", "127.0.0.1:1"}, nil, "stations", "list")
		rows := decode[[]stationRow](t, do(t, 0, nil, nil, "stations", "list", "--json").out)
		if len(rows) != 3 {
			t.Fatalf("%+v", rows)
		}
		for _, r := range rows {
			switch r.Station {
			case "eu":
				if r.Runs != 1 || r.Open != 0 || r.Events < 5 || r.Bytes < 1000 || r.Last == "" || r.Version == "" || r.Error != "" || r.Current {
					t.Errorf("%+v", r)
				}
			case "us":
				if r.Runs != 0 || r.Error != "" {
					t.Errorf("%+v", r)
				}
			case "old":
				if r.Error == "" {
					t.Errorf("%+v", r)
				}
			default:
				t.Errorf("%+v", r)
			}
		}
		one := decode[[]stationRow](t, do(t, 0, nil, nil, "stations", "list", "--json", "--context", "us-prod").out)
		if len(one) != 1 || one[0].Station != "us" || !one[0].Current {
			t.Errorf("%+v", one)
		}
		do(t, 1, words{"no station could be asked"}, nil, "stations", "list", "--context", "gone")
		do(t, 0, words{"POLICY", "us-prod"}, nil, "stations", "list", "-o", "wide")
		do(t, 4, words{"not permitted"}, nil, "stations", "list", "--server", eu.URL(), "--station", "us")
		do(t, 0, nil, nil, "context", "remove", "gone")
		for _, list := range []words{{"runs"}, {"runs", "--json"}, {"gates"}, {"session", "list"}, {"schedule", "list"}, {"work", "list"}} {
			do(t, 4, words{"cannot see that station", "station us", "inspan stations list"}, nil, append(list, "--server", eu.URL(), "--station", "us")...)
		}
		do(t, 0, words{"No runs"}, nil, "runs", "--context", "us-prod")
	})
	t.Run("CLI-9 a project is routed to a station, by its name and by its directory, and a route is changed on purpose only", func(t *testing.T) {
		do(t, 0, words{"No project is routed"}, nil, "stations", "route")
		do(t, 5, words{`no context reaches a station "eb"`, `did you mean "eu"?`}, nil, "stations", "route", "web", "eb")
		do(t, 0, words{"eu-prod", web}, nil, "stations", "route", "web", "eu", "--dir", web)
		do(t, 0, words{"us-prod"}, nil, "stations", "route", "ops", "us-prod")
		do(t, 0, nil, nil, "run", "reader", "look", "--id", "run-web", "--project", "web")
		do(t, 0, nil, nil, "run", "reader", "look", "--id", "run-ops", "--project", "ops")
		in(t, inner, 0, nil, nil, "run", "reader", "look", "--id", "run-inner")
		for context, want := range map[string]words{"eu-prod": {"run-web", "run-inner"}, "us-prod": {"run-ops"}} {
			s := do(t, 0, want, nil, "runs", "--context", context)
			if strings.Contains(s.out, "run-ops") != (context == "us-prod") {
				t.Errorf("at %s:\n%s", context, s.out)
			}
		}
		in(t, inner, 0, words{"run-inner"}, nil, "runs")
		do(t, 1, words{"--force", "routed to station eu"}, nil, "stations", "route", "web", "us")
		do(t, 1, words{"a directory of project web"}, nil, "stations", "route", "shop", "us", "--dir", web)
		rows := decode[[]stationRow](t, do(t, 0, nil, nil, "stations", "list", "--json", "--context", "eu-prod").out)
		if len(rows) != 1 || len(rows[0].Projects) != 1 || rows[0].Projects[0] != "web" {
			t.Errorf("%+v", rows)
		}
		info, err := os.Stat(filepath.Join(config, "inspan", "routes.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	})
	project := func(t *testing.T, id string) string {
		t.Helper()
		s := do(t, 0, nil, nil, "export", id, "--context", "eu-prod", "--format", "json")
		return decode[struct {
			State struct {
				Created struct {
					Project string `json:"project"`
				} `json:"created"`
			} `json:"state"`
		}](t, s.out).State.Created.Project
	}
	t.Run("PLUS-21 a run in a directory of a project is paid by the project, unless --project says otherwise", func(t *testing.T) {
		for id, want := range map[string]string{"run-inner": "web", "run-web": "web"} {
			if got := project(t, id); got != want {
				t.Errorf("run %s is of project %q, want %q", id, got, want)
			}
		}
		in(t, inner, 0, nil, nil, "run", "reader", "look", "--id", "run-none", "--project", "", "--context", "eu-prod")
		in(t, inner, 0, nil, nil, "run", "reader", "look", "--id", "run-context", "--context", "eu-prod")
		in(t, inner, 0, nil, nil, "run", "reader", "look", "--id", "run-shop", "--project", "shop", "--context", "eu-prod")
		for id, want := range map[string]string{"run-none": "", "run-context": "", "run-shop": "shop"} {
			if got := project(t, id); got != want {
				t.Errorf("run %s is of project %q, want %q", id, got, want)
			}
		}
	})
	t.Run("ID-2 CLI-9 a flag and a variable stand above the route, the route above the chosen context, and explain shows it", func(t *testing.T) {
		do(t, 0, nil, nil, "context", "use", "us-prod")
		if got := stationOf(t, inner, nil); got != "eu" {
			t.Errorf("in the directory of the project the station is %s", got)
		}
		if got := stationOf(t, dir, nil); got != "us" {
			t.Errorf("elsewhere the station is %s", got)
		}
		in(t, inner, 0, words{"route of project web", "eu-prod"}, nil, "config", "explain", "station")
		in(t, inner, 0, words{"eu-prod", "route of project web"}, nil, "context", "show")
		for _, other := range []struct {
			env, args words
			want      string
		}{{nil, words{"--context", "us-prod"}, "us"}, {words{"INSPAN_NATS_CONTEXT=us-prod"}, nil, "us"},
			{words{"INSPAN_STATION=us"}, nil, "us"}, {nil, words{"--station", "other"}, "other"}} {
			if got := stationOf(t, inner, other.env, other.args...); got != other.want {
				t.Errorf("%v %v: the station is %s", other.env, other.args, got)
			}
		}
		do(t, 0, nil, nil, "context", "use", "--none")
	})
	t.Run("CLI-9 a route whose context reaches another station now, or is gone, or a file that is malformed, is an error and never another station", func(t *testing.T) {
		do(t, 0, nil, nil, "context", "add", "eu-prod", "--force", "--server", us.URL(), "--station", "us")
		in(t, inner, 2, words{"routed to station eu", "names station us now"}, nil, "runs")
		do(t, 0, nil, nil, "context", "remove", "eu-prod")
		in(t, inner, 5, words{`context "eu-prod"`, "route of project web"}, nil, "runs")
		do(t, 0, words{"not routed any more"}, nil, "stations", "route", "web", "--remove")
		do(t, 5, words{"has no route"}, nil, "stations", "route", "web", "--remove")
		file := filepath.Join(config, "inspan", "routes.json")
		text(t, file, `{"routes":[{"project":"../x","station":"eu","context":"eu-prod"}]}`)
		in(t, inner, 2, words{"routes.json", "inspan stations route"}, nil, "runs")
		do(t, 0, nil, nil, "version")
	})
}
