// Package machine tries what this machine can do for agents: programs, sandboxes, a commit, the store, the port. It
// leaves nothing behind.
package machine

import (
	"cmp"
	"context"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/doctor/report"
	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/helper"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
)

// Findings are what there is.
func Findings(ctx context.Context, a *app.App) []report.Finding {
	return slices.Concat(host(ctx), optIn(ctx, a), requirements(ctx, a), tryAll(ctx, a))
}

// host looks for the programs that agents need, and tries the sandboxes of every machine.
func host(ctx context.Context) []report.Finding {
	found := []report.Finding{{What: "inspan", OK: true, State: service.Version() + ", " + runtime.Version() + " " +
		runtime.GOOS + "/" + runtime.GOARCH}}
	for _, p := range []struct{ name, arg, hint string }{
		{"git", "--version", "the git tools and the demo need it: install git"},
		{"bash", "--version", "the tool bash needs it: install bash"},
		{"go", "version", "agents that write Go need it"},
	} {
		out, err := exec.CommandContext(ctx, p.name, p.arg).Output()
		first, _, _ := strings.Cut(string(out), "\n")
		found = append(found, report.Finding{What: p.name, OK: err == nil, State: cmp.Or(first, "not found"), Hint: p.hint,
			Needed: p.name != "go"})
	}
	found = append(found, helperFinding(), gitIsolation(ctx))
	set := backends.Local("")
	for _, mode := range []sandbox.Mode{sandbox.Bwrap, sandbox.Landlock, sandbox.Host} {
		b, err := set.Pick(ctx, mode)
		found = append(found, sandboxFinding(mode, b, err))
	}
	return found
}

// helperFinding reports what sandboxes start in the place of this program.
func helperFinding() report.Finding {
	path, err := helper.Installed()
	if err != nil {
		return report.Finding{What: "sandbox helper",
			State: "this program itself, which makes each command in a sandbox start tens of milliseconds later",
			Hint:  err.Error() + " (put " + helper.Name + " of the same build beside it: make build makes both)"}
	}
	return report.Finding{What: "sandbox helper", OK: true, State: path}
}

// gitIsolation reports whether git, which works outside of sandboxes, stays in a tree that commands change meanwhile.
func gitIsolation(ctx context.Context) report.Finding {
	if _, err := wall.Find(ctx, ""); err != nil {
		return report.Finding{What: "git walls", State: "none: a command can lead git out of its workspace",
			Hint: err.Error() + " (see Git and the commands beside it in docs/git.md)"}
	}
	return report.Finding{What: "git walls", OK: true, State: "links that come while git works are not followed"}
}

func sandboxFinding(mode sandbox.Mode, b sandbox.Backend, err error) report.Finding {
	f := report.Finding{What: "sandbox " + string(mode), OK: err == nil, State: "works"}
	if err != nil {
		f.State, f.Hint = "does not work", err.Error()
	} else {
		f.Isolation = b.Capabilities()
	}
	return f
}

// reachFinding reports whether the commands of this machine's own sandboxes could answer the gates of their own run.
func reachFinding(ctx context.Context, cfg service.Config) report.Finding {
	f := report.Finding{What: "gates", OK: true,
		State: "commands of sandboxes cannot connect to the station, also with an open network"}
	b, err := backends.Local("").Choose(ctx, backends.Policy{Mode: sandbox.Mode(cfg.Sandbox),
		Backend: sandbox.Mode(cfg.SandboxBackend), Min: sandbox.Mode(cfg.SandboxMin)})
	if err != nil { // it is reported for the sandbox itself, or the mode is one by name
		return f
	}
	if said := all.Toolrunner(cfg).Reaches(b.Mode()); said != "" {
		f.OK, f.State, f.Hint = false, "commands of sandboxes may reach the station", said
	} else if cfg.OnlySigned {
		f.State = "only signed answers are accepted"
	}
	return f
}

// optIn looks at the sandboxes that the settings name besides those of every machine.
func optIn(ctx context.Context, a *app.App) []report.Finding {
	cfg, err := a.Config()
	if err != nil {
		return []report.Finding{{What: "settings", State: "wrong", Hint: err.Error()}}
	}
	found := []report.Finding{reachFinding(ctx, cfg)}
	for _, b := range all.Toolrunner(cfg).OptIn() {
		found = append(found, sandboxFinding(b.Mode(), b, b.Probe(ctx)))
	}
	return found
}
