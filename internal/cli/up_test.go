package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/storecheck"
)

// ending is an output that ends what wrote to it once it has said something.
type ending struct {
	mu   sync.Mutex
	text bytes.Buffer
	on   string
	end  func()
}

func (e *ending) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, err := e.text.Write(b)
	if strings.Contains(e.text.String(), e.on) {
		e.end()
	}
	return n, err
}

func TestUpDamaged(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	up := func(more ...string) (code int, out, errs string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		said := &ending{on: "Ctrl+C stops", end: cancel}
		var wrong bytes.Buffer
		code = cli.MainAlone(ctx, append([]string{"up", "--store", store, "--listen", "127.0.0.1:0", "--sandbox", "host", "--accept-lazy-fsync"}, more...), strings.NewReader(""), said, &wrong)
		return code, said.text.String(), wrong.String()
	}
	t.Run("SBX-13 CLI-9 inspan up says what it refuses where the sandbox is host", func(t *testing.T) {
		if code, out, errs := up(); code != 0 || !strings.Contains(out, "is up.") || !strings.Contains(errs, "tools that need host are refused") {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
	})
	blocks, err := filepath.Glob(filepath.Join(store, "nats", "jetstream", "*", "streams", "KV_harness-config", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%v %v", blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	copy(b[60:], "??????????????")
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("CLI-9 SAFE-2 inspan up says what is lost and how to go on, takes no work, and ends with 1", func(t *testing.T) {
		code, out, errs := up()
		if code != 1 || strings.Contains(out, "is up.") || !strings.Contains(errs, "THE STORE IS DAMAGED (loss ") || !strings.Contains(errs, "KV_harness-config") || !strings.Contains(errs, "--accept-loss") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		if code, out, errs := up("--accept-loss", "000000000000"); code == 0 || !strings.Contains(errs, "has not lost that") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		l, err := storecheck.LoadLosses(store)
		if err != nil {
			t.Fatal(err)
		}
		if code, out, errs := up("--accept-loss", l.Open.ID()); code != 0 || !strings.Contains(out, "is up.") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
		if code, out, errs := up(); code != 0 || strings.Contains(errs, "DAMAGED") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
	})
}
