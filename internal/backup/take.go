package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// TakeConfig says what is copied, and where to.
type TakeConfig struct {
	Source  Source
	Station string
	// Dir is a folder that is not there, is empty, or has an interrupted backup.
	Dir string
	// Version is that of the program.
	Version  string
	Now      func() time.Time
	Progress Progress
}

// segmentEvents is how many events a file of the log has at most.
const segmentEvents = 20_000

// maxCuts bounds how often a point is looked for.
const maxCuts = 1000

type take struct {
	TakeConfig
	m Manifest
	// pending are inputs that were in the stream when they were read, by position.
	pending map[uint64]Message
	// judged are positions of them that events of the log name.
	judged map[uint64]bool
	runs   map[string]bool // whether the run has ended
}

// Take copies a station. The order is what makes the copy one point of the log; ADR 0074 has the reasons. Values and
// timers come first, then the inputs with the point itself, then the log up to that point, and at last the objects.
func Take(ctx context.Context, cfg TakeConfig) (Manifest, error) {
	if err := events.CheckID("station", cfg.Station); err != nil {
		return Manifest{}, err
	}
	if err := begin(cfg.Dir); err != nil {
		return Manifest{}, err
	}
	t := &take{TakeConfig: cfg, pending: map[uint64]Message{}, judged: map[uint64]bool{}, runs: map[string]bool{},
		m: Manifest{Format: wholeFormat, Station: cfg.Station, Version: cfg.Version, Began: cfg.Now().UTC(),
			Keys: []string{}}}
	for _, step := range []func(context.Context) error{t.values, t.timers, t.cut, t.log, t.inputs, t.objects} {
		if err := step(ctx); err != nil {
			return t.m, fmt.Errorf("backup of station %s: %w", cfg.Station, err)
		}
	}
	for _, ended := range t.runs {
		if !ended {
			t.m.Open++
		}
	}
	t.m.Runs = len(t.runs)
	return t.m, t.m.write(cfg.Dir)
}

// file writes one file of lines and notes it in the manifest.
func (t *take) file(name string, fill func(add func(any) error) error) error {
	l, err := create(t.Dir, name)
	if err != nil {
		return err
	}
	fillErr := fill(l.add)
	f, err := l.close()
	if err := errors.Join(fillErr, err); err != nil {
		return err
	}
	t.m.Files = append(t.m.Files, f)
	t.m.Bytes += f.Size
	return nil
}

// values copies what is in buckets and in no log. They are read before the point of the log is taken, so that no row
// is newer than the log. Views are left out: they are made again.
func (t *take) values(ctx context.Context) error {
	return t.file(valuesFile, func(add func(any) error) error {
		for _, bucket := range []string{topology.ConfigBucket, topology.StateBucket, topology.SessionBucket,
			topology.TreeBucket} {
			names, err := t.Source.KeyNames(ctx, bucket)
			if err != nil {
				return err
			}
			for _, key := range names {
				switch {
				case isSecret(bucket, key):
					t.m.Keys = append(t.m.Keys, key)
					continue
				case isView(bucket, key):
					continue
				}
				b, err := t.Source.Value(ctx, bucket, key)
				if errors.Is(err, kernel.ErrNotFound) {
					continue
				}
				if err != nil {
					return fmt.Errorf("key %s of %s: %w", key, bucket, err)
				}
				if err := add(Value{bucket, key, b}); err != nil {
					return err
				}
				t.m.Values++
			}
			t.Progress.say("settings", uint64(t.m.Values), 0) //nolint:gosec // a count
		}
		return nil
	})
}

// secretKeys is what the keys of keys begin with.
const secretKeys = "key."

func isSecret(bucket, key string) bool {
	return bucket == topology.ConfigBucket && strings.HasPrefix(key, secretKeys)
}

// isView reports whether a key is a view of the log, or says how the store stands rather than what is in it.
func isView(bucket, key string) bool {
	switch bucket {
	case topology.StateBucket:
		return strings.HasPrefix(key, "run.") || strings.HasPrefix(key, "snap.") || key == "log.mark"
	case topology.ConfigBucket:
		return key == topology.DurabilityKey || key == topology.DamageKey || key == topology.RestoreKey ||
			key == topology.MoveKey
	}
	return false
}

// Families are those of the timers of a station.
func families() []string {
	var all []string
	for _, s := range topology.AllSubscriptions() {
		all = append(all, s.Timers...)
	}
	return all
}

// timed is a timer with its family.
type timed struct {
	Family string `json:"family"`
	Message
}

// timers copies timers and firings that no one has taken. They are read before the point of the log: a timer that is
// gone by then has been acted upon in the log. What is set later follows from events that are received again.
func (t *take) timers(ctx context.Context) error {
	return t.file(timersFile, func(add func(any) error) error {
		for _, family := range families() {
			for after := uint64(0); ; {
				m, ok, err := t.Source.TimersAfter(ctx, family, after)
				if err != nil {
					return fmt.Errorf("timers %s: %w", family, err)
				}
				if !ok {
					break
				}
				if err := add(timed{family, m}); err != nil {
					return err
				}
				after = m.Seq
				t.m.Timers++
			}
			t.Progress.say("timers", uint64(t.m.Timers), 0) //nolint:gosec // a count
		}
		return nil
	})
}

