package git

import (
	"errors"
	"fmt"
	"strings"
)

// What callers branch on.
var (
	// ErrConflict: two sides changed the same place; the error is a *ConflictError where a merge found it.
	ErrConflict = errors.New("conflict")
	// ErrAuth: the remote wants another credential, or none was there.
	ErrAuth = errors.New("not authorized")
	// ErrHostKey: the key of an ssh server is not the known one.
	ErrHostKey = errors.New("unknown host key")
	// ErrNotFound: no such repository, branch, tag or commit.
	ErrNotFound = errors.New("not found")
	// ErrRejected: the remote has commits that the pushed branch has not, or a rule against it.
	ErrRejected = errors.New("rejected by the remote")
	// ErrMoved: a branch is not at the commit that was meant.
	ErrMoved = errors.New("the branch has moved on")
	// ErrUnmerged: a branch that is to go is not proven to be merged.
	ErrUnmerged = errors.New("not merged")
	// ErrUnreachable: no answer from the remote; trying later may help.
	ErrUnreachable = errors.New("remote is not reachable")
	// ErrProtocol: an address whose protocol is not allowed.
	ErrProtocol = errors.New("protocol is not allowed")
	// ErrName: a name or an address that git or we could take for something else.
	ErrName = errors.New("bad name")
	// ErrTooLarge: a limit of Limits was reached.
	ErrTooLarge = errors.New("too large")
	// ErrHostile: a repository is laid out so that working with it would leave it.
	ErrHostile = errors.New("repository is not trusted")
	// ErrNotRepository: the directory is not the top of a working tree.
	ErrNotRepository = errors.New("not a repository")
	// ErrNotEmpty: a directory to clone into holds other files.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrDirty: there are changes that were not committed.
	ErrDirty = errors.New("working tree has changes")
	// ErrUnderway: a merge, rebase or another git is in the middle of its work.
	ErrUnderway = errors.New("another operation is in progress")
	// ErrNothing: there is nothing to do it with, such as no commit to bundle.
	ErrNothing = errors.New("nothing to do")
	// ErrFull: the disk has no space left.
	ErrFull = errors.New("disk is full")
	// ErrDamaged: a pack is incomplete, was changed, or does not follow the ones before it.
	ErrDamaged = errors.New("damaged pack")
)

