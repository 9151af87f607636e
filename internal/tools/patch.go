package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/pkg/tool"
)

const applyPatchSchema = `{"type":"object","additionalProperties":false,"required":["patch"],"properties":{
"patch":{"type":"string","minLength":1,"maxLength":1000000,"description":"unified diff, or *** Begin Patch ... *** End Patch"}}}`

// maxPatched is the most bytes of a file that is patched.
const maxPatched = 8 << 20

type applyPatchArgs struct{ Patch string }

type applyPatch struct{ builtin[applyPatchArgs] }

var (
	_ tool.Verifier  = applyPatch{}
	_ tool.Previewer = applyPatch{}
)

// stand is the progress of a file of a patch.
type stand int

const (
	before stand = iota // as the patch wants to find it
	moved               // moved already, not changed yet
	after               // as the patch leaves it
	either              // it could be before as well as after
)

// step is what a patch does to one file.
type step struct {
	patch.File
	stand stand
	// old and new are what the file holds before and after.
	old, new string
}

// reading reads a file; one that is missing is fs.ErrNotExist.
type reading func(path string) ([]byte, error)

// patchFile looks at a file without changing it; r is the answer where that is refused.
func patchFile(read reading, f patch.File) (s step, r *tool.Result, err error) {
	s.File = f
	refuse := func(path string, cause error) (step, *tool.Result, error) {
		res, err := fileError("apply_patch", path, cause)
		return s, &res, err
	}
	from, to := "", ""
	hasFrom, hasTo := false, false
	var cause error
	if f.Op != patch.Create {
		if from, hasFrom, cause = read.patched(f.From); cause != nil {
			return refuse(f.From, cause)
		}
	}
	if f.Op == patch.Create || f.Op == patch.Move {
		if to, hasTo, cause = read.patched(f.To); cause != nil {
			return refuse(f.To, cause)
		}
	}
	switch s.old, s.new = from, f.New; {
	case f.Op == patch.Create && !hasTo, f.Op == patch.Delete && hasFrom && len(f.Hunks) == 0:
	case f.Op == patch.Create && to == f.New, f.Op == patch.Delete && !hasFrom:
		s.stand = after
	case f.Op == patch.Create || f.Op == patch.Move && hasFrom && hasTo:
		res := failed("apply_patch: %q exists already; no file was changed", f.To)
		return s, &res, nil
	case f.Op == patch.Move && !hasFrom && hasTo:
		s.stand, s.old = moved, to
		return s.fit()
	case !hasFrom:
		return refuse(f.From, fs.ErrNotExist)
	default:
		return s.fit()
	}
	return s, nil, nil
}

// fit tries the hunks on what the file holds, forth and back.
func (s step) fit() (step, *tool.Result, error) {
	var forth error
	s.new, forth = s.Apply(s.old)
	if forth == nil && s.Op == patch.Delete && s.new != "" {
		forth = fmt.Errorf("%s has lines that the patch does not remove", s.From)
	}
	_, back := s.Undo(s.old)
	switch done := back == nil && s.Op != patch.Delete && (s.Op != patch.Move || s.stand == moved); {
	case done && (forth != nil || len(s.Hunks) == 0):
		s.stand = after
	case forth != nil:
		res := failed("apply_patch: %v\nNo file was changed. Read the file and send the patch again with the lines that the file has.", forth)
		return s, &res, nil
	case done:
		s.stand = either
	}
	return s, nil, nil
}

// patchable reads the files of a sandbox.
func patchable(env tool.Env) reading {
	return func(path string) ([]byte, error) {
		info, err := env.Sandbox.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.Size() > maxPatched:
			return nil, &fs.PathError{Op: "patch", Path: path,
				Err: fmt.Errorf("the file has %d bytes, too many to patch: use bash", info.Size())}
		}
		return env.Sandbox.ReadFile(path)
	}
}

// patched reads a file that may not be there.
func (read reading) patched(path string) (content string, there bool, err error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err == nil && binary(data) {
		err = &fs.PathError{Op: "patch", Path: path, Err: errors.New("a binary file cannot be patched")}
	}
	return string(data), err == nil, err
}

// plan reads a patch and looks at all its files.
func plan(ctx context.Context, a applyPatchArgs, read reading) ([]step, *tool.Result, error) {
	files, err := patch.Parse(a.Patch)
	if err != nil {
		res := failed("apply_patch: %v", err)
		return nil, &res, nil
	}
	steps := make([]step, 0, len(files))
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		s, refused, err := patchFile(read, f)
		if err != nil || refused != nil {
			return nil, refused, err
		}
		steps = append(steps, s)
	}
	return steps, nil, nil
}

// runPatch changes all files or none. One that an earlier attempt changed already is left as it is.
func runPatch(ctx context.Context, a applyPatchArgs, env tool.Env) (tool.Result, error) {
	steps, refused, err := plan(ctx, a, patchable(env))
	if err != nil {
		return tool.Result{}, err
	}
	if refused != nil {
		return *refused, nil
	}
	done := 0
	for _, s := range steps {
		if s.stand == after {
			done++
		} else if s.Op == patch.Update && s.old == s.new {
			return failed("apply_patch: the patch changes nothing in %q", s.From), nil
		}
	}
	if done == len(steps) {
		return failed("apply_patch: no change needed, every file is already as the patch would leave it"), nil
	}
	for i, s := range steps {
		path, cause := s.carry(env)
		if cause == nil {
			continue
		}
		r, err := fileError("apply_patch", path, cause)
		if undo := back(env, steps[:i+1]); undo != nil {
			return tool.Result{}, tool.Fail(tool.Permanent, "read the files before you continue",
				fmt.Errorf("apply_patch stopped at %q (%w) and could not be undone: %w", path, cause, undo))
		}
		r.Output += "\nNo file was changed."
		return r, err
	}
	return tool.Show(env, stat(steps)), nil
}

