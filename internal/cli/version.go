package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// versionCommand is inspan version.
type versionCommand struct {
	*app.App
}

func versionCmd(a *app.App) *cobra.Command {
	c := &versionCommand{App: a}
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  inspan version\n  inspan version --json", Args: app.Args(0),
		RunE: c.run,
	}
}

func (a *versionCommand) run(*cobra.Command, []string) error {
	v := versionInfo()
	if a.JSON {
		return a.PrintJSON(v)
	}
	fmt.Fprintf(a.Out, "inspan %s, events v%d, %s %s\n", v.Version, v.Events, v.Go, v.Platform)
	return nil
}

// build is what this program is.
type build struct {
	Version  string `json:"version"`
	Events   int    `json:"fact_version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionInfo() build {
	return build{Version: service.Version(), Events: events.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" +
		runtime.GOARCH}
}
