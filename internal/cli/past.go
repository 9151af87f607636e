package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"
)

// mostPast is how many inputs are remembered from one day to the next.
const mostPast = 500

// past is what was typed before, newest last; it lives in a file that only its user may read. Where the file can not be
// used, it lasts as long as the program.
type past struct {
	path  string
	lines []string
	// keep is true while the editor itself may add what it reads.
	keep bool
}

var _ term.History = (*past)(nil)

// openPast reads the file; no path means no file.
func openPast(path string) (*past, error) {
	p := &past{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return p, nil
	}
	if err != nil {
		p.path = ""
		return p, fmt.Errorf("earlier inputs: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		var text string
		if json.Unmarshal([]byte(line), &text) == nil && text != "" {
			p.lines = append(p.lines, text)
		}
	}
	return p, nil
}

// pastFile is where inputs are remembered, empty where a user has no such folder.
func pastFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "inspan", "repl_history")
}

// Add implements term.History.
func (p *past) Add(entry string) {
	if p.keep {
		p.add(entry)
	}
}

// Len implements term.History.
func (p *past) Len() int { return len(p.lines) }

// At implements term.History: 0 is the newest. Line breaks are shown as spaces, for an editor of one line.
func (p *past) At(i int) string {
	return strings.ReplaceAll(p.lines[len(p.lines)-1-i], "\n", " ")
}

func (p *past) add(text string) {
	if strings.TrimSpace(text) == "" || len(p.lines) > 0 && p.lines[len(p.lines)-1] == text {
		return
	}
	p.lines = append(p.lines, text)
}

// save writes the newest inputs. Its folder is made where there is none.
func (p *past) save() error {
	if p.path == "" || len(p.lines) == 0 {
		return nil
	}
	var b strings.Builder
	for _, text := range p.lines[max(0, len(p.lines)-mostPast):] {
		line, err := json.Marshal(text)
		if err != nil {
			return fmt.Errorf("remember inputs: %w", err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return fmt.Errorf("remember inputs: %w", err)
	}
	if err := os.WriteFile(p.path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("remember inputs: %w", err)
	}
	return nil
}
