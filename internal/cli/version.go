package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// versionCommand is inspan version.
type versionCommand struct {
	App *app.App
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
	if a.App.JSON {
		return a.App.PrintJSON(v)
	}
	fmt.Fprintln(a.App.Out, v)
	return nil
}

// build is what this program is, and from what it was built.
type build struct {
	Version  string `json:"version"`
	Events   int    `json:"fact_version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Commit and Date are those of the source, empty where it was not built in a repository; Modified says that the
	// source differed from the commit.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
}

func versionInfo() build {
	b := build{Version: service.Version(), Events: events.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" +
		runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	text := "inspan " + b.Version
	if b.Commit != "" {
		text += fmt.Sprintf(" (commit %.12s of %.10s", b.Commit, b.Date)
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return fmt.Sprintf("%s, events v%d, %s %s", text, b.Events, b.Go, b.Platform)
}
