package app

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// Settings are what the environment and the configuration files say.
type Settings struct {
	Layers service.Layers
	// BadFiles is what is wrong with the files.
	BadFiles error
	// approver is the one that the context names; "" where it names none.
	approver string
	// Routed is the route of the project that the command is for, as FindRoute found it; its Project is empty where there
	// is none.
	Routed Route
}

func firstSet(fallback string, names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return fallback
}

// Me is who answers gates and steers where the command line does not say: in a context the one that it names.
func (s *Settings) Me() string {
	if s.approver != "" {
		return s.approver
	}
	name := s.Lookup("INSPAN_APPROVER", firstSet("", "USER", "LOGNAME"))
	if name == "" { // a container, a service, a terminal that was started without a login
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	if !events.ValidID(name) {
		return ""
	}
	return name
}

// Lookup is what the environment or a configuration file says of a variable, else fallback. Flags take it as their
// default, so that they win.
func (s *Settings) Lookup(variable, fallback string) string {
	return s.Layers.Lookup(variable, fallback)
}

// IsSet reports whether the environment or a configuration file says anything of a variable, also where it is a secret.
func (s *Settings) IsSet(variable string) bool {
	for _, e := range s.Layers.Explain() {
		if e.Variable == variable {
			return e.Origins[0].Layer != service.FromDefault
		}
	}
	return false
}

// DefaultModel is the model of agents that no one named one for: the configured one, else that of the first provider
// whose key is set; empty where there is none.
func (s *Settings) DefaultModel() string {
	if m := s.Lookup("INSPAN_DEFAULT_MODEL", ""); m != "" {
		return m
	}
	for _, p := range catalog.Providers() {
		if s.IsSet(p.Variable) {
			return p.Model
		}
	}
	return ""
}

// Config is the configuration of a station in this process, before flags.
func (s *Settings) Config() (service.Config, error) {
	cfg, err := s.Layers.Config()
	if err != nil {
		return cfg, Usage("%w", err)
	}
	return cfg, nil
}

// WarnOfFiles prints the warnings about configuration files.
func (a *App) WarnOfFiles() {
	for _, w := range a.Layers.Warnings {
		fmt.Fprintf(a.Err, "inspan: %s\n", terminal.Sanitize(w.String()))
	}
}

// CheckFiles stops a command where a configuration file is wrong, unless it does not need any.
func (a *App) CheckFiles(cmd *cobra.Command) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "inspan ")
	first, _, _ := strings.Cut(path, " ")
	if a.BadFiles == nil || slices.Contains([]string{"version", "help", "completion", "init", "keygen", "__complete",
		"__completeNoDesc"}, first) || slices.Contains([]string{"config path", "config set", "config unset"}, path) {
		return nil
	}
	return Usage("%w", a.BadFiles)
}
