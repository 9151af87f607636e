package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// How long what is tried may take, and how much room a store should have, in bytes: below the first new runs are
// refused.
const (
	sandboxTry = 30 * time.Second
	leastSpace = 80 << 20
	goodSpace  = 1 << 30
)

// tryAll is what the doctor does itself: it leaves nothing behind.
func tryAll(ctx context.Context, a *app.App) []report.Finding {
	cfg, err := a.Config()
	if err != nil {
		return nil // reported with the sandboxes that the settings name
	}
	found := []report.Finding{gitInSandbox(ctx, cfg), folderFinding(a.Folder)}
	if !a.Local && !a.NamesServer() {
		found = append(found, portFinding(ctx, a))
	}
	return found
}

// gitTry is what an agent does at least: a repository, an identity, a commit.
const gitTry = `set -e; git init -q .; git config user.name doctor; git config user.email doctor@localhost; echo tried > tried.txt; git add tried.txt; git commit -q -m tried; git rev-parse --verify -q HEAD`

// gitInSandbox commits in a sandbox as agents get it that ask for none.
func gitInSandbox(ctx context.Context, cfg service.Config) report.Finding {
	f := report.Finding{What: "git commit", Needed: true}
	fail := func(err error) report.Finding {
		f.State, f.Hint = "cannot be tried", err.Error()
		return f
	}
	dir, err := os.MkdirTemp("", "inspan-doctor-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's place for temporary files
	cfg.Workspace = dir
	cfg.SandboxReaches = true // the command is the doctor's own, and there is no gate for it to answer
	ctx, cancel := context.WithTimeout(ctx, sandboxTry)
	defer cancel()
	sandboxes, mode, err := all.Sandboxes(ctx, cfg)
	if err != nil {
		return fail(err)
	}
	sb, err := sandboxes.OpenAs(ctx, "doctor", "tried", events.Sandbox{})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(ctx)) }() // its folder goes anyway
	var said bytes.Buffer
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", gitTry}, Stdout: &said, Stderr: &said})
	switch {
	case err != nil:
		return fail(err)
	case exit.Code != 0:
		f.State = fmt.Sprintf("does not work in sandbox %s: agents cannot commit there", mode)
		f.Hint = view.Clip(lastLine(said.String()), 300) +
			"; another sandbox may do: --sandbox bwrap or host, or INSPAN_SANDBOX"
	default:
		f.OK, f.State = true, fmt.Sprintf("works in sandbox %s", mode)
	}
	return f
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// folderFinding writes a file where a station would be kept, and looks at the room there.
func folderFinding(store string) report.Finding {
	f := report.Finding{What: "store folder", Needed: true, Hint: "name another folder with --store or INSPAN_STORE"}
	path, err := filepath.Abs(store)
	if err != nil {
		f.State = err.Error()
		return f
	}
	at := path
	for { // it may be made below the first folder that is there
		if info, err := os.Stat(at); err == nil {
			if !info.IsDir() {
				f.State = at + " is no folder"
				return f
			}
			break
		}
		at = filepath.Dir(at)
	}
	probe, err := os.CreateTemp(at, ".inspan-doctor-")
	if err != nil {
		f.State = fmt.Sprintf("%s cannot be written: %v", path, err)
		return f
	}
	_, err = probe.WriteString("tried\n")
	err = errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
	if err != nil {
		f.State = fmt.Sprintf("%s cannot be written: %v", path, err)
		return f
	}
	free, known := natsserver.FreeBytes(at)
	f.OK, f.State = true, path+" can be written"
	switch {
	case known && free < leastSpace:
		f.OK, f.State, f.Hint = false, fmt.Sprintf("%s has %s free: new runs are refused", path, view.Bytes(free)),
			"make room on its disk: at least "+view.Bytes(goodSpace)
	case known:
		f.State += ", " + view.Bytes(free) + " free"
	}
	return f
}

// portFinding looks whether inspan up could listen where it does by itself, or whether this project's station runs.
func portFinding(ctx context.Context, a *app.App) report.Finding {
	f := report.Finding{What: "port", OK: true}
	if a.Locate(ctx, a.Folder) {
		f.State = fmt.Sprintf("%s, by station %s of this project (process %d, %s)", a.Record.URL, a.Record.Station,
			a.Record.PID, a.Record.Store)
		return f
	}
	address, err := app.HostPort(a.Server)
	if err != nil {
		return report.Finding{What: "port", State: err.Error()}
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close() // it was only tried
		f.State = address + " is free for inspan up"
		return f
	}
	name, asked := station.Listening(ctx, address)
	if asked == nil {
		f.State = fmt.Sprintf("%s is taken by the NATS server %q", address, name)
		return f
	}
	return report.Finding{What: "port", State: fmt.Sprintf("%s is taken by another program", address),
		Hint: "inspan up --port 0 takes any that is free: " + err.Error()}
}
