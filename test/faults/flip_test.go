//go:build slow

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/test/robust/report"
)

const repaired = "fixed by the server from the other replicas"

// flips changes one bit in the stored log of one replica while it is stopped. It must be found, by the server or by the
// audits of the product (the hash chain, and no place of the log empty), and be fixed by wiping that replica.
func (w *world) flips() {
	for range 2 * w.rounds {
		name := fmt.Sprintf("n%d", 1+w.chance.IntN(3))
		var where string
		w.fault("a bit of the log flipped on one node", func() {
			w.stop(name, syscall.SIGKILL)
			where = w.flip(name)
			w.start(name)
		})
		w.wholeAgain("a bit was flipped on " + name)
		if where == "" {
			continue
		}
		how := w.found(name)
		w.damage[how]++
		if how == "" {
			w.v.violate("SAFE-2: a flipped bit (%s) was found by no one", where)
		}
		w.T.Logf("        bit %s: %s", where, how)
		if how == repaired {
			continue
		}
		w.fault("a damaged node wiped", func() {
			w.stop(name, syscall.SIGKILL)
			w.wipe(name)
			w.start(name)
		})
		w.wholeAgain("the damaged " + name + " was wiped")
		if again := w.found(name); again != repaired {
			w.v.violate("SAFE-2: after %s was wiped its log is still %s", name, again)
		}
	}
}

// flip changes a bit in the first half of the oldest block of the log, among events of runs that have ended.
func (w *world) flip(name string) string {
	blocks, err := filepath.Glob(filepath.Join(w.node(name).store, "jetstream", "$G", "streams", topology.Log(stationName), "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		w.v.violate("the log of %s has no blocks: %v", name, err)
		return ""
	}
	slices.SortFunc(blocks, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	b, err := os.ReadFile(blocks[0])
	if err != nil || len(b) == 0 {
		w.v.violate("read a block of %s: %v", name, err)
		return ""
	}
	at, bit := w.chance.IntN(len(b)/2), byte(1)<<w.chance.IntN(8)
	b[at] ^= bit
	if err := os.WriteFile(blocks[0], b, 0o640); err != nil {
		w.v.violate("flip a bit of %s: %v", name, err)
		return ""
	}
	return fmt.Sprintf("%d of byte %d of %d on %s", bit, at, len(b), name)
}

// found compares the ended runs of a node with those of another, each read alone, and says how damage was found; ""
// where the two differ and no audit of the one says so.
func (w *world) found(name string) string {
	ids := w.load.endedRuns()
	other := w.nodes[0]
	if other.name == name {
		other = w.nodes[1]
	}
	quiet := &verdicts{part: &report.Part{}, said: map[string]bool{}}
	good := w.alone(other, ids, w.v)
	bad := w.alone(w.node(name), ids, quiet)
	for _, words := range quiet.part.Violations {
		if strings.HasPrefix(words, "SAFE-2") {
			w.T.Logf("        %s", words)
			return "found by the hash chain or an empty place of the log"
		}
	}
	if len(quiet.part.Violations) > 0 {
		w.T.Logf("        %s", quiet.part.Violations[0])
		return "found by the server, which does not serve the log"
	}
	differ := &verdicts{part: &report.Part{}, said: map[string]bool{}}
	good.same(bad, differ)
	if len(differ.part.Violations) > 0 {
		return ""
	}
	return repaired
}

// alone reads runs from a node that no one else can reach meanwhile, and audits its log.
func (w *world) alone(n *node, ids []string, v *verdicts) view {
	w.net.sever(only(n.name), not(only(n.name, "auditor")))
	defer w.net.heal()
	seen := w.read(w.ctx, n, ids, v)
	w.intact(w.ctx, n, 0, v)
	return seen
}

// endedRuns are those whose end a client has seen.
func (l *load) endedRuns() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for _, tk := range l.tasks {
		if !tk.ended.IsZero() {
			ids = append(ids, tk.id)
		}
	}
	return ids
}
