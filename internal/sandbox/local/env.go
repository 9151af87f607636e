package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// MarkerName is the environment variable by which processes of a sandbox are found again, also after they left their
// parent and their session. Its value cannot be guessed, so that one sandbox cannot speak for another.
const MarkerName = "INSPAN_SANDBOX_ID"

// systemPath is where programs are looked for unless Config.Env or Cmd.Env says otherwise.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env is the environment of a command, by name.
type Env map[string]string

// FixedEnv is the small environment every command gets: PATH, HOME, LANG, TMPDIR, TERM, and nothing of the service's.
func FixedEnv(home, tmp string) Env {
	return Env{"PATH": systemPath, "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8", "TERM": "dumb"}
}

// With returns a copy with entries of the form NAME=value added; later ones win. The marker cannot be replaced.
func (e Env) With(lists ...[]string) (Env, error) {
	out := make(Env, len(e)+4)
	for k, v := range e {
		out[k] = v
	}
	for _, list := range lists {
		for _, entry := range list {
			name, value, ok := strings.Cut(entry, "=")
			if !ok || name == "" || strings.ContainsRune(entry, 0) {
				// The value may be a secret: only the name is said.
				return nil, fmt.Errorf("environment entry %q: want NAME=value without NUL", name)
			}
			if name == MarkerName {
				return nil, fmt.Errorf("environment entry %q is set by the sandbox", name)
			}
			out[name] = value
		}
	}
	return out, nil
}

// List returns NAME=value entries in order of name.
func (e Env) List() []string {
	list := make([]string, 0, len(e))
	for k, v := range e {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// Look finds a program: a name with a slash is taken as it stands (relative to dir), any other is looked for in the
// PATH of this environment. The error wraps exec.ErrNotFound.
func (e Env) Look(program, dir string) (string, error) {
	if strings.ContainsRune(program, '/') {
		at := program
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		if err := executable(at); err != nil {
			return "", &exec.Error{Name: program, Err: err}
		}
		return at, nil
	}
	for _, in := range filepath.SplitList(e["PATH"]) {
		if !filepath.IsAbs(in) {
			continue // a relative entry would let the workspace take the place of a system program
		}
		at := filepath.Join(in, program)
		if executable(at) == nil {
			return at, nil
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exec.ErrNotFound
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}
