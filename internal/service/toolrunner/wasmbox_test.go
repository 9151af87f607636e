package toolrunner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/toolrunner"
	"github.com/inspan/inspan/pkg/events"
)

func TestWASM(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 a station that is to run wasm and has no programs says what to do", func(t *testing.T) {
		t.Parallel()
		_, _, err := toolrunner.Sandboxes(t.Context(), toolrunner.Config{Workspaces: service.Workspaces{Workspace: t.TempDir()}, Sandboxes: service.Sandboxes{Sandbox: "wasm"}})
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "INSPAN_WASM_PROGRAMS") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-10 SBX-20 auto never comes to wasm, and an agent that asks for it is told what is missing", func(t *testing.T) {
		t.Parallel()
		sandboxes, mode, err := toolrunner.Sandboxes(t.Context(), toolrunner.Config{Workspaces: service.Workspaces{Workspace: t.TempDir()}, Sandboxes: service.Sandboxes{Sandbox: "auto"}})
		if err != nil || mode == sandbox.WASM {
			t.Fatalf("got %s, %v", mode, err)
		}
		_, err = sandboxes.OpenAs(t.Context(), "x", "ws", events.Sandbox{Mode: "wasm"})
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "INSPAN_WASM_PROGRAMS") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-8 a station with programs has the mode, and its cache where it is told", func(t *testing.T) {
		t.Parallel()
		programs := t.TempDir()
		// The smallest program: a function without a body, exported as _start.
		file := "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b"
		if err := os.WriteFile(filepath.Join(programs, "nothing.wasm"), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
		cache := filepath.Join(t.TempDir(), "cache")
		sandboxes, mode, err := toolrunner.Sandboxes(t.Context(), toolrunner.Config{Workspaces: service.Workspaces{Workspace: t.TempDir()}, Sandboxes: service.Sandboxes{Sandbox: "wasm"}, Interpreted: service.Interpreted{WASMPrograms: []string{programs}, WASMCache: cache}})
		if err != nil || mode != sandbox.WASM {
			t.Fatalf("got %s, %v", mode, err)
		}
		sb, err := sandboxes.OpenAs(t.Context(), "x", "ws", events.Sandbox{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sb.Destroy(t.Context()) }()
		if exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"nothing"}}); err != nil || exit.Code != 0 {
			t.Errorf("got %+v, %v", exit, err)
		}
		if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the cache: %v, %v", info, err)
		}
	})
}
