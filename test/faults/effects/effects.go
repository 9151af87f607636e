// Package effects has tools that do nothing but write down that they did it, one of each effect class.
//
// Promises: a line of the journal is appended with one write and synced before the tool goes on, so the journal is what
// the world outside would have seen of the calls. Nothing in it is ever taken back.
package effects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/tool"
)

// Dir is the environment variable that names the folder of the journal.
const Dir = "INSPAN_FAULTS_EFFECTS"

// Moments of an attempt.
const (
	Begin  = "begin"
	Effect = "effect"
	End    = "end"
	Verify = "verify"
)

// Line of the journal.
type Line struct {
	Moment string      `json:"moment"`
	Class  tool.Effect `json:"class"`
	Run    string      `json:"run"`
	Call   string      `json:"call"`
	Key    string      `json:"key"`
	// Process is the id of the process that did it.
	Process int       `json:"process"`
	At      time.Time `json:"at"`
}

// Journal of a folder.
func Journal(dir string) string { return filepath.Join(dir, "journal.jsonl") }

// Read returns the lines of the journal; a folder without one has none.
func Read(dir string) ([]Line, error) {
	b, err := os.ReadFile(Journal(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(b)
}

// tail is how much of the journal Last reads, in bytes.
const tail = 64 << 10

// Last returns the newest lines of the journal, a few hundred of them.
func Last(dir string) ([]Line, error) {
	f, err := os.Open(Journal(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(info.Size(), tail))
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return nil, err
	}
	if int64(len(b)) < info.Size() {
		_, b, _ = bytes.Cut(b, []byte("\n")) // the first one is cut
	}
	return parse(b)
}

func parse(b []byte) ([]Line, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var lines []Line
	for i, text := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("line %d of the journal: %w", i+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// note has an effect of one class.
type note struct {
	dir   string
	class tool.Effect
}

// New makes the tool of an effect class, called "note_" and the class.
func New(dir string, class tool.Effect) tool.Tool {
	if class == tool.Reconcilable {
		return verifiable{note{dir, class}}
	}
	return note{dir, class}
}

const schema = `{"type":"object","additionalProperties":false,"required":["what","ms"],"properties":{
"what":{"type":"string","maxLength":200,"description":"what to note"},
"ms":{"type":"integer","minimum":0,"maximum":60000,"description":"milliseconds to take for it"}}}`

// Spec implements tool.Tool.
func (n note) Spec() tool.Spec {
	return tool.Spec{Name: "note_" + string(n.class), Description: "Notes something.", Input: json.RawMessage(schema),
		Effect: n.class}
}

// Run takes its time, has its effect in the middle of it, and says so before and after. An attempt whose time was up
// before the middle has no effect.
func (n note) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		What string `json:"what"`
		MS   int    `json:"ms"`
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "give what and ms", err)
	}
	half := time.Duration(in.MS) * time.Millisecond / 2
	for _, moment := range []string{Begin, Effect, End} {
		if moment != Begin {
			if err := wait(ctx, half); err != nil {
				return tool.Result{}, err
			}
		}
		if err := n.write(moment, c); err != nil {
			return tool.Result{}, tool.Fail(tool.Permanent, "is there room for the journal", err)
		}
	}
	return tool.Result{Output: "noted " + in.What}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write appends a line. An effect leaves a mark that it can be found by: of its key where it is idempotent, so that
// doing it again changes nothing, else of its run and call.
func (n note) write(moment string, c tool.Call) error {
	l := Line{Moment: moment, Class: n.class, Run: c.Env.Sandbox.ID(), Call: c.ID, Key: c.Key, Process: os.Getpid(),
		At: time.Now()}
	if moment == Effect && (n.class == tool.Idempotent || n.class == tool.Reconcilable) {
		if err := os.WriteFile(n.mark(c), nil, 0o644); err != nil {
			return err
		}
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(Journal(n.dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

func (n note) mark(c tool.Call) string {
	name := c.Key
	if n.class == tool.Reconcilable {
		name = c.Env.Sandbox.ID() + "|" + c.ID
	}
	h := sha256.Sum256([]byte(name))
	return filepath.Join(n.dir, string(n.class)+"-"+hex.EncodeToString(h[:16]))
}

// verifiable can tell whether an earlier attempt took effect.
type verifiable struct{ note }

var _ tool.Verifier = verifiable{}

// Verify implements tool.Verifier.
func (v verifiable) Verify(_ context.Context, c tool.Call) (bool, tool.Result, error) {
	if err := v.write(Verify, c); err != nil {
		return false, tool.Result{}, err
	}
	_, err := os.Stat(v.mark(c))
	if errors.Is(err, os.ErrNotExist) {
		return false, tool.Result{}, nil
	}
	return err == nil, tool.Result{Output: "found noted"}, err
}
