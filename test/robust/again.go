package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Why a part has not come to its end.
const (
	tookLonger = "it took longer than "
	notRun     = "not run: "
)

// earlier reads the report of a go that did not come to its end. A part that failed is not run again until it holds:
// such a report is refused.
func earlier(ctx context.Context, path string, seed uint64) (whole, error) {
	var w whole
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	if err != nil {
		return w, fmt.Errorf("-again: %w", err)
	}
	if now := commit(ctx); w.Commit != now || w.Machine != machine() {
		return w, fmt.Errorf("-again: %s is of commit %s on %s, this is %s on %s", path, w.Commit, w.Machine, now, machine())
	}
	for _, p := range w.Parts {
		late := strings.HasPrefix(p.Failed, tookLonger) || strings.HasPrefix(p.Failed, notRun)
		switch {
		case len(p.Violations) > 0 || p.Failed != "" && !late:
			return w, fmt.Errorf("-again: %s failed: fix it, and run the whole programme", p.Name)
		case p.Seed != 0 && p.Seed != seed:
			return w, fmt.Errorf("-again: %s was run with seed %d", p.Name, p.Seed)
		}
	}
	return w, nil
}

// held reports whether a part came to its end.
func (w whole) held(p part) bool {
	return slices.ContainsFunc(w.Parts, func(r result) bool { return r.Name == p.name && r.Failed == "" })
}

// and puts the parts of a later go beside those that held.
func (w whole) and(later whole) (whole, error) {
	first, err1 := time.ParseDuration(w.Took)
	then, err2 := time.ParseDuration(later.Took)
	if err := errors.Join(err1, err2); err != nil {
		return w, fmt.Errorf("-again: %w", err)
	}
	all := later
	all.Took, all.Goes, all.Passed, all.Parts = (first + then).String(), max(w.Goes, 1)+1, later.Passed, nil
	for _, p := range parts {
		of := func(r result) bool { return r.Name == p.name }
		for _, one := range [][]result{later.Parts, w.Parts} {
			if i := slices.IndexFunc(one, of); i >= 0 {
				all.Parts = append(all.Parts, one[i])
				all.Passed = all.Passed && one[i].Failed == ""
				break
			}
		}
	}
	return all, nil
}
