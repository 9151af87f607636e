package bwrap

import (
	"os"
	"slices"

	"github.com/inspan/inspan/internal/sandbox"
)

// What other backends show of the machine is what this one shows, so that an agent file means the same in all of them.

// EtcShown returns the files and directories of /etc that a sandbox shows, as far as the machine has them.
func EtcShown() []string { return slices.Clone(etcShown[:]) }

// RootLinks returns the directories of the root that are links into /usr on most systems and real on some.
func RootLinks() []string { return slices.Clone(rootLinks[:]) }

// Shown reports whether a path is below one that the sandbox shows of the machine, or is made for it.
func Shown(cfg sandbox.Config, path string) bool { return shown(cfg, path) }

// Path is a path that a Config names, shown under the name that it has outside.
type Path struct {
	Path               string
	Writable, Optional bool
}

// Places orders what a Config names so that the deeper path wins when each is mounted over those before. Optional ones
// keep a closed path in its place: they are left out where they are missing.
func Places(cfg sandbox.Config) []Path {
	var list []Path
	for a := range slices.Chunk(binds(cfg.Workspace, cfg.ReadOnly, cfg.Writable, cfg.Denied), 3) {
		list = append(list, Path{Path: a[1], Writable: a[0] != "--ro-bind", Optional: a[0] == "--bind-try"})
	}
	return list
}

// Handles are open handles on paths in directories that commands write.
type Handles struct{ held anchors }

// Hold opens a path below one of some directories through no link. The file is nil where none of them holds it.
func (h *Handles) Hold(path string, open []string) (*os.File, error) {
	ok, err := h.held.anchor(path, open)
	if err != nil || !ok {
		return nil, err
	}
	return h.held.files[h.held.index[path]], nil
}

// Close closes all.
func (h *Handles) Close() { h.held.close() }
