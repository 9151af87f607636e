package agentfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// ServedFile is the file in the folder of agents that pins the tools which programs of others serve over NATS.
const ServedFile = "served.json"

// Served is what an operator has seen of tools that are served over NATS and allows. An agent gets those that it names
// under tools.
type Served struct {
	Version int         `json:"version"`
	Tools   []wire.Spec `json:"tools"`
}

// ServedVersion is the version of the file.
const ServedVersion = 1

// Find returns the pin of a tool.
func (s Served) Find(name string) (wire.Spec, bool) {
	i := slices.IndexFunc(s.Tools, func(p wire.Spec) bool { return p.Name == name })
	if i < 0 {
		return wire.Spec{}, false
	}
	return s.Tools[i], true
}

// With returns the pins with one more, in the place of the one of its name.
func (s Served) With(p wire.Spec) Served {
	s.Tools = slices.DeleteFunc(slices.Clone(s.Tools), func(old wire.Spec) bool { return old.Name == p.Name })
	s.Tools = append(s.Tools, p)
	sort.Slice(s.Tools, func(i, j int) bool { return s.Tools[i].Name < s.Tools[j].Name })
	return s
}

// CheckServed reports why a tool cannot be offered to a model, or nil. Texts with characters that a person who looks at
// them does not see are refused.
func CheckServed(p wire.Spec) error {
	if err := p.Check(); err != nil {
		return err
	}
	for _, text := range []string{p.Description, string(p.Input)} {
		if i := strings.IndexFunc(text, hidden); i >= 0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			return fmt.Errorf("the text of tool %s has the hidden character U+%04X", p.Name, r)
		}
	}
	return nil
}

// ReadServed reads the pins in a folder of agents; none are no error.
func ReadServed(dir string) (Served, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Served{}, fmt.Errorf("open the directory of agents: %w", err)
	}
	defer root.Close()
	return readServed(root)
}

func readServed(root *os.Root) (Served, error) {
	if _, err := root.Stat(ServedFile); errors.Is(err, fs.ErrNotExist) {
		return Served{Version: ServedVersion}, nil
	}
	data, err := readUpTo(root, ServedFile, maxPinsFile)
	if err != nil {
		return Served{}, err
	}
	unfit := func(err error) error {
		return &Error{Code: CodeFile, File: ServedFile, Message: "the pins of served tools cannot be read: " + err.Error(),
			Hint: "remove the file and make it again: inspan tools pin NAME"}
	}
	var s Served
	if err := decodePins(data, &s); err != nil {
		return Served{}, unfit(err)
	}
	if s.Version != ServedVersion {
		return Served{}, unfit(fmt.Errorf("version %d, this program knows %d", s.Version, ServedVersion))
	}
	seen := map[string]bool{}
	for i := range s.Tools {
		p := &s.Tools[i]
		if err := CheckServed(*p); err != nil {
			return Served{}, unfit(err)
		}
		if seen[p.Name] {
			return Served{}, unfit(fmt.Errorf("tool %s is pinned twice", p.Name))
		}
		seen[p.Name] = true
		if err := compact(&p.Input); err != nil {
			return Served{}, unfit(err)
		}
	}
	return s, nil
}

// Write stores the pins in a folder of agents, in one move.
func (s Served) Write(dir string) (at string, err error) {
	at = filepath.Join(dir, ServedFile)
	s.Version = ServedVersion
	return at, writePins(at, s)
}

// Pin puts the pins of the tools that an agent names into its definition; the agent's digest covers them. The warning
// is for an agent whose tools take too much room together: it gets those that fit.
func (s Served) Pin(file string, a events.Agent) (events.Agent, []Warning) {
	var warnings []Warning
	size := 0
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", a.Digest)
	for _, name := range a.Tools {
		p, ok := s.Find(name)
		if !ok {
			continue
		}
		room := len(p.Description) + len(p.Input) + 256
		if size+room > MaxPinned {
			warnings = append(warnings, Warning{Code: CodeNoEffect, File: file, Path: "tools",
				Message: name + " is not offered: the served tools of the agent take too much room together",
				Hint:    fmt.Sprintf("name fewer: %d bytes are the limit", MaxPinned)})
			continue
		}
		size += room
		a.Served = append(a.Served, events.ServedTool(p))
		fmt.Fprintf(sum, "%s %s\n", p.Name, p.Digest)
	}
	if len(a.Served) > 0 {
		a.Digest = hex.EncodeToString(sum.Sum(nil))
	}
	return a, warnings
}
