package station

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/topology"
)

// ErrEarlier means that a store was made by an earlier program, whose runs this one would not see.
var ErrEarlier = errors.New("the store is one of an earlier program")

// noAccount is what a server calls the account of those without one, in which earlier programs kept all streams.
const noAccount = "$G"

// checkEarlier finds the log of an earlier program in a server's store. Its streams are not taken over: their timers
// are laid out in another way, and one that is lost is a run that waits for ever.
func checkEarlier(store string) error {
	all, err := os.ReadDir(filepath.Join(store, "jetstream", noAccount, "streams"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for streams of an earlier program: %w", err)
	}
	for _, d := range all {
		if station, ok := strings.CutPrefix(d.Name(), topology.Log("")); ok {
			return fmt.Errorf("%w: %s holds runs of station %s from before its streams had an account of their own, and nothing was changed; to bring them along, start the earlier program with this --store, "+
				"write each of its runs to a file with this program (inspan runs; inspan export RUN --bundle FILE, with --fork for one that has not ended), stop the earlier program, "+
				"start this one with another --store, and bring each file to it with inspan import FILE", ErrEarlier, store,
				station)
		}
	}
	return nil
}
