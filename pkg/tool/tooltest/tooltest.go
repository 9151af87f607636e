// Package tooltest is the exam that every tool passes, also one written elsewhere.
package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/tool"
)

const (
	// MaxDescription is the most bytes of a description: each request to a model pays for it again.
	MaxDescription = 4 << 10
	// MaxNote is how many bytes a result may have above Env.MaxOutput, for the line that says what was left out.
	MaxNote = 256
	// patience is how long a tool may take to notice that its context has ended.
	patience = 30 * time.Second
)

// Exam takes a tool, a maker of fresh environments in which it can work, and arguments that fit its schema and can be
// carried out in such an environment; at least one.
func Exam(t *testing.T, tl tool.Tool, env func(t *testing.T) tool.Env, good ...string) {
	t.Helper()
	if len(good) == 0 {
		t.Fatal("the exam wants arguments that work")
	}
	spec := tl.Spec()
	registry, err := tool.NewRegistry(tl)
	if err != nil {
		t.Fatalf("name or schema: %v", err)
	}
	t.Run("TOOL-19 says what it is", func(t *testing.T) { describes(t, tl) })
	t.Run("TOOL-19 takes what fits its schema and nothing unknown", func(t *testing.T) {
		arguments(t, registry, spec.Name,
			good)
	})
	for i, input := range good {
		t.Run("TOOL-6 TOOL-22 heeds its context", func(t *testing.T) {
			t.Parallel()
			heeds(t, tl, call(input, env(t)))
		})
		t.Run("TOOL-10 output is bounded text", func(t *testing.T) {
			t.Parallel()
			e := env(t)
			for _, e.MaxOutput = range []int{e.MaxOutput, 64} {
				bounded(t, tl, call(input, e), i)
			}
		})
	}
}

func call(input string, env tool.Env) tool.Call {
	return tool.Call{ID: "exam", Key: "exam", Input: json.RawMessage(input), Env: env}
}

func describes(t *testing.T, tl tool.Tool) {
	spec := tl.Spec()
	if text := strings.TrimSpace(spec.Description); text == "" || len(text) > MaxDescription || !utf8.ValidString(text) {
		t.Errorf("description: got %d bytes, want 1 to %d of text", len(text), MaxDescription)
	}
	if !slices.Contains([]tool.Effect{tool.Read, tool.Idempotent, tool.Reconcilable, tool.Once}, spec.Effect) {
		t.Errorf("effect: got %q, want one of the four declared", spec.Effect)
	}
	if _, verifies := tl.(tool.Verifier); verifies != (spec.Effect == tool.Reconcilable) {
		t.Errorf("effect %s, Verifier %v: the one without the other", spec.Effect, verifies)
	}
	if spec.TimeoutOf() <= 0 {
		t.Errorf("timeout: got %v", spec.TimeoutOf())
	}
}

func arguments(t *testing.T, r *tool.Registry, name string, good []string) {
	for _, input := range good {
		if err := r.Check(name, json.RawMessage(input)); err != nil {
			t.Errorf("%s: %v", input, err)
		}
		var with map[string]any
		if err := json.Unmarshal([]byte(input), &with); err != nil {
			t.Fatalf("%s: %v", input, err)
		}
		with["no_such_argument"] = true
		extra, err := json.Marshal(with)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check(name, extra); tool.ClassOf(err) != tool.Invalid || !strings.Contains(err.Error(),
			"no_such_argument") {
			t.Errorf("unknown argument: got %v, want it refused by name", err)
		}
	}
	for _, bad := range []string{``, `null`, `[]`, `"x"`, `1`, `{`, `{} {}`, strings.Repeat("[", 100_000)} {
		if err := r.Check(name, json.RawMessage(bad)); tool.ClassOf(err) != tool.Invalid {
			t.Errorf("%.20q: got %v, want Invalid", bad, err)
		}
	}
}

// heeds calls with contexts that have ended, in both ways.
func heeds(t *testing.T, tl tool.Tool, c tool.Call) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for _, ctx := range []context.Context{cancelled, late} {
		ended := make(chan error, 1)
		go func() {
			_, err := tl.Run(ctx, c)
			ended <- err
		}()
		var err error
		select {
		case err = <-ended:
		case <-time.After(patience):
			t.Fatalf("still runs %v after the end of its context", patience)
		}
		if !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v, want %v", err, ctx.Err())
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && tool.ClassOf(err) != tool.Timeout {
			t.Errorf("past its deadline: got class %s, want %s", tool.ClassOf(err), tool.Timeout)
		}
	}
}

func bounded(t *testing.T, tl tool.Tool, c tool.Call, n int) {
	r, err := tl.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("arguments %d: %v", n, err)
	}
	if !utf8.ValidString(r.Output) || strings.ContainsRune(r.Output, 0) {
		t.Errorf("arguments %d: output is no text: %q", n, r.Output)
	}
	if c.Env.MaxOutput > 0 && len(r.Output) > c.Env.MaxOutput+MaxNote {
		t.Errorf("arguments %d: output has %d bytes, at most %d and a note", n, len(r.Output), c.Env.MaxOutput)
	}
	if r.Full != nil && len(r.Full) <= c.Env.MaxOutput {
		t.Errorf("arguments %d: %d bytes are stored as too long, %d could be shown", n, len(r.Full), c.Env.MaxOutput)
	}
}
