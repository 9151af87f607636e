package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorRequirements(t *testing.T) {
	dir := t.TempDir()
	for name, requires := range map[string]string{"sound": "[sh]", "lacking": "[no-such-tool>=2, sh]", "silent": "[]"} {
		file := "---\nname: " + name + "\nmodel: scripted/x\nrequires: " + requires + "\nsandbox: {mode: host}\n---\n{{userInput}}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".prompt"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("INSPAN_AGENTS", dir)
	t.Setenv("INSPAN_SANDBOX_REACHES_STATION", "true") // host is refused otherwise
	t.Run("SBX-21 the doctor looks for what agents require in their sandboxes", func(t *testing.T) {
		s := inspan(t, "doctor", "--json")
		type finding struct{ What, State, Hint string }
		states := map[string]string{}
		for _, f := range decode[[]finding](t, s.out) {
			if strings.HasPrefix(f.What, "agent ") {
				states[f.What] = f.State + f.Hint
			}
		}
		if len(states) != 2 || states["agent sound"] != "sandbox host has sh" || !strings.Contains(states["agent lacking"], "in sandbox host: no-such-tool>=2 is required and missing") {
			t.Errorf("got %v", states)
		}
	})
}
