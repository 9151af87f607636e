package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// atHome runs a command in a directory with a home of its own, and looks at its exit code and for words in what it says.
func atHome(t *testing.T, home, dir string, code int, words words, env words, args ...string) said {
	t.Helper()
	s := process(t, dir, append(env, "XDG_CONFIG_HOME="+home, "HOME="+home), args...)
	if s.code != code {
		t.Fatalf("inspan %v: exit %d, want %d\n%s%s", args, s.code, code, s.out, s.err)
	}
	for _, w := range words {
		if !strings.Contains(s.out+s.err, w) {
			t.Errorf("inspan %v has no %q:\n%s%s", args, w, s.out, s.err)
		}
	}
	return s
}

func TestContexts(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	d.want(0, nil, "run", "reader", "look", "--id", "run-far")
	for s := d.do("runs"); !strings.Contains(s.out, "run-far"); s = d.do("runs") {
		pause(t)
	}
	config, dir := t.TempDir(), t.TempDir()
	do := func(t *testing.T, code int, words words, env words, args ...string) said {
		t.Helper()
		return atHome(t, config, dir, code, words, env, args...)
	}
	nowhere := "nats://127.0.0.1:1"
	t.Run("CLI-9 a context is added, listed, shown, chosen and removed, in a file for its owner alone", func(t *testing.T) {
		do(t, 0, words{"There are no contexts"}, nil, "context", "list")
		do(t, 0, words{"inspan context use lab"}, nil, "context", "add", "lab", "--server", d.station.URL(), "--station", "default")
		do(t, 1, words{"is there already", "--force"}, nil, "context", "add", "lab", "--server", d.station.URL())
		info, err := os.Stat(filepath.Join(config, "inspan", "contexts", "lab.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		do(t, 0, words{"run-far"}, nil, "runs", "--context", "lab")
		do(t, 0, words{"run-far"}, words{"INSPAN_NATS_CONTEXT=lab"}, "runs")
		do(t, 0, nil, nil, "context", "use", "lab")
		do(t, 0, words{"run-far"}, nil, "runs")
		do(t, 0, words{"*", "lab", d.station.URL()}, nil, "context", "list")
		do(t, 0, words{`"current": true`, `"station": "default"`}, nil, "context", "show", "--json")
		if s := do(t, 0, nil, nil, "__complete", "why", "run-f"); !strings.HasPrefix(s.out, "run-far\t") {
			t.Errorf("completed %q", s.out)
		}
	})
	t.Run("ID-2 CLI-9 flag, variable, context, built-in: the first that says it, and explain shows which", func(t *testing.T) {
		do(t, 1, words{"127.0.0.1:1"}, nil, "runs", "--server", nowhere)
		do(t, 1, words{"127.0.0.1:1"}, words{"NATS_URL=" + nowhere}, "runs")
		do(t, 0, words{"run-far"}, words{"NATS_URL=" + nowhere}, "runs", "--context", "lab")
		do(t, 2, words{"--server and --context"}, nil, "runs", "--context", "lab", "--server", nowhere)
		do(t, 0, words{d.station.URL(), "lab (context)"}, nil, "config", "explain", "nats.url")
		do(t, 0, words{nowhere, "NATS_URL"}, words{"NATS_URL=" + nowhere}, "config", "explain", "nats.url")
		do(t, 0, words{"lab (context)", "NATS_URL"}, words{"NATS_URL=" + nowhere}, "config", "explain", "nats.url", "--context", "lab")
		do(t, 0, words{"--server", nowhere}, nil, "config", "explain", "nats.url", "--server", nowhere)
	})
	t.Run("CLI-9 a context that is not there is named with the nearest, and breaks no command that reaches no station", func(t *testing.T) {
		do(t, 5, words{`did you mean "lab"?`, "--context"}, nil, "runs", "--context", "lap")
		do(t, 5, words{"INSPAN_NATS_CONTEXT"}, words{"INSPAN_NATS_CONTEXT=zzzz"}, "runs")
		do(t, 0, nil, words{"INSPAN_NATS_CONTEXT=zzzz"}, "version")
		do(t, 0, nil, words{"INSPAN_NATS_CONTEXT=zzzz"}, "context", "list")
		do(t, 2, words{"no name of a context"}, nil, "runs", "--context", "../../etc/passwd")
	})
	t.Run("SAFE-13 CLI-9 a context holds no secret, and a password of the nats program is never shown", func(t *testing.T) {
		s := do(t, 2, words{"holds no secrets", "***"}, nil, "context", "add", "bad", "--server", "nats://me:hunter2@host:4222")
		if strings.Contains(s.err, "hunter2") {
			t.Error(s.err)
		}
		text(t, filepath.Join(config, "nats", "context", "far.json"), `{"url":"`+d.station.URL()+`"}`)
		text(t, filepath.Join(config, "nats", "context", "login.json"), `{"url":"`+nowhere+`","user":"me","password":"hunter2"}`)
		text(t, filepath.Join(config, "nats", "context", "nsc.json"), `{"url":"`+nowhere+`","nsc":"nsc://x"}`)
		do(t, 0, words{"run-far"}, nil, "runs", "--context", "nats:far")
		for _, args := range []words{{"context", "list", "-o", "wide"}, {"context", "list", "--json"}, {"context", "show", "nats:login"}, {"config", "explain", "--context", "nats:login"},
			{"config", "explain", "nats.url", "--context", "nats:login", "--json"}} {
			if s := do(t, 0, words{"127.0.0.1:1"}, nil, args...); strings.Contains(s.out+s.err, "hunter2") {
				t.Errorf("%v shows the password:\n%s%s", args, s.out, s.err)
			}
		}
		if s := do(t, 1, words{"***@127.0.0.1:1"}, nil, "runs", "--context", "nats:login"); strings.Contains(s.out+s.err, "hunter2") {
			t.Error(s.err)
		}
		do(t, 2, words{"does not know nsc"}, nil, "runs", "--context", "nats:nsc")
		do(t, 2, words{"nats context rm far"}, nil, "context", "remove", "nats:far")
	})
	t.Run("CLI-9 a run of a context never goes to a station of its own", func(t *testing.T) {
		do(t, 0, nil, nil, "context", "add", "gone", "--server", nowhere)
		do(t, 1, words{"no NATS server at " + nowhere}, nil, "run", "reader", "look", "--context", "gone")
		do(t, 2, words{"--ephemeral", "--context"}, nil, "run", "reader", "look", "--context", "lab", "--ephemeral")
		do(t, 2, words{"--local", "--context"}, nil, "runs", "--context", "lab", "--local")
		do(t, 2, words{"--context means nothing"}, nil, "version", "--context", "lab")
		do(t, 2, words{"no such file"}, nil, "context", "add", "x", "--server", nowhere, "--creds", "none.creds")
	})
	t.Run("CLI-9 one that is removed is chosen no more", func(t *testing.T) {
		do(t, 0, nil, nil, "context", "remove", "lab")
		do(t, 5, words{"no context is in force"}, nil, "context", "show")
		do(t, 2, words{"--none"}, nil, "context", "use")
		do(t, 0, nil, nil, "context", "use", "--none")
	})
}
