package pool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/pkg/events"
)

func TestAutoByCommands(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for name, mode := range map[string]os.FileMode{"forge": 0o755, "notes.txt": 0o644} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	sandboxes, err := NewOpener(Config{Root: t.TempDir(), Default: sandbox.Host, Env: []string{"PATH=" + bin},
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New("")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want events.Sandbox
		mode sandbox.Mode
	}{
		"auto works on this machine where it has the commands":      {events.Sandbox{Mode: "auto", Backend: "docker", Requires: []string{"forge>=1"}}, sandbox.Host},
		"so it does where no mode is given":                         {events.Sandbox{Backend: "docker", Requires: []string{"forge"}}, sandbox.Host},
		"auto takes the configured backend where one is missing":    {events.Sandbox{Mode: "auto", Backend: "docker", Requires: []string{"forge", "other"}}, sandbox.Docker},
		"what cannot be executed is no command":                     {events.Sandbox{Mode: "auto", Backend: "docker", Requires: []string{"notes.txt"}}, sandbox.Docker},
		"auto takes the configured backend where nothing is needed": {events.Sandbox{Mode: "auto", Backend: "docker"}, sandbox.Docker},
		"auto never goes below the least isolation":                 {events.Sandbox{Mode: "auto", Backend: "docker", MinIsolation: "bwrap", Requires: []string{"forge"}}, sandbox.Docker},
		"a mode that is named is that one":                          {events.Sandbox{Mode: "docker", Requires: []string{"forge"}}, sandbox.Docker},
		"without a backend it is the station's":                     {events.Sandbox{Mode: "auto", Requires: []string{"other"}}, sandbox.Host},
	} {
		t.Run("SBX-10 SBX-21 "+name, func(t *testing.T) {
			t.Parallel()
			if got := sandboxes.Mode(c.want); got != c.mode {
				t.Errorf("got %s, want %s", got, c.mode)
			}
		})
	}
}
