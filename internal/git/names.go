package git

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/pattern"
)

const (
	// Prefix begins the branches of agents.
	Prefix  = "agent/"
	nameMax = 200 // bytes of a branch, tag or other name
	partMax = 60  // bytes of a part that is made from an agent or a task
)

var (
	fullID  = pattern.New(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
	someID  = pattern.New(`^[0-9a-f]{7,64}$`)
	special = pattern.New(`(?i)^(?:HEAD|FETCH_HEAD|ORIG_HEAD|MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|@)$`)
)

// CheckName reports whether a name can be a branch, a tag, or another ref without its refs/ such as pull/12/head: git's
// rules, and no name that a command, a file system or git itself could take for something else. The error is ErrName.
func CheckName(name string) error {
	bad := func(why string) error { return fmt.Errorf("name %q: %s: %w", short(name), why, ErrName) }
	switch {
	case name == "" || len(name) > nameMax:
		return bad(fmt.Sprintf("want 1 to %d bytes", nameMax))
	case !utf8.ValidString(name):
		return bad("want UTF-8")
	case name[0] == '-':
		return bad("git would read it as an option")
	case special.MatchString(name):
		return bad("git reserves it")
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return bad("want no .. and no @{")
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\"'`, r) || !unicode.IsPrint(r) {
			return bad(fmt.Sprintf("want no %q", r))
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".") ||
			strings.HasSuffix(strings.ToLower(part), ".lock") {
			return bad("each part between slashes must not be empty, begin with . or -, or end with . or .lock")
		}
	}
	return nil
}

// BranchName makes the name of an agent's branch, agent/AGENT/TASK, whatever agent and task are called: letters, digits
// and single dashes, at most 60 bytes of each. The same two give the same name. Different ones may give the same: pass
// an id as the task where that matters.
func BranchName(agent, task string) string {
	return Prefix + part(agent, "agent") + "/" + part(task, "task")
}

func part(s, empty string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(s) {
		ok := unicode.IsLetter(r) || unicode.IsDigit(r)
		if !ok {
			dash = b.Len() > 0
			continue
		}
		n := utf8.RuneLen(r)
		if dash {
			n++
		}
		if b.Len()+n > partMax {
			break
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return empty
	}
	return b.String()
}

// plain refuses texts that a configuration file or a command line would read in another way.
func plain(texts ...string) error {
	for _, t := range texts {
		if strings.HasPrefix(t, "-") || len(t) > 2048 || !utf8.ValidString(t) {
			return fmt.Errorf("%q: %w (want at most 2048 bytes of UTF-8 that do not begin with -)", short(hideUser(t)), ErrName)
		}
		for _, r := range t {
			if r < ' ' || r == 0x7f || strings.ContainsRune("\"\\`$", r) || !unicode.IsPrint(r) {
				return fmt.Errorf("%q: %w (want no %q)", short(hideUser(t)), ErrName, r)
			}
		}
	}
	return nil
}

func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:77], "") + "..."
	}
	return s
}
