package demo

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/examples"
	"github.com/inspan/inspan/internal/service"
)

// A sandbox has a Go build cache of its own, so each demo would compile the standard library twice: in its run and in the
// check of its commit. Here the go command of the sandbox asks this program instead (GOCACHEPROG), which finds what is
// missing in the cache of whoever runs the tests. It reads that cache and writes the sandbox's own.

// asCache is the argument that makes this program such a cache; the directory to read follows it.
const asCache = "serve-go-cache"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asCache {
		if err := serveCache(os.Args[2], filepath.Join(os.TempDir(), "go-cache"), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err) // the go command sees that it ended
		}
		return
	}
	m.Run()
}

// ask is a request of the go command, answer what it gets: see cmd/go/internal/cacheprog.
type ask struct {
	ID                 int64
	Command            string
	ActionID, OutputID []byte
	BodySize           int64
}

type answer struct {
	ID            int64
	KnownCommands []string `json:",omitempty"`
	Miss          bool     `json:",omitempty"`
	OutputID      []byte   `json:",omitempty"`
	Size          int64    `json:",omitempty"`
	DiskPath      string   `json:",omitempty"`
}

func serveCache(shared, own string, in io.Reader, out io.Writer) error {
	d, e := json.NewDecoder(in), json.NewEncoder(out)
	if err := e.Encode(answer{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var q ask
		if err := d.Decode(&q); err != nil || q.Command == "close" {
			return e.Encode(answer{ID: q.ID})
		}
		if q.Command == "put" {
			var body []byte
			if q.BodySize > 0 {
				if err := d.Decode(&body); err != nil {
					return err
				}
			}
			if err := keep(own, q, body); err != nil {
				return err
			}
		}
		a, ok := lookUp(own, q.ActionID)
		if !ok {
			a, ok = lookUp(shared, q.ActionID)
		}
		a.ID, a.Miss = q.ID, !ok
		if err := e.Encode(a); err != nil {
			return err
		}
	}
}

// entry is where a cache has a file of an action (a) or an output (d).
func entry(cache string, id []byte, kind string) string {
	return filepath.Join(cache, hex.EncodeToString(id[:1]), hex.EncodeToString(id)+"-"+kind)
}

// keep writes what the go command puts, as its own cache has it.
func keep(cache string, q ask, body []byte) error {
	action := fmt.Sprintf("v1 %x %x %d 0\n", q.ActionID, q.OutputID, q.BodySize)
	for path, text := range map[string][]byte{entry(cache, q.OutputID, "d"): body, entry(cache, q.ActionID, "a"): []byte(action)} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lookUp finds the output of an action, where it is there as a whole.
func lookUp(cache string, action []byte) (a answer, ok bool) {
	text, err := os.ReadFile(entry(cache, action, "a"))
	if err != nil {
		return answer{}, false
	}
	var id []byte
	if _, err := fmt.Sscanf(string(text), "v1 %x %x %d", new([]byte), &id, &a.Size); err != nil || len(id) == 0 {
		return answer{}, false
	}
	a.OutputID, a.DiskPath = id, entry(cache, id, "d")
	info, err := os.Stat(a.DiskPath)
	return a, err == nil && info.Size() == a.Size
}

// buildCache is that of whoever runs the tests.
func buildCache(t *testing.T) string {
	t.Helper()
	at, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(at))
}

// sharesCache is a configuration whose sandboxes read that cache. What it lacks of the demo's commands is compiled here.
func sharesCache(t *testing.T) service.Config {
	t.Helper()
	cache, module := buildCache(t), filepath.Join(t.TempDir(), "module")
	if err := prepare(t.Context(), examples.Files, module); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-run", "^$", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v: %s", args[0], err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return service.Config{Sandboxes: service.Sandboxes{SandboxReadOnly: []string{cache, self},
		SandboxEnv: []string{"GOCACHEPROG=" + strings.Join([]string{self, asCache, cache}, " ")}}}
}
