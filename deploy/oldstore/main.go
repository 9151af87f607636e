// Command oldstore makes local stores of this version from those of before, which are SQLite files. It is a module of
// its own, so that no program of inspan links SQLite.
//
// Promises: it reads a copy, and the old file stays as it is. A new file is there only once all of the old one is in it
// and was read back and compared. It replaces no file, and refuses an old one that a program has open.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/localstore"
)

// names of the files of this version in the folder of a station.
var names = []string{"station.bolt", "fallback.bolt"}

const usage = `oldstore converts the local stores in the folder of a station, FOLDER/station.db and FOLDER/fallback.db.

Usage:   oldstore FOLDER
Example: make local-store STORE=.inspan

Stop inspan before. The old files stay: remove them when the station works with the new ones.
Exit code 0: converted, or there is nothing to convert; 1: not converted; 2: wrong use.
`

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" || os.Args[1][0] == '-' {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := folder(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oldstore:", err)
		os.Exit(1)
	}
}

// folder converts what is in the folder of a station.
func folder(dir string, out io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return fmt.Errorf("folder of the station: %w", err)
	}
	found := 0
	for _, name := range names {
		path := filepath.Join(dir, name)
		old := localstore.EarlierPath(path)
		if _, err := os.Stat(old); errors.Is(err, os.ErrNotExist) {
			continue
		}
		found++
		if _, err := os.Stat(path); err == nil {
			fmt.Fprintf(out, "%s is there already, %s is not read\n", path, old)
			continue
		}
		n, err := convert(old, path)
		if err != nil {
			return fmt.Errorf("%s: %w", old, err)
		}
		fmt.Fprintf(out, "%s: %s of station %s, each compared with %s\n", path, n, n.station, old)
	}
	if found == 0 {
		fmt.Fprintf(out, "%s has no store of an earlier version\n", dir)
	}
	return nil
}
