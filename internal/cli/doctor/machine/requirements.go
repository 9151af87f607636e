package machine

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/service/all"
)

// requirements looks whether the sandbox of each agent of the agents folder has what its file requires (SBX-21): it
// opens one on an empty workspace, as a run would, and asks there.
func requirements(ctx context.Context, a *app.App) (found []report.Finding) {
	cfg, err := a.Config()
	if err != nil {
		return nil // reported with the settings
	}
	// inspan agents reports what is wrong with files
	agents, _, _ := cfg.AgentDefaults.LoadDir(a.Lookup("INSPAN_AGENTS", "agents"))
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		want := agents[name].Sandbox
		if len(want.Requires) == 0 {
			continue
		}
		f := report.Finding{What: "agent " + name, State: "does not have what it requires"}
		if cfg.Workspace, err = os.MkdirTemp("", "inspan-doctor-"); err != nil {
			f.Hint = err.Error()
			return append(found, f)
		}
		sandboxes, _, err := all.Sandboxes(ctx, cfg)
		if err == nil {
			sb, openErr := sandboxes.OpenAs(ctx, "doctor", "run/doctor", want)
			if err = openErr; err == nil {
				f.OK, f.State = true, "sandbox "+string(sb.Mode())+" has "+strings.Join(want.Requires, ", ")
				err = sb.Destroy(ctx)
			}
		}
		if err = errors.Join(err, os.RemoveAll(cfg.Workspace)); err != nil {
			f.Hint = err.Error()
		}
		found = append(found, f)
	}
	return found
}
