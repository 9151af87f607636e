//go:build slow

package pty_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/test/guests"
)

const poem = "A short poem about oxen."

// TestRealScreen drives the screen of Claude Code. Its model is a mock of the provider, and its sandbox is none.
func TestRealScreen(t *testing.T) {
	dir := os.Getenv("INSPAN_TEST_RUNTIMES")
	if dir == "" {
		t.Skip("NOT TESTED: INSPAN_TEST_RUNTIMES names no folder of the programs: use make runtimes")
	}
	g := guests.All()[0]
	mock := guests.Serve(t, dir, g.Fixtures(map[string][]guests.Step{"poem": {{Text: poem}, {Text: poem}}}, nil))
	s := newStage(t, "")
	s.runtime = claude(t, g.Install(t, dir), mock.URL)
	t.Run("ID-8 PLUS-12c CONT-4 Claude Code works on a prompt at its screen, is killed, and goes on in its session", func(t *testing.T) {
		c := s.start("")
		r, err := c.Prompt(t.Context(), guests.KeyOf("poem")+"\nin two lines, please")
		if err != nil || r.Failed || !strings.Contains(r.Text, poem) {
			t.Fatalf("got %+v, %v", r, err)
		}
		list, err := s.sandbox.Processes(t.Context())
		if err != nil || len(list) == 0 {
			t.Fatalf("got %v, %v", list, err)
		}
		for _, p := range list {
			_ = s.sandbox.Kill(t.Context(), p.PID) // one of them ends with another
		}
		if _, err := c.Prompt(t.Context(), guests.KeyOf("poem")); !errors.Is(err, runtime.ErrEnded) {
			t.Errorf("got %v", err)
		}
		r, err = s.start(session).Prompt(t.Context(), guests.KeyOf("poem")+" again")
		if err != nil || r.Failed || strings.Count(r.Text, poem) != 2 {
			t.Errorf("got %+v, %v", r, err)
		}
		t.Logf("its screen:\n%s", r.Text)
	})
}

// claude is the interactive program, without the proxy that its model has in a station.
func claude(t *testing.T, program, url string) events.Runtime {
	t.Helper()
	e, err := runtime.Parse("claude-screen.toml", []byte(strings.ReplaceAll(guests.Screen, "PROGRAM", program)))
	if err != nil {
		t.Fatal(err)
	}
	r := e.Runtime()
	r.Model = nil
	r.Env["ANTHROPIC_BASE_URL"], r.Env["ANTHROPIC_API_KEY"] = url, "no-key-of-anyone"
	return r
}