// Error is a git command that ended with an error.
type Error struct {
	// Op is git's subcommand, Exit its exit code, -1 where it did not end by itself.
	Op   string
	Exit int
	// Kind is one of the errors above, or nil.
	Kind error
	// Detail is the end of what git said, in one line, at most 1 KiB, without secrets. It may hold a stranger's words.
	Detail string
	// Hint tells what to do next.
	Hint string
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "git %s", e.Op)
	if e.Kind != nil {
		fmt.Fprintf(&b, ": %v", e.Kind)
	}
	switch {
	case e.Detail != "":
		fmt.Fprintf(&b, ": %s", e.Detail)
	default:
		fmt.Fprintf(&b, ": exit status %d", e.Exit)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap gives Kind.
func (e *Error) Unwrap() error { return e.Kind }

// ConflictError is a merge that people or agents must finish. Nothing was changed by it.
type ConflictError struct {
	// Ours and Theirs are the commits that were to be merged.
	Ours, Theirs string
	// Marked is the id of a tree in which the places of conflict are marked inside of the files.
	Marked    string
	Conflicts []Conflict
}

func (e *ConflictError) Error() string {
	paths := make([]string, 0, 3)
	for _, c := range e.Conflicts[:min(3, len(e.Conflicts))] {
		paths = append(paths, fmt.Sprintf("%q", c.Path))
	}
	more := ""
	if n := len(e.Conflicts) - len(paths); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("merge %.12s: %v in %s%s (resolve the conflicts on one of the branches and merge again)", e.Theirs,
		ErrConflict, strings.Join(paths, ", "), more)
}

// Is reports ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// sign is a piece of what git says in the C locale, and what it means. Git has no other channel for the reason.
type sign struct {
	text, hint string
	kind       error
}

// signs are looked at in order: the first that fits is meant.
func signs() []sign {
	const key = "check the credential of this host and its permissions"
	const name = "check the address and the name"
	const turn = "fetch, merge the new commits, and push again"
	return []sign{
		{"Too many levels of symbolic links", leads, ErrHostile}, {"too many levels of symbolic links", leads, ErrHostile},
		{"inspan: wall: ", leads, ErrHostile},
		{"fatal: not a git repository: ", leads, ErrHostile}, {"unable to create directory for ",
			"check whether a command changes the repository while git runs, and whether the repository is writable; then retry",
			nil},
		{"Read-only file system", leads + "; or the disk is read-only", ErrHostile},
		{"Out of memory, ", "fetch less, such as depth 1, or use another repository", ErrTooLarge},
		{"Host key verification failed", "add the host's public key to the known hosts of the credential", ErrHostKey},
		{"Authentication failed", key, ErrAuth}, {"could not read Username", key, ErrAuth}, {"could not read Password", key,
			ErrAuth},
		{"Permission denied (", key, ErrAuth}, {"returned error: 401", key, ErrAuth}, {"returned error: 403", key, ErrAuth},
		{"unable to update url base from redirection", "use the address that the server redirects to", ErrUnreachable},
		{"returned error: 301", "use the address that the server redirects to", ErrUnreachable},
		{"returned error: 302", "use the address that the server redirects to", ErrUnreachable},
		{"non-fast-forward", turn, ErrRejected}, {"fetch first", turn, ErrRejected}, {"stale info", turn, ErrRejected},
		{"[remote rejected]", "read the message of the remote: a rule of the branch forbids the push", ErrRejected},
		{"[rejected]", turn, ErrRejected},
		{"not allowed", "use an address with one of the allowed protocols", ErrProtocol},
		{"could not resolve host", "check the address and the network, then try again", ErrUnreachable},
		{"Could not resolve host", "check the address and the network, then try again", ErrUnreachable},
		{"Connection refused", "check the address and the network, then try again", ErrUnreachable},
		{"connect to server", "check the address and the network, then try again", ErrUnreachable},
		{"Operation timed out", "try again later", ErrUnreachable}, {"Connection timed out", "try again later",
			ErrUnreachable},
		{"Operation too slow", "try again later", ErrUnreachable}, {"SSL certificate problem",
			"check the certificate of the host", ErrUnreachable},
		{"Empty reply from server", "try again later", ErrUnreachable}, {"Connection reset by peer", "try again later",
			ErrUnreachable},
		{"returned error: 429", "try again later", ErrUnreachable}, {"returned error: 5", "try again later", ErrUnreachable},
		{"early EOF", "try again later", ErrUnreachable}, {"unexpected disconnect", "try again later", ErrUnreachable},
		{"couldn't find remote ref", name, ErrNotFound}, {"unknown revision", name, ErrNotFound},
		{"Repository not found", name, ErrNotFound},
		{"does not appear to be a git repository", name, ErrNotFound}, {"repository '", name, ErrNotFound},
		{"not our ref", name, ErrNotFound},
		{"Needed a single revision", name, ErrNotFound}, {"Not a valid object name", name, ErrNotFound},
		{"not a valid object", name, ErrNotFound},
		{"would be overwritten", "commit the changes first", ErrDirty}, {"not uptodate", "commit the changes first",
			ErrDirty},
		{".lock': File exists", "wait until the other git process has ended; if none runs, remove the lock file",
			ErrUnderway},
		{"Invalid path", "remove or rename the file: git reserves its name", ErrName},
		{"invalid path", "remove or rename the file: git reserves its name", ErrName},
		{"No space left on device", "free some space and try again", ErrFull},
	}
}

// meaning finds the kind and the hint for what git said.
func meaning(said string) (error, string) {
	for _, s := range signs() {
		if strings.Contains(said, s.text) {
			return s.kind, s.hint
		}
	}
	return nil, ""
}
