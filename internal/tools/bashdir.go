package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// maxDir is the longest path of a folder that is remembered.
const maxDir = 4096

// inDir runs a shell text in the folder that the shells of the step are in, and finds out where it ends.
//
// The shell writes it when it exits, on standard error behind a mark that cannot be guessed; the mark and what follows
// is shown to no one. A text that replaces the shell, or its trap, leaves the folder as it was. What the text may make
// of the mark is only a folder, which the sandbox checks as it checks every other.
func inDir(ctx context.Context, env tool.Env, text string) (tool.Result, error) {
	dir, gone, err := startDir(env)
	if err != nil {
		return tool.Result{}, err
	}
	mark := "inspan-dir-" + rand.Text() + ":"
	stderr := &capture{env: env, name: "stderr"}
	end := &trailer{to: stderr, mark: []byte(mark)}
	r, err := execute(ctx, env, sandbox.Cmd{Args: shellCall(env.Sandbox, text, mark), Dir: dir, Stderr: end}, stderr)
	if err != nil {
		return r, err
	}
	var notes []string
	if gone != "" {
		notes = append(notes, fmt.Sprintf("[the folder %s is missing: the command ran in the workspace]", oneLine(gone)))
		r.Dir = "."
	}
	if at, told := end.dir(); told {
		switch to, ok := insideDir(env, at); {
		case !ok:
			notes = append(notes, fmt.Sprintf("[%s is not a folder of the workspace: the next call starts in %s again]",
				oneLine(at), oneLine(named(dir))))
		case to != named(dir):
			r.Dir = to
		}
	}
	for _, n := range notes {
		r.Output = strings.TrimSuffix(r.Output, "\n") + "\n" + n
	}
	return r, nil
}

// shellFrame makes the shell write its folder when it ends, even if it closed its standard error by then. The text is
// its first argument and sees none; it is read by eval so that its lines count from 1.
const shellFrame = `exec 19>&2; trap '{ set +x; } 2>/dev/null; builtin printf "%s%s\0" "$INSPAN_MARK" "$PWD" >&19' EXIT; INSPAN_MARK=$2; INSPAN_TEXT=$1; set --; eval "$INSPAN_TEXT"`

// lastingFrame is shellFrame in a sandbox that the next call finds again: what the text exported is kept in its HOME,
// which only its commands read. What the shell was given as it is, secrets among it, is not written down. It needs bash
// 4.
const lastingFrame = `exec 19>&2; trap '{ set +xe; } 2>/dev/null; (umask 077; for INSPAN_N in "${!INSPAN_WAS[@]}"; do if [ "${!INSPAN_N-}" = "${INSPAN_WAS[$INSPAN_N]}" ]; then unset "$INSPAN_N"; fi; done; unset INSPAN_SANDBOX_ID PWD OLDPWD SHLVL _; builtin export -p >|"$INSPAN_KEPT.new" && command -p mv -f "$INSPAN_KEPT.new" "$INSPAN_KEPT") 2>/dev/null; builtin printf "%s%s\0" "$INSPAN_MARK" "$PWD" >&19' EXIT; INSPAN_MARK=$2; INSPAN_TEXT=$1; INSPAN_KEPT=$HOME/.inspan-exported; set --; declare -A INSPAN_WAS 2>/dev/null && for INSPAN_N in $(builtin compgen -e); do INSPAN_WAS[$INSPAN_N]=${!INSPAN_N}; done; unset INSPAN_N; [ ! -f "$INSPAN_KEPT" ] || . "$INSPAN_KEPT" 2>/dev/null; eval "$INSPAN_TEXT"`

// jobFrame starts the shell of a background command in such a sandbox.
const jobFrame = `INSPAN_TEXT=$1; set --; [ ! -f "$HOME/.inspan-exported" ] || . "$HOME/.inspan-exported" 2>/dev/null; eval "$INSPAN_TEXT"`

// shellCall is the call of the shell for a text. The shell of the wasm toolbox has no descriptors above 2 and reports
// its folder by an option of its own.
func shellCall(sb sandbox.Sandbox, text, mark string) []string {
	frame := shellFrame
	switch {
	case sb.Mode() == sandbox.WASM:
		return []string{"bash", "--told", mark, "-c", text}
	case sandbox.Outlives(sb):
		frame = lastingFrame
	}
	return []string{"bash", "-c", frame, "bash", text, mark}
}

// startDir is the folder to begin in; gone names one that is no folder of the workspace any more.
func startDir(env tool.Env) (dir, gone string, err error) {
	if env.Dir != nil {
		dir = env.Dir()
	}
	if dir == "" || dir == "." {
		return "", "", nil
	}
	info, err := env.Sandbox.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return dir, "", nil
	case errors.Is(err, sandbox.ErrDestroyed):
		return "", "", err
	case err == nil, errors.Is(err, sandbox.ErrOutside), errors.Is(err, fs.ErrNotExist):
		return "", dir, nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return "", dir, nil
	}
	return "", "", tool.Fail(tool.Permanent, "inspan doctor lists what this machine can run", err)
}

func named(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// insideDir turns the absolute path that a shell reported into one relative to the workspace.
func insideDir(env tool.Env, at string) (string, bool) {
	rel, err := filepath.Rel(sandbox.Seen(env.Sandbox), at)
	if err != nil || !path.IsAbs(at) || len(rel) > maxDir {
		return "", false
	}
	info, err := env.Sandbox.Stat(rel)
	return rel, err == nil && info.IsDir()
}

// trailer passes on what comes before a mark and keeps what comes behind it.
type trailer struct {
	to   io.Writer
	mark []byte
	// held is the end of what came, which may be the beginning of the mark; said is what came behind it.
	held, rest []byte
	found      bool
}

func (t *trailer) Write(p []byte) (int, error) {
	if t.found {
		t.keep(p)
		return len(p), nil
	}
	data := append(t.held, p...)
	if before, behind, ok := bytes.Cut(data, t.mark); ok {
		t.found, t.held = true, nil
		t.keep(behind)
		return len(p), t.pass(before)
	}
	n := len(data) - t.beginning(data)
	err := t.pass(data[:n])
	t.held = bytes.Clone(data[n:])
	return len(p), err
}

// flush passes on what was held back for a mark that did not come.
func (t *trailer) flush() {
	_ = t.pass(t.held) // it goes to memory
	t.held = nil
}

// beginning is how many of the last bytes could be the beginning of the mark.
func (t *trailer) beginning(data []byte) int {
	for n := min(len(t.mark)-1, len(data)); n > 0; n-- {
		if bytes.HasSuffix(data, t.mark[:n]) {
			return n
		}
	}
	return 0
}

func (t *trailer) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := t.to.Write(p)
	return err
}

func (t *trailer) keep(p []byte) { t.rest = append(t.rest, p[:min(len(p), maxDir+1-len(t.rest))]...) }

// dir is the folder that the shell reported.
func (t *trailer) dir() (string, bool) {
	dir, _, whole := bytes.Cut(t.rest, []byte{0})
	return string(dir), whole && len(dir) > 0
}