// cut finds a point of the log such that each input that was published before it was copied, or was acknowledged
// before it: then all that was made of it is in the log. An input that arrives while the others are read and the point
// is taken leaves that open, so the look is repeated with what came.
func (t *take) cut(ctx context.Context) error {
	for seen, tries := uint64(0), 0; tries < maxCuts; tries++ {
		in, err := t.Source.InState(ctx)
		if err != nil {
			return err
		}
		for after := seen; after < in.Last; {
			m, ok, err := t.Source.InAfter(ctx, after)
			if err != nil {
				return err
			}
			if !ok || m.Seq > in.Last {
				break
			}
			t.pending[m.Seq], after = m, m.Seq
		}
		log, err := t.Source.LogState(ctx)
		if err != nil {
			return err
		}
		at := t.Now().UTC()
		again, err := t.Source.InState(ctx)
		if err != nil {
			return err
		}
		if again.Last == in.Last {
			t.m.Log, t.m.In, t.m.Cut = log.Last, in.Last, at
			return log.whole()
		}
		seen = in.Last
		t.Progress.say("inputs", uint64(len(t.pending)), 0)
	}
	return fmt.Errorf("%w: try again, or take the backup while the station is halted (inspan halt)", ErrBusy)
}

// whole reports what a log lacks. A log is only copied to the same positions where it has all of them.
func (s State) whole() error {
	if s.Last == 0 {
		return nil
	}
	if s.First != 1 || s.Deleted > 0 || s.Messages != s.Last {
		return fmt.Errorf("%w: it has %d events in the positions %d to %d: save its runs with inspan export, or from the archive",
			ErrHoles, s.Messages, s.First, s.Last)
	}
	return nil
}

// log copies the events up to the point.
func (t *take) log(ctx context.Context) error {
	var page []Message
	for after := uint64(0); after < t.m.Log; {
		name := fmt.Sprintf("%s/%012d.jsonl", logFolder, after+1)
		until := min(after+segmentEvents, t.m.Log)
		err := t.file(name, func(add func(any) error) error {
			for after < until {
				for len(page) == 0 {
					var err error
					if page, err = t.Source.LogAfter(ctx, after); err != nil {
						return err
					}
					if len(page) == 0 { // a replica that is behind
						if err := kernel.Sleep(ctx, 10*time.Millisecond); err != nil {
							return err
						}
					}
				}
				m := page[0]
				page = page[1:]
				if m.Seq != after+1 {
					return fmt.Errorf("%w: position %d follows %d", ErrHoles, m.Seq, after)
				}
				if err := t.logged(m, add); err != nil {
					return err
				}
				after = m.Seq
			}
			return nil
		})
		if err != nil {
			return err
		}
		t.Progress.say("events", after, t.m.Log)
	}
	return nil
}

// logged writes one event, and notes its run and the input that it came from.
func (t *take) logged(m Message, add func(any) error) error {
	sub, ok := events.ParseAggregateSubject(m.Subject)
	if !ok {
		return fmt.Errorf("event %d is on the subject %q, which is none of the log", m.Seq, m.Subject)
	}
	if sub.Aggregate == events.RunAggregate {
		t.runs[sub.ID] = t.runs[sub.ID] || Ends(sub)
	}
	if len(t.pending) > 0 {
		var named struct {
			Data struct {
				Input json.RawMessage `json:"input"`
			} `json:"data"`
		}
		var input uint64
		if json.Unmarshal(m.Data, &named) == nil && json.Unmarshal(named.Data.Input, &input) == nil {
			t.judged[input] = true
		}
	}
	return add(m)
}

// Ends reports whether an event is the end of its run.
func Ends(sub events.AggregateSubject) bool {
	kind := kindOf(sub)
	return kind == events.RunCompleted || kind == events.RunFailed || kind == events.RunPruned
}

func kindOf(sub events.AggregateSubject) events.Kind {
	return events.Kind(strings.TrimPrefix(strings.Join(sub.Rest, "."), "evt."))
}

// inputs writes those that no one has judged. A task keeps the run that it would have started: where the log has a part
// of its birth, the rest follows; where it has all of it, nothing does. Of other inputs that the log names nothing is
// owed: each is one append, and what follows from that is decided by whoever receives the event again.
func (t *take) inputs(context.Context) error {
	return t.file(inputsFile, func(add func(any) error) error {
		for _, at := range slices.Sorted(maps.Keys(t.pending)) {
			m := named(t.Station, t.pending[at])
			if t.judged[at] {
				t.m.Judged++
				continue
			}
			if err := add(m); err != nil {
				return err
			}
			t.m.Inputs++
		}
		t.Progress.say("inputs", uint64(t.m.Inputs), uint64(t.m.Inputs)) //nolint:gosec // a count
		return nil
	})
}

// objects copies all of the station, after the log: an object is stored before the event that names it.
func (t *take) objects(ctx context.Context) error {
	return t.file(objectsFile, func(add func(any) error) error {
		all, err := t.Source.Objects(ctx)
		if err != nil {
			return err
		}
		for i, o := range all {
			if !validDigest(o.SHA256) {
				continue
			}
			if !hasObject(t.Dir, o) {
				data, err := t.Source.ReadObject(ctx, o)
				if errors.Is(err, kernel.ErrNotFound) && o.Run != "" {
					continue // an artifact whose time was over
				}
				if err != nil {
					return err
				}
				o.Size = int64(len(data))
				if err := putObject(t.Dir, o, data); err != nil {
					return err
				}
			}
			if err := add(o); err != nil {
				return err
			}
			t.m.Objects++
			t.m.Bytes += o.Size
			t.Progress.say("objects", uint64(i+1), uint64(len(all))) //nolint:gosec // a count
		}
		return nil
	})
}