// Preview implements tool.Previewer. It plans the patch as a call does, on what read gives.
func (applyPatch) Preview(ctx context.Context, input json.RawMessage, see tool.View) (string, error) {
	a, err := decode[applyPatchArgs](input)
	if err != nil {
		return "", err
	}
	steps, refused, err := plan(ctx, a, see.Read)
	if err != nil {
		return "", err
	}
	if refused != nil {
		return "", errors.New("the patch does not apply to the files as they are now: " +
			strings.TrimPrefix(refused.Output, "apply_patch: "))
	}
	var all strings.Builder
	for _, s := range steps {
		diff, err := s.diff()
		if err != nil {
			return "", err
		}
		all.WriteString(diff)
	}
	return all.String(), nil
}

// diff shows what a step changes; empty where an earlier attempt changed it already.
func (s step) diff() (string, error) {
	if s.stand == after {
		return "", nil
	}
	c := changed{from: s.From, to: s.To, before: s.old, after: s.new}
	switch {
	case s.Op == patch.Create:
		c.from, c.before = "", ""
	case s.Op == patch.Delete:
		c.to, c.after = "", ""
	case s.Op == patch.Move && s.stand == moved:
		c.from = s.To
	}
	return c.diff()
}

// carry makes one change; path is what it was about.
func (s step) carry(env tool.Env) (path string, err error) {
	if s.stand == after {
		return s.To, nil
	}
	switch s.Op {
	case patch.Delete:
		return s.From, env.Sandbox.Remove(s.From)
	case patch.Move:
		if s.stand == before {
			if err := env.Sandbox.Rename(s.From, s.To); err != nil {
				return s.To, err
			}
		}
		if s.old == s.new {
			return s.To, nil
		}
	default: // its text is written
	}
	return s.To, env.Sandbox.WriteFile(s.To, []byte(s.new))
}

// back undoes changes, the last of which may not have happened or in part only.
func back(env tool.Env, steps []step) error {
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		var err error
		switch {
		case s.stand == after:
		case s.Op == patch.Create:
			err = env.Sandbox.Remove(s.To)
		case s.Op == patch.Move && s.stand == before:
			if err = env.Sandbox.Rename(s.To, s.From); err == nil || errors.Is(err, fs.ErrNotExist) {
				err = env.Sandbox.WriteFile(s.From, []byte(s.old))
			}
		default:
			err = env.Sandbox.WriteFile(s.To, []byte(s.old))
		}
		if err != nil && (i < len(steps)-1 || !errors.Is(err, fs.ErrNotExist)) && !untouched(env, s) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// untouched reports whether a file that could not be put back stands as before anyway.
func untouched(env tool.Env, s step) bool {
	at := s.From
	if s.stand == moved {
		at = s.To
	}
	data, err := env.Sandbox.ReadFile(at)
	if s.Op == patch.Create {
		return err != nil
	}
	return err == nil && string(data) == s.old
}

// stat tells what was done to each file.
func stat(steps []step) string {
	var b strings.Builder
	added, removed := 0, 0
	for _, s := range steps {
		plus, minus := strings.Count(s.New, "\n"), 0
		if s.New != "" && !strings.HasSuffix(s.New, "\n") {
			plus++
		}
		for _, h := range s.Hunks {
			p, m := h.Counts()
			plus, minus = plus+p, minus+m
		}
		if s.Op == patch.Delete {
			minus = len(strings.SplitAfter(strings.TrimSuffix(s.old, "\n"), "\n"))
			if s.old == "" {
				minus = 0
			}
		}
		name := oneLine(s.To)
		if s.Op == patch.Move {
			name = oneLine(s.From) + " -> " + name
		}
		fmt.Fprintf(&b, "%s %s | +%d -%d", s.Op, name, plus, minus)
		if s.stand == after {
			b.WriteString(" (unchanged: already as in the patch)")
		}
		if s.Mode == "100755" {
			b.WriteString(" (its mode is not changed: use chmod)")
		}
		b.WriteByte('\n')
		added, removed = added+plus, removed+minus
	}
	fmt.Fprintf(&b, "%d file(s) changed, %d line(s) added, %d removed", len(steps), added, removed)
	return b.String()
}

// Verify implements tool.Verifier. The patch is done where every file stands as it leaves it. Where some do not yet,
// and none is in doubt, the patch must be applied again: that changes the rest. Anything else is ambiguous, and is an
// error.
func (applyPatch) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	a, err := decode[applyPatchArgs](c.Input)
	if err != nil {
		return false, tool.Result{}, err
	}
	steps, refused, err := plan(ctx, a, patchable(c.Env))
	switch {
	case err != nil:
		return false, tool.Result{}, err
	case refused != nil:
		return false, tool.Result{}, fmt.Errorf("verify apply_patch: %s", refused.Output)
	}
	done := 0
	for _, s := range steps {
		switch s.stand {
		case after:
			done++
		case either:
			return false, tool.Result{}, fmt.Errorf("verify apply_patch: the content of %s does not show whether the patch was applied", s.To)
		default: // it was not changed
		}
	}
	if done < len(steps) {
		return false, tool.Result{}, nil
	}
	for i := range steps {
		steps[i].stand = before // for stat: it was this call that did it
	}
	return true, tool.Show(c.Env, stat(steps)+" (already applied by an earlier attempt)"), nil
}
