package landlock

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox/launch"
)

// rulesets are those that close programs, one for each list of files, as long as the directories that hold them do not
// change.
type rulesets struct {
	mu    sync.Mutex
	known map[string]*os.File // guarded by mu
}

// maxRulesets is how many are remembered; a box keeps its own as long as it lives.
const maxRulesets = 16

// of returns the ruleset without some files.
func (r *rulesets) of(files []string) (*os.File, error) {
	key := strings.Join(files, "\x00")
	for _, dir := range launch.Holds(files) {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		key += fmt.Sprintf("\x00%s %d", dir, info.ModTime().UnixNano())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.known[key]; f != nil {
		return f, nil
	}
	f, err := launch.Without(files)
	if err != nil {
		return nil, err
	}
	if r.known == nil || len(r.known) >= maxRulesets {
		r.known = make(map[string]*os.File) // the files are closed when no box has them any more
	}
	r.known[key] = f
	return f, nil
}

// programs closes the programs that the Config denies.
func (b *instance) programs(r *rulesets, dirs []string, find finder) error {
	files, err := find(b.Config().DenyPrograms, dirs)
	if err != nil || len(files) == 0 {
		return err
	}
	b.without, err = r.of(files)
	return err
}
