// Package adopt reads what people have for other harnesses, and makes the files of this one of it.
//
// Promises: it reads a folder through an *os.Root, so no link leads out of it, and opens regular files alone, with
// limits on their number and size. It starts nothing, writes nothing, and reads no secret into a file. What it makes
// was read by the parser that will read it; what that does not take is refused with the reason. Texts of the files are
// data: they come into a command only as one quoted argument.
package adopt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Limits of a folder that is read.
const (
	maxFile  = 1 << 20
	maxFiles = 2000
	maxDepth = 8
)

// Outcomes of one thing that was found.
const (
	// Taken is as it was, Changed has other values than before, Refused is not taken.
	Taken   = "taken"
	Changed = "changed"
	Refused = "refused"
)

// Item is what became of one thing that was found.
type Item struct {
	// Kind is role, agent, formula, workflow, runtime, rules, settings, address, queue or alerts.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// From is the file that it was found in, below the folder; To is the file or the command that it became.
	From    string   `json:"from"`
	To      string   `json:"to,omitempty"`
	Outcome string   `json:"outcome"`
	Notes   []string `json:"notes,omitempty"`
}

// Report is what was found in a folder, and what is made of it.
type Report struct {
	Items []Item `json:"items"`
	// Files are to be written, by their path. Commands register at a station what no file has.
	Files    map[string][]byte `json:"-"`
	Commands [][]string        `json:"commands,omitempty"`
}

// add notes what became of something. An item with notes that was taken was changed.
func (r *Report) add(kind, name, from, to string, notes ...string) {
	i := Item{Kind: kind, Name: name, From: from, To: to, Outcome: Taken, Notes: notes}
	if len(notes) > 0 {
		i.Outcome = Changed
	}
	r.Items = append(r.Items, i)
}

func (r *Report) refuse(kind, name, from string, why error) {
	r.Items = append(r.Items, Item{Kind: kind, Name: name, From: from, Outcome: Refused, Notes: []string{why.Error()}})
}

// file makes a file, unless another one has its name.
func (r *Report) file(kind, name, from, to string, text []byte, notes ...string) {
	if before, there := r.Files[to]; there && string(before) != string(text) {
		r.refuse(kind, name, from, fmt.Errorf("%s is made of another file already: rename one of the two", to))
		return
	}
	r.Files[to] = text
	r.add(kind, name, from, to, notes...)
}

// command notes a command that a person gives.
func (r *Report) command(kind, name, from string, args []string, notes ...string) {
	r.Commands = append(r.Commands, args)
	r.add(kind, name, from, Quoted(args), notes...)
}

// Quoted is a command as a shell takes it: each argument stays one.
func Quoted(args []string) string {
	plain := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@"
	all := make([]string, len(args))
	for i, a := range args {
		if all[i] = a; a == "" || strings.Trim(a, plain) != "" {
			all[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(all, " ")
}

// folder is what is read.
type folder struct {
	root *os.Root
	Report
	files []string
}

var errTooMany = fmt.Errorf("the folder has more than %d files, or is more than %d deep: name the folder that has the settings", maxFiles, maxDepth)

// skipped are folders that have no settings, whatever is in them.
func skipped(name string) bool {
	return slices.Contains([]string{".git", "node_modules", "vendor", "logs", "dolt"}, name)
}

// open lists the regular files of a folder.
func open(root *os.Root) (*folder, error) {
	f := &folder{root: root, Report: Report{Items: []Item{}, Files: map[string][]byte{}}}
	err := fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.refuse("file", path.Base(at), at, err)
			return nil
		case d.IsDir() && at != "." && (skipped(d.Name()) || strings.Count(at, "/") >= maxDepth):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			if settings(at) {
				f.refuse("file", path.Base(at), at, errors.New("it is a link or no regular file: copy what it has"))
			}
			return nil
		case len(f.files) >= maxFiles:
			return errTooMany
		case settings(at):
			f.files = append(f.files, at)
		}
		return nil
	})
	return f, err
}

// settings reports whether a file may be one of those that are read.
func settings(at string) bool {
	return slices.Contains([]string{".toml", ".json", ".yaml", ".yml", ".prompt"}, path.Ext(at))
}

// read returns a file, which is at most so large.
func (f *folder) read(at string) ([]byte, error) {
	file, err := f.root.Open(at)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if i, err := file.Stat(); err != nil || !i.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is no regular file"))
	}
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return b, err
}

// some are the files that match a pattern of path.Match, in order.
func (f *folder) some(patterns ...string) (out []string) {
	for _, at := range f.files {
		for _, p := range patterns {
			if ok, _ := path.Match(p, at); ok { // the patterns are ours
				out = append(out, at)
				break
			}
		}
	}
	return out
}
