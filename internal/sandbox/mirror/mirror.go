// Package mirror holds what the backends share whose commands run on another machine (Remote): the way of the workspace
// there and back, how a command is started, told from what it leaves behind, and ended with it.
//
// Promises: the workspace of this machine is the truth. What changed in it is sent before a command starts; what
// commands changed there is brought back before Exec returns, so that file operations, snapshots and artifacts work as
// for local backends. Where both sides changed a file, the one of this machine stays. A file is replaced in one move,
// with the bytes that were listed, or not at all: what is cut in the middle leaves the old one, is told, and is brought
// the next time. Nothing that the other machine says leads out of the workspace: it is applied through an os.Root, and
// a listing with names that no file of a workspace has, or with more than Limits, is refused whole. Denied paths are
// neither sent nor brought back. Nothing of this machine's environment is passed on.
//
// It does not promise: hard links (they become files), owners and times of directories, pipes, sockets and devices
// (they stay where they are). It needs of the other machine a POSIX shell, /proc, and the GNU find and tar with awk,
// env, grep, id, sort and xargs; OpenBox says what is missing.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// ErrHostile means that the other machine said something that no workspace can be.
var ErrHostile = errors.New("invalid listing of files from the other machine")

// ErrTooMuch means that a workspace has more files or bytes than Limits.
var ErrTooMuch = errors.New("the workspace is too large to be sent or copied back")

// ErrCut means that the connection to the other machine broke while a command ran there: no one knows what it did.
var ErrCut = fmt.Errorf("%w: the connection broke and the outcome of the command is unknown: check the workspace before running it again", sandbox.ErrLost)

// ErrBehind means that a command has ended and what it changed was not all brought back.
var ErrBehind = errors.New("not all changes of the command were copied back: the next command copies them again")

// Remote is another machine. It is safe for concurrent use.
type Remote interface {
	// Run starts a program there and returns when its streams have ended or ctx has; it does not end the program when
	// ctx ends. The error is about the way there, and wraps ErrCut where the program was started and its end is not
	// known.
	Run(ctx context.Context, p Program) error
	// Put writes a file, Get opens one. Paths are absolute; the directory is there.
	Put(ctx context.Context, path string, body io.Reader) error
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	// End ends the machine with all that is in it. It may be called again, also after an error.
	End(ctx context.Context) error
}

// Program is one program for a Remote.
type Program struct {
	Args []string
	// Stdin may be nil, for none. Stdout and Stderr are never nil; what a Write is given is valid until it returns.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Privileged asks for the machine's administrator, where the Remote has one; else it is run as any other.
	Privileged bool
	// Used, where it is not nil, is filled before Run returns where the Remote counts what the program and all it
	// started used.
	Used *Used
}

// Used is what a program and all it started used; 0 where it is not known.
type Used struct {
	User, System time.Duration
	// Memory is the most at a time, in bytes; Read and Written are bytes of disks.
	Memory, Read, Written int64
}

// bounded is what of it can be: the other machine says it.
func (u Used) bounded() Used {
	const most = 1 << 50 // bytes, or nanoseconds
	amount := func(n int64) int64 { return min(max(n, 0), most) }
	return Used{time.Duration(amount(int64(u.User))), time.Duration(amount(int64(u.System))), amount(u.Memory),
		amount(u.Read), amount(u.Written)}
}

// Limits of a workspace that is mirrored.
const (
	// MaxEntries is the most files, directories and links.
	MaxEntries = 200_000
	// MaxFile and MaxTree are the most bytes of a file and of all together.
	MaxFile = 1 << 30
	MaxTree = 4 << 30
	// MaxPath is the longest path in bytes, and MaxLink that of what a link says.
	MaxPath = 4095
	MaxLink = 4095
	// maxListing is the most bytes of a listing.
	maxListing = 64 << 20
	// maxStderr is the most bytes that are kept of what a helper there says, for an error text.
	maxStderr = 2 << 10
)

const (
	// helperWait bounds one helper there, and settleWait all that is done after a command.
	helperWait = 3 * time.Minute
	settleWait = 10 * time.Minute
	// startWait is how long a command that was ended is given to say that it has begun, so that it is not missed.
	startWait = 5 * time.Second
	// drainWait is how long the last words of a command are waited for, where somebody else holds its output.
	drainWait = 500 * time.Millisecond
	// pullRounds is how often the tree is looked at again where files went while they were brought back.
	pullRounds = 3
)
