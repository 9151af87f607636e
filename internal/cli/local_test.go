package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// TestLocal is a person at a laptop without a NATS server.
func TestLocal(t *testing.T) {
	d := newDesk(t)
	store := filepath.Join(d.dir, "laptop")
	t.Setenv("INSPAN_NATS_ENABLED", "false")
	t.Setenv("INSPAN_STORE", store)
	t.Setenv("INSPAN_AGENTS", filepath.Join(d.dir, "agents"))
	t.Setenv("INSPAN_SCRIPTS", filepath.Join(d.dir, "scripts"))
	t.Setenv("INSPAN_SANDBOX", "host")
	want := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		s := inspan(t, args...)
		if s.code != code {
			t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
		}
		for _, w := range words {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("inspan %s does not say %q:\n%s%s", strings.Join(args, " "), w, s.out, s.err)
			}
		}
		return s
	}
	file := filepath.Join(store, station.LocalFile)
	t.Run("PERS-17 CLI-9 where there is no local store yet, looking says how to make one and makes none", func(t *testing.T) {
		want(t, 1, []string{"inspan run --local"}, "runs")
		if _, err := os.Stat(store); err == nil {
			t.Error("it was made")
		}
		want(t, 2, []string{"--listen"}, "up", "--listen", "127.0.0.1:0")
		want(t, 2, []string{"--detach"}, "run", "reader", "look", "--detach")
	})
	t.Run("PERS-17b a run goes to its end over the local store alone, and is there for other commands afterwards", func(t *testing.T) {
		want(t, 0, []string{"The note is read."}, "run", "reader", "look", "--id", "seen")
		if _, err := os.Stat(filepath.Join(store, "nats")); err == nil {
			t.Error("there is a NATS server after all")
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if runs := decode[[]run.Info](t, want(t, 0, nil, "runs", "--json").out); len(runs) != 1 || runs[0].HarnessID != "seen" || runs[0].Status != "completed" {
			t.Errorf("%+v", runs)
		}
		want(t, 0, []string{"run.completed"}, "logs", "seen", "--json")
		want(t, 0, []string{"completed"}, "why", "seen")
		if r := decode[audit.Report](t, want(t, 0, nil, "audit", "seen", "--json").out); !r.Sound || r.Anchored == 0 || !r.Signed {
			t.Errorf("%+v", r)
		}
		want(t, 0, []string{"is sound"}, "audit", "seen")
	})
	t.Run("PERS-17 GATE-5 a gate waits in the file, is answered by another program, and the run goes on", func(t *testing.T) {
		want(t, 3, []string{"inspan approve gated/"}, "run", "reader", "look", "--id", "gated", "--autonomy", "1")
		for range 8 { // more gates than it has
			gates := decode[[]client.Waiting](t, want(t, 0, nil, "gates", "--json").out)
			if len(gates) == 0 {
				break
			}
			want(t, 0, []string{"approved"}, "approve", gates[0].Run.HarnessID+"/"+gates[0].Gate.ID)
			if s := inspan(t, "run", "reader", "look", "--id", "gated"); s.code != 0 && s.code != 3 {
				t.Fatalf("exit %d %s%s", s.code, s.out, s.err)
			}
		}
		want(t, 0, []string{"The note is read."}, "run", "reader", "look", "--id", "gated")
		want(t, 0, []string{"is sound"}, "audit", "gated")
	})
	t.Run("PERS-17 what is refused is told with its exit code and stands in the list", func(t *testing.T) {
		want(t, 5, []string{`did you mean "reader"?`}, "run", "raeder", "look", "--id", "lost")
		want(t, 4, []string{"already completed"}, "pause", "gated")
		want(t, 0, []string{"bad_move"}, "dead", "list")
	})
	t.Run("PERS-17 SESS-11 SESS-12 sessions last from one program to the next", func(t *testing.T) {
		want(t, 0, []string{"The note is read."}, "run", "reader", "look", "--id", "s-1", "--session", "desk")
		want(t, 0, []string{"The note is read."}, "run", "reader", "look", "--id", "s-2", "--session", "desk")
		want(t, 0, []string{"desk"}, "session", "list")
		if s := want(t, 0, nil, "session", "history", "desk"); strings.Count(s.out, "The note is read.") != 2 {
			t.Error(s.out)
		}
	})
	t.Run("PERS-17 PLUS-1 a run is forked from where it stood", func(t *testing.T) {
		want(t, 0, []string{"inspan up --local"}, "fork", "s-2", "--at", "4", "--id", "forked")
		up(t, 5*time.Minute, filepath.Join(store, "workspace", "run", "forked"))
		want(t, 0, []string{"forked"}, "runs")
		want(t, 0, []string{"is sound"}, "audit", "forked")
	})
	t.Run("PERS-17 PLUS-3 a budget ends a run before a request that does not fit", func(t *testing.T) {
		want(t, 1, []string{"tokens left"}, "run", "reader", "look", "--id", "poor", "--budget-tokens", "5")
	})
	t.Run("PERS-17 one program has the file at a time, and another is told so", func(t *testing.T) {
		held, err := localstore.Open(t.Context(), localstore.Config{Path: file, Station: "default"})
		if err != nil {
			t.Fatal(err)
		}
		want(t, 1, []string{"another process"}, "runs")
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("PERS-17 CLI-9 an interruption before the station is up is called that", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		var out, errOut buffer
		if code := mainWith(ctx, &out, &errOut, "up"); code != 130 || !strings.Contains(errOut.String(), "before the station was up") {
			t.Errorf("exit %d\n%s%s", code, out.String(), errOut.String())
		}
	})
	t.Run("PERS-17 up works off what waits in the file until it is interrupted", func(t *testing.T) {
		held, err := localstore.Open(t.Context(), localstore.Config{Path: file, Station: "default"})
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Publish(t.Context(), "station.default.task", []byte(`{"id":"later","agent":"reader","task":"look"}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
		up(t, 5*time.Minute, filepath.Join(store, "workspace", "run", "later"))
		want(t, 0, []string{"later"}, "runs")
		want(t, 0, []string{"The note is read."}, "run", "reader", "look", "--id", "later")
	})
	t.Run("PERS-17 CLI-9 the store of an earlier version is neither read nor passed over: the command that converts it is named", func(t *testing.T) {
		old := filepath.Join(d.dir, "old")
		t.Setenv("INSPAN_STORE", old)
		file := filepath.Join(old, "station.db")
		b := []byte("SQLite format 3\x00" + strings.Repeat("\x00", 4080))
		if err := errors.Join(os.MkdirAll(old, 0o700), os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"runs"}, {"run", "reader", "look", "--id", "new"}} {
			want(t, 1, []string{file, "make local-store STORE=" + old}, args...)
		}
		if _, err := os.Stat(filepath.Join(old, station.LocalFile)); err == nil {
			t.Error("a new store was begun")
		}
	})
}

// up runs inspan up until a file is there.
func up(t *testing.T, patience time.Duration, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop, interrupt := context.WithCancel(ctx)
	done := make(chan int, 1) // it never waits for us
	var out, errOut buffer
	go func() { done <- mainWith(stop, &out, &errOut, "up") }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil && strings.Contains(out.String(), "Ctrl+C") {
			break // the file may be there before: a command that started the run let it begin
		}
		select {
		case <-tick.C:
		case code := <-done:
			t.Fatalf("exit %d\n%s%s", code, out.String(), errOut.String())
		case <-ctx.Done():
			t.Fatalf("%s did not come\n%s%s", file, out.String(), errOut.String())
		}
	}
	interrupt()
	if code := <-done; code != 0 || !strings.Contains(out.String(), "without NATS") {
		t.Errorf("exit %d\n%s%s", code, out.String(), errOut.String())
	}
}
