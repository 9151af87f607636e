// Package report is how a part of the robust programme says what it saw.
//
// Promises: a part that saves no report has failed; one that saves a violation has failed; what a part could not try on
// this machine is a sentence in the report and never silence.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Dir is the environment variable that names the folder of the reports. Where it is unset, Save does nothing: the part
// runs as a plain test.
const Dir = "INSPAN_ROBUST_OUT"

// Part is what one part of the programme saw.
type Part struct {
	// Name is the file's name: lower-case letters.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Seed of everything random in it; 0 means that nothing is.
	Seed uint64 `json:"seed,omitempty"`
	Rows []Row  `json:"rows"`
	// Violations are promises that did not hold, each with what reproduces it.
	Violations []string `json:"violations"`
	// Untried says what could not be tried on this machine, and why.
	Untried []string `json:"untried"`
}

// Row is one figure of a part.
type Row struct {
	What string `json:"what"`
	Saw  string `json:"saw"`
	// Want is the promise the figure is held against; empty where it is only told.
	Want string `json:"want,omitempty"`
}

// Add appends a row whose figure is formatted as fmt.Sprint does.
func (p *Part) Add(what string, saw any, want string) {
	p.Rows = append(p.Rows, Row{What: what, Saw: fmt.Sprint(saw), Want: want})
}

// Violate notes a promise that did not hold.
func (p *Part) Violate(format string, args ...any) {
	p.Violations = append(p.Violations, fmt.Sprintf(format, args...))
}

var validName = regexp.MustCompile(`^[a-z]+(-[0-9]+)?$`)

// Save writes the report into the folder that Dir names.
func (p Part) Save() error {
	dir := os.Getenv(Dir)
	if dir == "" {
		return nil
	}
	if !validName.MatchString(p.Name) || len(p.Rows) == 0 {
		return errors.New("a report needs a name of lower-case letters, with or without a number, and at least one row")
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("report %s: %w", p.Name, err)
	}
	return os.WriteFile(filepath.Join(dir, p.Name+".json"), append(b, '\n'), 0o644)
}

// Load reads the report of a part.
func Load(dir, name string) (Part, error) {
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return Part{}, fmt.Errorf("part %s saved no report: %w", name, err)
	}
	var p Part
	if err := json.Unmarshal(b, &p); err != nil {
		return Part{}, fmt.Errorf("report of part %s: %w", name, err)
	}
	return p, nil
}
