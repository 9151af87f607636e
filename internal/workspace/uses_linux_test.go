package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/workspace"
)

func TestOpenUses(t *testing.T) {
	t.Parallel()
	t.Run("WS-5 locks of workspaces that no call is in take a bounded number of files", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		u := workspace.NewUses(root)
		for i := range 200 {
			leave, err := u.Enter(t.Context(), fmt.Sprintf("run/r%d", i), "r1")
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		open, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		locks := 0
		for _, fd := range open {
			if at, err := os.Readlink(fd); err == nil && strings.HasPrefix(at, root) {
				locks++
			}
		}
		if locks == 0 || locks > 128 {
			t.Errorf("%d locks are open", locks)
		}
	})
}
