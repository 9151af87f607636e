package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// groupOf is the group of a command, or of the one above it.
func groupOf(cmd *cobra.Command) string {
	for ; cmd != nil; cmd = cmd.Parent() {
		if cmd.GroupID != "" {
			return cmd.GroupID
		}
	}
	return ""
}

// ignored are flags that mean nothing to a command, and why.
type ignored struct {
	flags []string
	why   string
}

// ignoredFlags are those of a command, by its first word or, before that, by all of its words.
var ignoredFlags = map[string]ignored{
	"demo": {[]string{"server", "context", "creds", "station", "local", "wait", "utc"},
		"the demo has a station of its own"},
	"up": {[]string{"server", "context", "creds", "wait"},
		"up starts a station: --listen and --port say where it is reached"},
	"stations move": {[]string{"server", "context", "creds", "station", "local"},
		"STATION, --from and --to say what is moved, and where to"},
	"version":    {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"keygen":     {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"init":       {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"agent":      {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"space plan": {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"agent push": {[]string{"utc", "log"}, "it prints no time and starts no station"},
	"clean":      {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"trust":      {[]string{"server", "context", "creds", "station", "wait", "utc", "log"}, "it asks no station"},
	"guards":     {[]string{"server", "context", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
}

// CheckFlags refuses flags that this command would have to ignore.
func (a *App) CheckFlags(cmd *cobra.Command) error {
	a.Cmd = cmd
	word := cmd
	for word.HasParent() && word.Parent().HasParent() {
		word = word.Parent()
	}
	no, ok := ignoredFlags[strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")]
	if !ok {
		no = ignoredFlags[word.Name()]
	}
	for _, name := range no.flags {
		if a.Given(name) {
			return Usage("--%s means nothing here: %s; leave it out", name, no.why)
		}
	}
	if a.Given("local") && a.Local {
		for _, name := range []string{"server", "creds"} {
			if a.Given(name) {
				return Usage("--local does without NATS, so --%s means nothing: leave one of them out", name)
			}
		}
	}
	if slices.Contains(no.flags, "context") || slices.Contains(unconnected, word.Name()) {
		return nil
	}
	return a.UseContext()
}

// unconnected are commands that reach no station themselves.
var unconnected = []string{"context", "config", "stations", "completion", "help", cobra.ShellCompRequestCmd,
	cobra.ShellCompNoDescRequestCmd, "inspan"}
