// Package gocache is a cache of the go command (GOCACHEPROG) in two layers: what a sandbox compiled itself, and below
// it one that it may read and never write.
//
// Promises: Serve writes below own alone. What it finds in the shared layer is handed out only where it is whole: the
// content has the SHA-256 by which the go command names it.
package gocache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Word is the argument that makes a program such a cache; the shared directory follows it.
const Word = "inspan-serve-go-cache"

// maxBody bounds what the go command puts, in bytes.
const maxBody = 1 << 30

// Main serves, where the program was started for that; asked is false where it was not. The own layer is where the go
// command would have its cache.
func Main(args []string) (code int, asked bool) {
	if len(args) != 3 || args[1] != Word {
		return 0, false
	}
	own, err := ownDir()
	if err == nil {
		err = Serve(args[2], own, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inspan: cache of the go command:", err) // which sees that it ended
		return 1, true
	}
	return 0, true
}

// ownDir is the directory of the own layer.
func ownDir() (string, error) {
	if at := os.Getenv("GOCACHE"); filepath.IsAbs(at) {
		return at, nil
	}
	at, err := os.UserCacheDir()
	return filepath.Join(at, "go-build"), err
}

// Env is what the go command must have in its environment to use a program as its cache.
func Env(program, shared string) (string, error) {
	if strings.ContainsAny(program+shared, `"'`) {
		return "", fmt.Errorf("the path %s or %s has a quotation mark", program, shared)
	}
	return fmt.Sprintf(`GOCACHEPROG="%s" %s "%s"`, program, Word, shared), nil
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
	Err           string   `json:",omitempty"`
	KnownCommands []string `json:",omitempty"`
	Miss          bool     `json:",omitempty"`
	OutputID      []byte   `json:",omitempty"`
	Size          int64    `json:",omitempty"`
	DiskPath      string   `json:",omitempty"`
}

// Serve answers the go command until it is done.
func Serve(shared, own string, in io.Reader, out io.Writer) error {
	d, e := json.NewDecoder(in), json.NewEncoder(out)
	if err := e.Encode(answer{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var q ask
		err := d.Decode(&q)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if q.Command == "close" {
			return e.Encode(answer{ID: q.ID})
		}
		a, err := answerTo(d, q, shared, own)
		if err != nil {
			return err
		}
		if err := e.Encode(a); err != nil {
			return err
		}
	}
}

// answerTo answers one request, whose body comes next.
func answerTo(d *json.Decoder, q ask, shared, own string) (answer, error) {
	if len(q.ActionID) == 0 || q.BodySize < 0 || q.BodySize > maxBody {
		return answer{}, fmt.Errorf("request %d of the go command has no action, or %d bytes", q.ID, q.BodySize)
	}
	if q.Command == "put" {
		var body []byte
		if q.BodySize > 0 {
			if err := d.Decode(&body); err != nil {
				return answer{}, err
			}
		}
		if err := keep(own, q, body); err != nil {
			return answer{ID: q.ID, Err: err.Error()}, nil
		}
	}
	a, ok := lookUp(own, q.ActionID)
	if !ok {
		if a, ok = lookUp(shared, q.ActionID); ok && !whole(a) {
			a, ok = answer{}, false
		}
	}
	a.ID, a.Miss = q.ID, !ok
	return a, nil
}

// entry is where a cache has a file of an action (a) or an output (d).
func entry(cache string, id []byte, kind string) string {
	return filepath.Join(cache, hex.EncodeToString(id[:1]), hex.EncodeToString(id)+"-"+kind)
}

// keep writes what the go command puts, as its own cache has it. The output comes first: an action that is there has
// one.
func keep(cache string, q ask, body []byte) error {
	if len(q.OutputID) == 0 || int64(len(body)) != q.BodySize {
		return fmt.Errorf("the go command put %d bytes, and said %d", len(body), q.BodySize)
	}
	action := fmt.Sprintf("v1 %x %x %20d %20d\n", q.ActionID, q.OutputID, q.BodySize, 0)
	for _, f := range []struct {
		path string
		text []byte
	}{{entry(cache, q.OutputID, "d"), body}, {entry(cache, q.ActionID, "a"), []byte(action)}} {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.path, f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lookUp finds the output of an action, where it is there with its length.
func lookUp(cache string, action []byte) (a answer, ok bool) {
	text, err := os.ReadFile(entry(cache, action, "a"))
	if err != nil {
		return answer{}, false
	}
	var of, id []byte
	if _, err := fmt.Sscanf(string(text), "v1 %x %x %d", &of, &id, &a.Size); err != nil || len(id) == 0 {
		return answer{}, false
	}
	a.OutputID, a.DiskPath = id, entry(cache, id, "d")
	info, err := os.Stat(a.DiskPath)
	return a, err == nil && info.Size() == a.Size
}

// whole reports whether the output has the content that it is named by.
func whole(a answer) bool {
	f, err := os.Open(a.DiskPath)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && string(sum.Sum(nil)) == string(a.OutputID)
}
