package reload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/events"
)

// usable is the folder to read: the named one, or a copy of what is accepted, with its digest. The error is for the
// person.
func (w *watcher) usable() (dir, digest string, err error) {
	if !w.copied {
		return w.path, "", nil
	}
	p, err := trust.ReadAgents(w.path)
	if err != nil {
		return "", "", fmt.Errorf("%w; those that are registered stay", err)
	}
	if digest = p.Digest(); digest == w.digest {
		return "", digest, nil
	}
	record, ok, err := isAccepted(p)
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", digest, fmt.Errorf("%s changed; look at it and accept it with inspan trust: until then it is not used",
			w.changed(p))
	}
	dir, err = p.Pin(record.Pinned())
	return dir, digest, err
}

// isAccepted reports whether a person accepted a part as it is.
func isAccepted(p trust.Part) (record *trust.Record, ok bool, err error) {
	if record, err = trust.Open(); err != nil {
		return nil, false, err
	}
	all, err := record.All()
	was := all[p.Path]
	return record, err == nil && was.Kind == p.Kind && was.Digest == p.Digest(), err
}

// maxNamed is how many files are named that wait to be accepted.
const maxNamed = 5

// changed names the files that are not as the station read them.
func (w *watcher) changed(p trust.Part) string {
	var was map[string]string
	if used, err := trust.ReadAgents(w.used); err == nil {
		was = used.Hashes()
	}
	var names []string
	for _, d := range p.Differences(was) {
		names = append(names, filepath.Join(w.path, d[2:]))
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// digestOf is that of a folder of agents, empty where it cannot be read.
func digestOf(dir string) string {
	p, err := trust.ReadAgents(dir)
	if err != nil {
		return ""
	}
	return p.Digest()
}

// digestOfFile is the digest of a file's content; a file that cannot be read has none.
func digestOfFile(dir, file string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	b, err := root.ReadFile(file)
	if err != nil {
		return ""
	}
	return events.HashOf(b)
}

// recordPath is the file of what was accepted.
func recordPath() string {
	record, err := trust.Open()
	if err != nil {
		return ""
	}
	return record.Path()
}
