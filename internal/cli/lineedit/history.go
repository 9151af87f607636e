package lineedit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxHistory is how many inputs are remembered from one day to the next.
const maxHistory = 500

// History is what was typed before, newest last; it lives in a file that only its user may read. Where the file cannot
// be used, it lasts as long as the program.
type History struct {
	path  string
	lines []string
	// Err is why the newest are not in the file.
	Err error
}

// OpenHistory reads the file; no path means no file.
func OpenHistory(path string) (*History, error) {
	p := &History{path: path}
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
	if len(p.lines) > 2*maxHistory {
		if err := p.trim(); err != nil {
			return p, fmt.Errorf("earlier inputs: %w", err)
		}
	}
	return p, nil
}

// HistoryFile is where inputs are remembered, empty where a user has no such folder.
func HistoryFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "inspan", "repl_history")
}

// Len is how many there are.
func (p *History) Len() int { return len(p.lines) }

// At is one of them, 0 the newest.
func (p *History) At(i int) string { return p.lines[len(p.lines)-1-i] }

// add remembers an input, at once: a program that is killed forgets none, and two at a time keep those of both.
func (p *History) add(text string) {
	if strings.TrimSpace(text) == "" || len(p.lines) > 0 && p.lines[len(p.lines)-1] == text {
		return
	}
	p.lines = append(p.lines, text)
	if p.path == "" || p.Err != nil {
		return
	}
	if err := p.write(os.O_APPEND, text); err != nil {
		p.Err = fmt.Errorf("remember inputs: %w", err)
	}
}

// trim leaves the newest inputs in the file.
func (p *History) trim() error {
	p.lines = p.lines[len(p.lines)-maxHistory:]
	aside := &History{path: p.path + ".new"}
	if err := aside.write(os.O_TRUNC, p.lines...); err != nil {
		return err
	}
	return os.Rename(aside.path, p.path)
}

// write writes inputs to the file, each in one piece; its folder is made where there is none.
func (p *History) write(how int, texts ...string) error {
	var b []byte
	for _, text := range texts {
		line, err := json.Marshal(text)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.path, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
