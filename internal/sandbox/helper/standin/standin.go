// Package standin is what programs do first that sandboxes start in their own place: inspan, toolrunner and
// inspan-within.
//
// Promises: a program that was started as a helper is nothing else.
package standin

import (
	"os"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/gocache"
	"github.com/inspan/inspan/internal/sandbox/launch"
)

// Main works as the helper that this program was started as, and returns with what to exit with; asked is false where
// it was started as itself.
func Main() (code int, asked bool) {
	if inside.Main() { // the way out of a sandbox
		return inside.Failed, true
	}
	if code, asked := within.Main(); asked { // in a container
		return code, true
	}
	if code, asked := wall.Main(); asked { // around git
		return code, true
	}
	if code, asked := gocache.Main(os.Args); asked { // beside the go command
		return code, true
	}
	if launch.Asked(os.Args) { // before a command
		return launch.Main(), true
	}
	return 0, false
}
