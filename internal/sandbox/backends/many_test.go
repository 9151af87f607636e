package backends_test

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be the launcher of landlock.
func TestMain(m *testing.M) {
	if launch.Asked(os.Args) {
		launch.Main() // which becomes the command
		return
	}
	m.Run()
}

func all() []sandbox.Backend {
	return []sandbox.Backend{host.New(""), bwrap.New("", ""), landlock.New([]string{"/proc/self/exe", launch.Word}, ""),
		gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR")})}
}

func TestMany(t *testing.T) {
	t.Parallel()
	for _, backend := range all() {
		t.Run("SBX-9 64 sandboxes of "+string(backend.Mode())+" at once know only their own", func(t *testing.T) {
			sandboxtest.Need(t, backend)
			var running sync.WaitGroup
			for i := range 64 {
				dir := t.TempDir()
				running.Go(func() {
					sb, err := backend.Open(t.Context(), sandbox.Config{ID: fmt.Sprint(i), Workspace: dir, Network: true})
					if err != nil {
						t.Error(err)
						return
					}
					var out bytes.Buffer
					script := fmt.Sprintf(`echo %d > "$HOME/f"; echo %d > f; read x < "$HOME/f"; read y < f; echo $x; echo $y; set -- * .[!.]*; echo "$*"; cd "$HOME"; set -- * .[!.]*; echo "$*"`, i, i)
					exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
					if want := fmt.Sprintf("%d\n%d\nf .[!.]*\nf .[!.]*\n", i, i); err != nil || exit.Code != 0 || out.String() != want {
						t.Errorf("sandbox %d: got %q, %+v, %v", i, out.String(), exit, err)
					}
					if err := sb.Destroy(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
		})
	}
}
