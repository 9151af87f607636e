package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing/fstest"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/events"
)

// formulas takes formulas and workflows. Each is loaded with those beside it, which it may be made of.
func (f *folder) formulas(files []string) {
	beside := map[string]fstest.MapFS{}
	for _, at := range files {
		text, err := f.read(at)
		if err != nil {
			f.refuse("formula", formula.NameOf(at), at, err)
			continue
		}
		dir := path.Dir(at)
		if beside[dir] == nil {
			beside[dir] = fstest.MapFS{}
		}
		beside[dir][path.Base(at)] = &fstest.MapFile{Data: text}
	}
	for _, at := range files {
		file, there := beside[path.Dir(at)][path.Base(at)]
		name := formula.NameOf(at)
		kind := "formula"
		if !strings.HasSuffix(at, formula.TOML) {
			kind = "workflow"
		}
		if !there || strings.HasSuffix(at, formula.Overlay) {
			continue
		}
		if err := events.CheckID(kind, name); err != nil {
			f.refuse(kind, name, at, err)
			continue
		}
		if _, err := formula.Load(beside[path.Dir(at)], name); err != nil {
			f.refuse(kind, name, at, first(err))
			continue
		}
		f.file(kind, name, at, path.Join("formulas", path.Base(at)), file.Data)
	}
}

// prompts takes agent files in the dialects that are known.
func (f *folder) prompts(files []string) {
	for _, at := range files {
		name := strings.TrimSuffix(path.Base(at), ".prompt")
		text, err := f.read(at)
		if err == nil {
			err = events.CheckID("agent", name)
		}
		if err != nil {
			f.refuse("agent", name, at, err)
			continue
		}
		_, warnings, err := agentfile.Parse(path.Base(at), text)
		if err != nil {
			f.refuse("agent", name, at, first(err))
			continue
		}
		var notes []string
		for _, w := range warnings {
			notes = append(notes, strings.TrimSpace(fmt.Sprintf("line %d, %s: %s. %s", w.Line, w.Path, w.Message, w.Hint)))
		}
		f.file("agent", name, at, path.Join("agents", name+".prompt"), text, notes...)
	}
}

// policy makes rules the policy of a station.
func (f *folder) policy(from string, rules []events.Rule, notes ...string) {
	if len(rules) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("# Made of " + printable(from) + " by inspan import.\nversion: 1\nrules:\n")
	for _, r := range rules {
		line, err := json.Marshal(r)
		if err != nil {
			f.refuse("rules", r.ID, from, err)
			return
		}
		b.WriteString("  - " + string(line) + "\n")
	}
	if _, _, err := agentfile.ParsePolicy("policy.yaml", []byte(b.String())); err != nil {
		f.refuse("rules", "policy", from, first(err))
		return
	}
	f.file("rules", "policy", from, "policy.yaml", []byte(b.String()), notes...)
}

// text is a string as YAML, JSON and TOML have it in double quotes.
func text(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// printable is a text on one line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, s)
}

// first is the first fault of a file with how many there are.
func first(err error) error {
	faults, _ := agentfile.Faults(err)
	n, one := len(faults), ""
	if n > 0 {
		one = faults[0].Error()
	} else if all := formula.Faults(err); len(all) > 0 {
		n, one = len(all), all[0].Error()
	}
	switch {
	case n == 0:
		return err
	case n == 1:
		return errors.New(one)
	}
	return fmt.Errorf("%s (and %d more)", one, n-1)
}
