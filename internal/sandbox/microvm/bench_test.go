package microvm_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// crowd is how many machines are there at a time: each takes some hundred MiB of this computer, and seconds of a
// processor to start where it is emulated.
const crowd = 8

// BenchmarkCosts measures machines as all sandboxes are measured, and besides what memory of this computer an engine
// takes whose machine runs a command (engine-MiB) of the size that the tests give it.
func BenchmarkCosts(b *testing.B) {
	sandboxtest.CostsOf(b, real(), crowd)
	sb := open(b, real(), sandbox.Config{})
	sh(b, sb, "head -c 16m /dev/zero | tail | wc -c")
	size, err := engineMemory()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size)/(1<<20), "engine-MiB")
}

// engineMemory is what the engine of this process holds in memory, in bytes. There has to be just one.
func engineMemory() (size int64, err error) {
	list, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	var found int
	for _, at := range list {
		text, err := os.ReadFile(at)
		if err != nil || !bytes.Contains(text, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) {
			continue // it has ended, or is another's
		}
		_, rest, _ := bytes.Cut(text, []byte("\nVmRSS:"))
		if fields := bytes.Fields(rest); len(fields) > 1 {
			kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
			if err != nil {
				return 0, err
			}
			size, found = size+kib<<10, found+1
		}
	}
	if found != 1 {
		return 0, fmt.Errorf("%d engines, want one", found)
	}
	return size, nil
}
