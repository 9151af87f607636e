package bwrap

import (
	"os/exec"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// Threads that end take those processes with them that they started and that are to die with their parent.
func TestNetworkOutlivesThreads(t *testing.T) { // alone: it starts threads without end
	sandboxtest.Need(t, New("", ""))
	program, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var threads sync.WaitGroup
	for range 2 {
		threads.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					local.Apart(func() {})
				}
			}
		})
	}
	defer threads.Wait()
	defer close(end)
	for range 10 {
		n, err := newNetwork(t.Context(), program)
		if err != nil {
			t.Fatal(err)
		}
		n.close()
	}
}
