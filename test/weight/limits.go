package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits. What depends on the load of the machine is a ratio to something measured beside it.
const (
	// maxSize is of a stripped inspan for Linux on amd64, in bytes. It was 60 MB before the gateway with its MCP server,
	// mail, and the meter of runtimes, which brought 2 MB, and 61 before the console, delivery, merge queues, named agents
	// and A2A, ACP and AG-UI, which brought 1.6 MB, and 63 before the documentation in the console (0.7 MB), roles, halts,
	// callbacks, messages and assignments, and 64 before the importers, the Synadia Agent Protocol, OpenID Connect, work
	// items of agents and steps, and reminders, which brought 0.6 MB, and 65 before budgets, backups, children in
	// worktrees, the driver of programs with a screen, and wake-ups, which brought 0.8 MB. It was 66 before the local
	// store did without SQLite, which was 3.6 MB, 63 before archives in buckets, deletion and routes, which brought
	// 0.9 MB, 64 before the linker could leave out the methods that are not called, which were 7 MB, and 58 before there
	// was one copy of the kernel's ledger for all aggregates, and of sorts for all types, which is 1.2 MB less.
	maxSize = 57 << 20
	// maxSource is the Go source that is compiled into inspan, and maxCold the CPU of a build from nothing, both
	// relative to nats-server. The source was 3.5 before the gateway, mail and the meter, and 3.6 before the local store
	// did without SQLite, and 2.9 before it did without json-iterator.
	maxSource, maxCold = 2.85, 3.5
	// maxHelp is the CPU of inspan --help, relative to a program that does nothing: 25 ms where that takes 1.5 ms is 17,
	// and beside other programs a start of many pages loses more than one of few: 18 were measured. It was 9 to 10 when
	// it was set, 16 before callbacks, assignments, importers and backups, and 20 before regular expressions were compiled
	// at their first use: 12 were measured then. A third is the schema checker's (ADR 0090).
	maxHelp = 16
	// maxHelpRSS is the resident memory of inspan --help, two thirds of which are pages of the program that the system
	// shares between processes. How many of them a fault brings in is the system's choice. It was 36 before
	// the first-run set-up, contexts, completion, MCP and REPL commands, which brought 1 MB, 38 before the gateway,
	// mail and the meter, 39 before delivery, named agents and the other protocols, 40 before roles, halts and
	// callbacks, 41 before accounts on servers of others, stations and deletion, and 43 before methods that nothing calls
	// were left out: 36 were measured then.
	maxHelpRSS = 40 << 20
	// maxSuite is the CPU of make test, user and system, once its programs are compiled, relative to a build of
	// nats-server from nothing: the same tests took 568, 616, 629 and 708 s within a day, and that build 53 to 63 s. On
	// two processors that are otherwise idle nine of them are about five minutes. It was 540 s before it was a ratio.
	maxSuite = 12.0
	// maxIdleRSS is the resident memory of inspan up with nothing to do, as the collector and the page cache have it. A
	// third is its own, the rest pages of the program and of its files. It was 66 before halts, which each role receives
	// by itself and the planner by a consumer more (2 MB of its own), and the code of what came with them, and 71 before
	// methods that nothing calls were left out, and 68 before the kernel's ledger was compiled once for all aggregates: 60
	// to 63 were measured then.
	maxIdleRSS = 66 << 20
)

// unlinked are modules that were measured and are not worth what they weigh in every build. The reason is an ADR.
var unlinked = map[string]string{
	"github.com/openai/openai-go":            "0018: 64 s of CPU of a cold build",
	"github.com/anthropics/anthropic-sdk-go": "0018: 34 s",
	"google.golang.org/genai":                "0018: 10 s with what it needs",
	"google.golang.org/grpc":                 "0018: 6 s with what it needs; OTLP goes over HTTP",
	"cloud.google.com/go":                    "0018: it came with genai",
	"modernc.org/sqlite":                     "0084: 48 s with what it needs; the local store is a file of bbolt",
	"modernc.org/libc":                       "0084: it came with SQLite",
	"github.com/modern-go/reflect2":          "0091: the linker leaves out no method beside it",
	"github.com/json-iterator/go":            "0091: it needs reflect2",
}

// weight is what was measured.
type weight struct {
	machine string
	size    int64
	// packages and source are those compiled into inspan and into nats-server.
	packages, natsPackages int
	source, natsSource     int64
	// linked are the packages of unlinked modules.
	linked []string
	// byName are the functions that can call any method by its name.
	byName []string
	// help and nothing are the CPU of inspan --help and of a program that does nothing, each the least of some runs.
	help, nothing, helpWall time.Duration
	helpRSS                 int64
	// upWall is from the start of inspan up to its word that it is up.
	upWall  time.Duration
	idleRSS int64
	// suite is the CPU of make test, suiteWall how long it took; zero where it was not run.
	suite, suiteWall time.Duration
	// cold and natsCold are the CPU of builds from nothing; zero where none was made.
	cold, natsCold time.Duration
}

func ratio[N int64 | time.Duration](a, b N) float64 { return float64(a) / float64(max(b, 1)) }

// above is what is above its limit.
func (w weight) above() error {
	var errs []error
	check := func(name string, got, limit float64, unit string) {
		if got > limit {
			errs = append(errs, fmt.Errorf("%s is %.1f%s, above its limit of %.1f%s (test/weight/limits.go)", name, got, unit,
				limit, unit))
		}
	}
	const mb = 1 << 20
	check("the size of inspan", float64(w.size)/mb, maxSize/mb, " MB")
	check("the source of inspan", ratio(w.source, w.natsSource), maxSource, " x that of nats-server")
	check("the start of inspan --help", ratio(w.help, w.nothing), maxHelp, " x that of a program that does nothing")
	check("the memory of inspan --help", float64(w.helpRSS)/mb, maxHelpRSS/mb, " MB")
	check("the memory of inspan up", float64(w.idleRSS)/mb, maxIdleRSS/mb, " MB")
	check("make test", ratio(w.suite, w.natsCold), maxSuite, " x a build of nats-server from nothing")
	check("a cold build", ratio(w.cold, w.natsCold), maxCold, " x that of nats-server")
	if len(w.byName) > 0 {
		errs = append(errs, fmt.Errorf("the linker leaves out no method of inspan, which makes it 6 MB larger (ADR 0091): %d functions "+
			"can call any by its name, the first is %s", len(w.byName), w.byName[0]))
	}
	seen := map[string]bool{}
	for _, p := range w.linked {
		if seen[reason(p)] {
			continue // one package of each is enough
		}
		seen[reason(p)] = true
		errs = append(errs, fmt.Errorf("inspan links %s, which it does without: %s (go mod why %s)", p, reason(p), p))
	}
	return errors.Join(errs...)
}

func reason(pkg string) string {
	for module, why := range unlinked {
		if pkg == module || strings.HasPrefix(pkg, module+"/") {
			return why
		}
	}
	return ""
}
