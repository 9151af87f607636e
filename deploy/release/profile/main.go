// Command profile makes the profile that releases are compiled with of CPU profiles of the benchmark: functions, lines and
// their weights, and nothing of the machine that they were taken on.
//
//	profile OUT IN...
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: profile OUT IN...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(out string, in []string) (err error) {
	var all []*profile.Profile
	for _, path := range in {
		p, err := read(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	p, err := profile.Merge(all)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return p.Write(f)
}

// read reads a profile without what is of its machine. The compiler needs none of it.
func read(path string) (*profile.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, err
	}
	for _, m := range p.Mapping {
		m.File, m.BuildID = "", ""
	}
	for _, l := range p.Location {
		l.Address = l.ID
	}
	p.Comments, p.TimeNanos = nil, 0
	return p, nil
}
