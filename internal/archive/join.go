package archive

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// joint is several archives of one station as one source: those of several persisters, or copies.
type joint []Source

var _ Source = joint(nil)

// Join makes several sources one. Of a run the longest log counts, of a workspace the newest record, of a branch the
// one that was published last; an object that one source does not have whole is taken from another.
func Join(all ...Source) Source {
	if len(all) == 1 {
		return all[0]
	}
	return joint(all)
}

// Runs implements Source.
func (j joint) Runs(ctx context.Context) ([]Manifest, error) {
	type name struct{ station, run string }
	at := map[name]int{}
	var all []Manifest
	for _, src := range j {
		some, err := src.Runs(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			n := name{m.Station, m.Run}
			i, there := at[n]
			if !there {
				at[n] = len(all)
				all = append(all, m)
			} else if m.Sequence > all[i].Sequence {
				all[i] = m
			}
		}
	}
	return all, nil
}

// first asks one source after the other; where none has it whole, the error of one that has it damaged counts.
func first[T any](j joint, get func(Source) (T, error)) (T, error) {
	var none T
	var worst error
	for _, src := range j {
		got, err := get(src)
		if err == nil {
			return got, nil
		}
		if worst == nil || errors.Is(worst, kernel.ErrNotFound) {
			worst = err
		}
	}
	return none, worst
}

// Object implements Source.
func (j joint) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	return first(j, func(s Source) ([]byte, error) { return s.Object(ctx, ref) })
}

// TreePart implements Source.
func (j joint) TreePart(ctx context.Context, station, workspace string, ref events.Ref) ([]byte, error) {
	return first(j, func(s Source) ([]byte, error) { return s.TreePart(ctx, station, workspace, ref) })
}

// Artifact implements Source.
func (j joint) Artifact(ctx context.Context, station, run string, ref events.Ref) ([]byte, error) {
	return first(j, func(s Source) ([]byte, error) { return s.Artifact(ctx, station, run, ref) })
}

// Agents implements Source: of two of a name the first counts.
func (j joint) Agents(ctx context.Context, station string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, src := range slices.Backward(j) {
		some, err := src.Agents(ctx, station)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// Tree implements Source.
func (j joint) Tree(ctx context.Context, station, workspace string) (Tree, error) {
	var best Tree
	var of treeRecord
	err := kernel.ErrNotFound
	for _, src := range j {
		t, e := src.Tree(ctx, station, workspace)
		if e != nil {
			if errors.Is(err, kernel.ErrNotFound) {
				err = e
			}
			continue
		}
		rec, e := readTree(t.Record, workspace)
		if e != nil {
			continue
		}
		newer := rec.Fence > of.Fence || rec.Fence == of.Fence && (rec.At.After(of.At) || rec.At.Equal(of.At) && best.Stale)
		if best.Record == nil || newer {
			best, of = t, rec
		}
	}
	if best.Record != nil {
		return best, nil
	}
	return best, err
}

// Branches implements Source.
func (j joint) Branches(ctx context.Context, station, scope string) (map[string][]byte, error) {
	all, at := map[string][]byte{}, map[string]time.Time{}
	for _, src := range j {
		some, err := src.Branches(ctx, station, scope)
		if err != nil {
			return nil, err
		}
		for key, record := range some {
			var rec events.PublishedBranch
			if err := json.Unmarshal(record, &rec); err != nil {
				return nil, err
			}
			if _, there := all[key]; !there || rec.At.After(at[key]) {
				all[key], at[key] = record, rec.At
			}
		}
	}
	return all, nil
}
