package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// The section of docs/performance.md stands between these lines.
const (
	begin = "<!-- written by go run ./test/weight -->\n"
	end   = "<!-- end -->\n"
)

// table shows each number that was measured with its limit.
func (w weight) table() string {
	var b strings.Builder
	row := func(what, got, limit string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", what, got, limit) }
	const mb = 1 << 20
	b.WriteString("| | measured | limit |\n| --- | ---: | ---: |\n")
	if w.cold > 0 {
		row("CPU of a cold build, relative to nats-server", fmt.Sprintf("%.2f x (%.0f s against %.0f s)",
			ratio(w.cold, w.natsCold), w.cold.Seconds(), w.natsCold.Seconds()), fmt.Sprintf("%.1f x", maxCold))
	}
	if w.source > 0 {
		row("Go source compiled, relative to nats-server", fmt.Sprintf("%.2f x (%.1f MB, %d packages against %.1f MB, %d)",
			ratio(w.source, w.natsSource), float64(w.source)/mb, w.packages,
			float64(w.natsSource)/mb, w.natsPackages), fmt.Sprintf("%.1f x", maxSource))
	}
	if w.size > 0 {
		row("size of `inspan`, stripped", fmt.Sprintf("%.1f MB", float64(w.size)/mb), fmt.Sprintf("%d MB", maxSize/mb))
	}
	if w.help > 0 {
		row("CPU of `inspan --help`, relative to a program that does nothing", fmt.Sprintf("%.1f x (%s against %s)",
			ratio(w.help, w.nothing), short(w.help), short(w.nothing)), fmt.Sprintf("%d x", maxHelp))
		row("time of `inspan --help`", short(w.helpWall), "")
		row("resident memory of `inspan --help`", fmt.Sprintf("%.1f MB", float64(w.helpRSS)/mb),
			fmt.Sprintf("%d MB", maxHelpRSS/mb))
	}
	if w.upWall > 0 {
		row("time until `inspan up` is up", short(w.upWall), "")
	}
	if w.idleRSS > 0 {
		row("resident memory of `inspan up`, idle", fmt.Sprintf("%.1f MB", float64(w.idleRSS)/mb),
			fmt.Sprintf("%d MB", maxIdleRSS/mb))
	}
	if w.suite > 0 {
		row("CPU of `make test`, compiled, relative to a cold build of nats-server", fmt.Sprintf("%.1f x (%.0f s against %.0f s)",
			ratio(w.suite, w.natsCold), w.suite.Seconds(), w.natsCold.Seconds()), fmt.Sprintf("%.0f x", maxSuite))
		row("time of `make test`, compiled", fmt.Sprintf("%.0f s", w.suiteWall.Seconds()), "")
	}
	return b.String()
}

func short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

func (w weight) section() string {
	return begin + "\n## Weight\n\nMeasured by `go run ./test/weight -cold -suite -write` on " + w.machine + `. Times are the least of ` + fmt.Sprint(starts) + ` starts. The tests of
` + "`test/weight`" + ` hold all limits but those of the cold build and of ` + "`make test`" +
		`, which the command holds.

` + w.table() + "\n" + end
}

var section = regexp.MustCompile("(?s)" + regexp.QuoteMeta(begin) + ".*?" + regexp.QuoteMeta(end))

// insert replaces the section of a page, or adds it at the end.
func insert(path, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(b)
	if at := section.FindStringIndex(page); at != nil {
		page = page[:at[0]] + text + page[at[1]:]
	} else {
		page += "\n" + text
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
