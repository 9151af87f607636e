package toolrunner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/toolrunner"
	"github.com/inspan/inspan/pkg/events"
)

// touched is a program that leaves a trace wherever it is started.
func touched(t *testing.T) (program, trace string) {
	t.Helper()
	dir := t.TempDir()
	program, trace = filepath.Join(dir, "runsc"), filepath.Join(dir, "trace")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho x >>'"+trace+"'\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, trace
}

func TestGVisor(t *testing.T) {
	t.Parallel()
	config := func(t *testing.T, mode, program string) toolrunner.Config {
		return toolrunner.Config{Workspaces: service.Workspaces{Workspace: t.TempDir()}, Sandboxes: service.Sandboxes{Sandbox: mode}, Interpreted: service.Interpreted{GVisor: program}}
	}
	t.Run("SBX-10 a station that does not name gVisor does not try it, and an agent that does is told what is missing", func(t *testing.T) {
		t.Parallel()
		program, trace := touched(t)
		sandboxes, mode, err := toolrunner.Sandboxes(t.Context(), config(t, "auto", program))
		if err != nil || mode == sandbox.GVisor {
			t.Fatalf("got %s, %v", mode, err)
		}
		if _, err := os.Stat(trace); err == nil {
			t.Error("it was started")
		}
		_, err = sandboxes.OpenAs(t.Context(), "x", "ws", events.Sandbox{Mode: "gvisor"})
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), program) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-20 a station that names gVisor does not start without it", func(t *testing.T) {
		t.Parallel()
		for _, cfg := range []toolrunner.Config{config(t, "gvisor", "no-such-runsc"), {Workspaces: service.Workspaces{Workspace: t.TempDir()}, Sandboxes: service.Sandboxes{Sandbox: "auto", SandboxBackend: "gvisor"}, Interpreted: service.Interpreted{GVisor: "no-such-runsc"}}} {
			if _, _, err := toolrunner.Sandboxes(t.Context(), cfg); !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "INSPAN_GVISOR") {
				t.Errorf("got %v", err)
			}
		}
	})
	t.Run("SBX-10 gVisor is enough where bwrap is the least, and bwrap not where gVisor is", func(t *testing.T) {
		t.Parallel()
		if err := backends.Enough(sandbox.GVisor, sandbox.Bwrap); err != nil {
			t.Error(err)
		}
		if err := backends.Enough(sandbox.Bwrap, sandbox.GVisor); !errors.Is(err, backends.ErrTooWeak) {
			t.Errorf("got %v", err)
		}
	})
}
