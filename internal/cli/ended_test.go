package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/pkg/run"
)

// TestEnded has the toolrunner of a station in one process learn that a run has ended.
func TestEnded(t *testing.T) {
	t.Parallel()
	t.Run("WS-5 inspan up removes the workspace of a run when it ends, where that is asked for", func(t *testing.T) {
		t.Parallel()
		dir := newDesk(t).dir
		upWith(t, dir, []string{"INSPAN_WORKSPACE_CLEANUP_ON_COMPLETE=true"}, os.Stderr, "--port", "0", "--agents", "agents", "--scripts", "scripts")
		if s := process(t, dir, nil, "run", "reader", "look", "--id", "r"); s.code != 0 {
			t.Fatal(s.out, s.err)
		}
		s := decode[run.State](t, process(t, dir, nil, "inspect", "r", "--json").out)
		for at := filepath.Join(dir, ".inspan", "workspace", s.Created.Workspace); ; {
			if _, err := os.Stat(at); err != nil {
				break
			}
			process(t, dir, nil, "runs")
		}
	})
}
