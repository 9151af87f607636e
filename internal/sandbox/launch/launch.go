// Package launch is the program that puts walls around itself and then becomes the command of a sandbox.
//
// Promises: a program that answers Word as its first argument becomes the launcher, and nothing else of it runs. The
// launcher takes its order from descriptor 3, joins its control groups, gives up every capability and the means to get
// one, closes files and system calls, and then executes the command, whose process it is. The listener of its system
// call filter goes to descriptor 4, a socket. Where one of these fails, the command is not started and the reason is
// written there.
package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/helper"
)

// Word is the argument that makes a program the launcher.
const Word = "sandbox-launch"

// ConnectWord makes a program the launcher of a command in a sandbox whose files and system calls are closed already:
// it only has the command's connections made by the service. After it come the descriptors of its socket and of this
// program, and the command.
const ConnectWord = "sandbox-connect"

// Descriptors of the launcher.
const (
	orderFD = 3
	faultFD = 4
	rulesFD = 5
)

// maxFault is the most bytes of a reason.
const maxFault = 2 << 10

// Order is what a launcher does.
type Order struct {
	// Path is the program, absolute; Args begin with its name.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Groups are files of control groups to join.
	Groups []string `json:"groups,omitempty"`
	// FileSize is the most bytes of a single file that is written; 0 for no limit.
	FileSize int64 `json:"file_size,omitempty"`
	// Read and Write are files and directories that stay open, the second for all that can be done with one.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Programs says that descriptor 5 is a ruleset of Without, which is put on the command besides.
	Programs bool `json:"programs,omitempty"`
	// Network leaves internet sockets open; where they connect to is asked at the listener.
	Network bool `json:"network,omitempty"`
}

// Asked reports whether a program was started as the launcher: its main does nothing else then but os.Exit(Main()).
func Asked(args []string) bool {
	return len(args) == 2 && args[1] == Word || len(args) > connectArgs && args[1] == ConnectWord
}

// connectArgs is how many arguments come before the command that follows ConnectWord.
const connectArgs = 4

// programs are those of this module whose main asks Asked.
var programs = [...]string{"/cmd/inspan", "/cmd/toolrunner"}

// Self returns the command line that starts this program or its helper as the launcher. The error wraps
// sandbox.ErrUnavailable where this is a program that does not answer Word.
func Self() ([]string, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: the launcher needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
	}
	info, ok := debug.ReadBuildInfo()
	for _, name := range programs {
		if ok && strings.HasSuffix(info.Path, name) {
			return []string{helper.Program(), Word}, nil
		}
	}
	return nil, fmt.Errorf("%w: this program cannot start itself as the launcher of sandboxes: use inspan or toolrunner",
		sandbox.ErrUnavailable)
}

// ErrOrder means that what descriptor 3 holds is no order.
var ErrOrder = errors.New("no launch order: sandboxes start this program, it is not run by hand")

// fault ends a launcher that failed.
func fault(fd int, err error) int {
	text := err.Error()
	f := os.NewFile(uintptr(fd), "fault") //nolint:gosec // a descriptor
	if _, failed := f.WriteString(text[:min(len(text), maxFault)]); failed != nil {
		fmt.Fprintln(os.Stderr, text)
	}
	return 125
}
