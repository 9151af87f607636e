package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
)

// named reports whether the command line, the environment or a file names the server.
func (a *app) named() bool { return a.given("server") || a.set("INSPAN_NATS_URL", "") != "" }

// given reports whether a flag is on the command line.
func (a *app) given(flag string) bool {
	return a.cmd != nil && a.cmd.Flags().Changed(flag)
}

// locate finds the station of this project: the one that wrote its record into the store of the working directory, or of one
// above it. Whoever names a server means that one.
func (a *app) locate(ctx context.Context, store string) bool {
	if a.alone || a.named() {
		return false
	}
	dir, err := os.Getwd()
	if err != nil {
		return false
	}
	r, ok := station.Find(ctx, dir, store)
	if !ok {
		return false
	}
	a.server, a.record = r.URL, r
	if !a.given("station") && a.set("INSPAN_STATION", "") == "" {
		a.station = r.Station
	}
	return true
}

// stoppedReaders are the commands that show what is stored and need no service to do it.
var stoppedReaders = []string{"runs", "inspect", "logs", "why", "export", "cost", "gates", "audit"}

// openStopped opens the store of a station that does not run, for a command that only looks. Nothing goes on in it meanwhile.
func (a *app) openStopped(ctx context.Context, cmd *cobra.Command) (c *client.Client, shut func(), err error) {
	store, ok := a.stoppedStore()
	if a.named() || !ok || !slices.Contains(stoppedReaders, cmd.Name()) || a.given("follow") {
		return nil, nil, errNoServer
	}
	st, err := a.start(ctx, local{store: store, sandbox: "auto"}, "", true)
	if err != nil {
		return nil, nil, err
	}
	shut = func() { _ = st.Close(context.WithoutCancel(ctx)) } // nothing was written
	if c, err = operator.On(st.Conn(), st.Name()); err != nil {
		shut()
		return nil, nil, err
	}
	fmt.Fprintf(a.err, "No station runs: this is from the store %s.\n", store)
	return c, shut, nil
}

// stoppedStore is the store of a station in the working directory or above it.
func (a *app) stoppedStore() (string, bool) {
	if filepath.IsAbs(a.folder) {
		return a.folder, station.Stopped(a.folder)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if path := filepath.Join(dir, a.folder); station.Stopped(path) {
			return path, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// command is a command line that reaches the same station as this one, to be copied.
func (a *app) command(words ...string) string {
	env := ""
	if a.ownStore != "" && a.ownStore != a.folder { // which the next command knows as this one did
		env = "INSPAN_STORE=" + shellWord(a.ownStore) + " "
	}
	if a.alone {
		words = append(words, "--local")
	}
	for _, f := range []struct{ name, value string }{{"server", a.address()}, {"creds", a.creds}, {"station", a.station}} {
		if a.given(f.name) && (a.ownStore == "" || f.name == "station") {
			words = append(words, "--"+f.name, f.value)
		}
	}
	for i := range words {
		words[i] = shellWord(words[i])
	}
	return env + "inspan " + strings.Join(words, " ")
}

// ofOwnStation are the flags of a station that run and repl start themselves.
var ofOwnStation = []string{"agents", "scripts", "workspace", "sandbox", "accept-lazy-fsync", "store", "log"}

// refuseOwn refuses the flags that would say how a station is started where one runs.
func (a *app) refuseOwn() error {
	for _, name := range ofOwnStation {
		if a.given(name) {
			return usage("--%s is for a station that this command starts, and station %s runs at %s: leave it out, start the station with it (inspan up), or add --ephemeral for a station of this command's own",
				name, a.station, a.address())
		}
	}
	return nil
}

// idle are the flags that mean nothing to a command, by its first word, and why.
var idle = map[string]struct {
	flags []string
	why   string
}{
	"demo":    {[]string{"server", "creds", "station", "local", "wait", "utc"}, "the demo has a station of its own"},
	"up":      {[]string{"server", "creds", "wait"}, "up starts a station: --listen and --port say where it is reached"},
	"version": {[]string{"server", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"keygen":  {[]string{"server", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"init":    {[]string{"server", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"agent":   {[]string{"server", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
	"guards":  {[]string{"server", "creds", "station", "local", "wait", "utc", "log"}, "it asks no station"},
}

// applies refuses flags that this command would have to ignore.
func (a *app) applies(cmd *cobra.Command) error {
	a.cmd = cmd
	word := cmd
	for word.HasParent() && word.Parent().HasParent() {
		word = word.Parent()
	}
	for _, name := range idle[word.Name()].flags {
		if a.given(name) {
			return usage("--%s means nothing here: %s; leave it out", name, idle[word.Name()].why)
		}
	}
	if a.given("local") && a.alone {
		for _, name := range []string{"server", "creds"} {
			if a.given(name) {
				return usage("--local does without NATS, so --%s means nothing: leave one of them out", name)
			}
		}
	}
	return nil
}

// portTaken says what listens where a station was to listen, and what to do.
func portTaken(ctx context.Context, listen string, err error) error {
	if !errors.Is(err, station.ErrPortInUse) {
		return err
	}
	who := "another program, which is no NATS server,"
	switch name, asked := station.Listening(ctx, listen); {
	case asked == nil && station.StationOf(name) != "":
		who = fmt.Sprintf("station %s of another inspan up", station.StationOf(name))
	case asked == nil:
		who = fmt.Sprintf("the NATS server %q", name)
	}
	host, port, bad := net.SplitHostPort(listen)
	if bad != nil {
		return err
	}
	return fmt.Errorf("port %s of %s is in use: %s listens there; name another port (--port 0 takes any that is free), or use what is there with --server nats://%s", port, host, who, listen)
}
