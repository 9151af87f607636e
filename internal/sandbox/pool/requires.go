package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/needs"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// ErrRequires means that a sandbox does not have what an agent requires of it (SBX-21).
var ErrRequires = errors.New("the sandbox lacks what the agent requires")

// requiresTime bounds one look at a sandbox.
const requiresTime = 30 * time.Second

// requirementsMet remembers in which sandboxes requirements were found: a command that was there is not looked for
// before each call.
type requirementsMet struct {
	mu sync.Mutex
	// at has a key for each mode, image and list of requirements; guarded by mu.
	at map[string]bool
}

// maxMet bounds requirementsMet.at: beyond it, it begins anew.
const maxMet = 1000

func (m *requirementsMet) known(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[key]
}

func (m *requirementsMet) note(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil || len(m.at) >= maxMet {
		m.at = map[string]bool{}
	}
	m.at[key] = true
}

// meets looks whether a sandbox that was opened has what an agent requires, once for each kind of sandbox.
func (o *Opener) meets(ctx context.Context, sb sandbox.Sandbox, want events.Sandbox) error {
	if len(want.Requires) == 0 {
		return nil
	}
	key := strings.Join(append([]string{string(sb.Mode()), want.Image}, want.Requires...), "\x00")
	if o.met.known(key) {
		return nil
	}
	missing, err := lookFor(ctx, sb, want.Requires)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		o.met.note(key)
		return nil
	}
	where := string(sb.Mode())
	if want.Image != "" {
		where += " with image " + want.Image
	}
	return tool.Fail(tool.Permanent,
		"ask an operator to install it in the sandbox, give the agent another sandbox or image, or change requires in its file",
		fmt.Errorf("%w: in sandbox %s: %s", ErrRequires, where, strings.Join(missing, "; ")))
}

// versions says of each command that is given whether it is there, and for those marked with + what it says of itself.
// The programs of a name are asked in the forms that are usual.
const versions = `for n in "$@"; do c=${n#+}; if command -v "$c" >/dev/null 2>&1; then
printf '\036%s\037' "$c"; if [ "$c" != "$n" ]; then "$c" --version </dev/null 2>&1 || "$c" version </dev/null 2>&1 || "$c" -version </dev/null 2>&1; fi; fi; done; exit 0`

// maxVersions bounds what all commands together may say of themselves.
const maxVersions = 64 << 10

func lookFor(ctx context.Context, sb sandbox.Sandbox, texts []string) (missing []string, err error) {
	all, err := needs.ParseAll(texts)
	if err != nil {
		return nil, tool.Fail(tool.Permanent, "fix requires in the agent's file", err)
	}
	args := []string{"sh", "-c", versions, "sh"}
	for _, n := range all {
		mark := ""
		if n.Op != "" {
			mark = "+"
		}
		args = append(args, mark+n.Command)
	}
	limited, cancel := context.WithTimeout(ctx, requiresTime)
	defer cancel()
	out := &firstBytes{most: maxVersions}
	if _, err := sb.Exec(limited, sandbox.Cmd{Args: args, Stdout: out}); err != nil {
		return nil, fmt.Errorf("check requirements of the agent in sandbox %s: %w", sb.Mode(), err)
	}
	said := map[string]string{}
	for part := range strings.SplitSeq(out.String(), "\x1e") {
		if name, text, ok := strings.Cut(part, "\x1f"); ok {
			said[name] = text
		}
	}
	for _, n := range all {
		text, found := said[n.Command]
		if m := n.Missing(found, text); m != "" {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// firstBytes keeps the beginning of what is written.
type firstBytes struct {
	bytes.Buffer
	most int
}

func (f *firstBytes) Write(b []byte) (int, error) {
	if left := f.most - f.Len(); left > 0 {
		f.Buffer.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

// commandsHere reports whether this machine has the commands that an agent requires, where sandboxes of this machine
// look for them (SBX-10). Nothing is started: versions are looked at in the sandbox.
func (o *Opener) commandsHere(texts []string) bool {
	all, err := needs.ParseAll(texts)
	if err != nil || len(all) == 0 {
		return false
	}
	path := systemPath
	for _, e := range o.cfg.Env {
		if own, is := strings.CutPrefix(e, "PATH="); is {
			path = own
		}
	}
	for _, n := range all {
		there := false
		for _, dir := range filepath.SplitList(path) {
			info, err := os.Stat(filepath.Join(dir, n.Command))
			there = there || err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		}
		if !there {
			return false
		}
	}
	return true
}

// systemPath is where the commands of a sandbox are looked for where nothing else is set.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
