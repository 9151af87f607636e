package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// PruneConfig says what is copied, and what of it is left out.
type PruneConfig struct {
	// From is the folder of a whole backup, Dir one that is not there, is empty, or has an interrupted backup.
	From, Dir string
	Station   string
	// Age is how long before the point of the backup the runs had ended that are left out, each with its whole tree.
	Age time.Duration
	// By is who makes room.
	By string
	// Version is that of the program.
	Version  string
	Progress Progress
}

// Pruned says what became of a backup.
type Pruned struct {
	// Of is the backup that was read, Copy the one that was written.
	Of, Copy Manifest
	// Left are the runs whose events were left out this time.
	Left int
}

// prune is one copy.
type prune struct {
	PruneConfig
	// of is the backup that is read, and sum the digest of its manifest; m is the one that is written.
	of, m Manifest
	sum   string
	runs  map[string]*pastRun
	// left are the runs that are left out.
	left int
	// stored are the digests of objects; wanted are those that something names which stays, gone those that runs name
	// which are left out.
	stored, wanted, gone map[string]bool
}

// Prune copies a backup and leaves out the events of runs that had ended long ago, with what only they refer to. One
// event stands for each such run. All other events keep their bytes and follow one another without a gap: nothing in a
// log depends on its position in the stream. The backup that is read stays as it is, and is from then on the only place
// that has those events. The same copy has the same bytes.
func Prune(ctx context.Context, cfg PruneConfig) (Pruned, error) {
	c := &prune{PruneConfig: cfg, runs: map[string]*pastRun{}, stored: map[string]bool{}, wanted: map[string]bool{},
		gone: map[string]bool{}}
	var err error
	if c.of, err = Check(ctx, cfg.From, cfg.Progress); err != nil {
		return Pruned{}, err
	}
	if c.of.Station != cfg.Station {
		return Pruned{}, fmt.Errorf("%w: name it with --station %s", ErrOtherStation, c.of.Station)
	}
	signed, err := os.ReadFile(filepath.Join(cfg.From, manifestFile))
	if err != nil {
		return Pruned{}, fmt.Errorf("read the manifest of the backup: %w", err)
	}
	c.sum = digest(signed)
	if err := begin(cfg.Dir); err != nil {
		return Pruned{}, err
	}
	c.m = c.of
	c.m.Format, c.m.Version, c.m.Files, c.m.Bytes, c.m.Objects = Format, cfg.Version, nil, 0, 0
	c.m.PrunedFrom = c.sum
	for _, step := range []func(context.Context) error{c.look, c.log, c.rest, c.objects} {
		if err := step(ctx); err != nil {
			return Pruned{}, fmt.Errorf("prune the backup %s: %w", cfg.From, err)
		}
	}
	return Pruned{c.of, c.m, c.left}, c.m.write(cfg.Dir)
}

// look reads which objects there are, and what became of each run.
func (c *prune) look(ctx context.Context) error {
	err := each(c.From, objectsFile, func(o Object) error {
		c.stored[o.SHA256] = true
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	err = c.of.events(c.From, func(e Message) error {
		if id, kind, ok := ofRun(e.Subject); ok {
			r := c.runs[id]
			if r == nil {
				r = &pastRun{id: id}
				c.runs[id] = r
			}
			r.see(e, kind)
		}
		c.Progress.say("events looked at", e.Seq, c.of.Log)
		return context.Cause(ctx)
	})
	if err == nil {
		c.left = leave(c.runs, c.of.Cut.Add(-c.Age))
		c.m.Pruned = c.left
		for _, r := range c.runs {
			if r.pruned {
				c.m.Pruned++
			}
		}
	}
	return err
}

// ofRun returns the run of a subject of the log, and the event type.
func ofRun(subject string) (id string, kind events.Kind, ok bool) {
	sub, ok := events.ParseAggregateSubject(subject)
	if !ok || sub.Aggregate != events.RunAggregate {
		return "", "", false
	}
	return sub.ID, kindOf(sub), true
}

// log writes the events that stay, at positions that follow one another.
func (c *prune) log(ctx context.Context) error {
	c.m.Log = 0
	var out *lines
	add := func(e Message) error {
		if out == nil {
			var err error
			if out, err = create(c.Dir, fmt.Sprintf("%s/%012d.jsonl", logFolder, c.m.Log+1)); err != nil {
				return err
			}
		}
		c.m.Log++
		e.Seq = c.m.Log
		c.note(c.wanted, e.Data)
		if err := out.add(e); err != nil || c.m.Log%segmentEvents != 0 {
			return err
		}
		return c.close(&out)
	}
	err := c.of.events(c.From, func(e Message) error {
		c.Progress.say("events", e.Seq, c.of.Log)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		id, _, ok := ofRun(e.Subject)
		r := c.runs[id]
		if !ok || !r.left {
			return add(e)
		}
		c.note(c.gone, e.Data)
		if e.Seq != r.last {
			return nil
		}
		stands, err := r.stands(e, c.sum, c.of.Cut, c.By)
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		return add(stands)
	})
	return errors.Join(err, c.close(&out))
}

// close ends a file of the copy; one that was not begun is none.
func (c *prune) close(out **lines) error {
	if *out == nil {
		return nil
	}
	f, err := (*out).close()
	*out = nil
	c.m.Files = append(c.m.Files, f)
	c.m.Bytes += f.Size
	return err
}

// rest copies what is beside the log as it is.
func (c *prune) rest(ctx context.Context) error {
	for _, file := range []string{inputsFile, timersFile, valuesFile} {
		out, err := create(c.Dir, file)
		if err != nil {
			return err
		}
		err = each(c.From, file, func(line json.RawMessage) error {
			c.note(c.wanted, line)
			return errors.Join(context.Cause(ctx), out.add(line))
		})
		if err = errors.Join(err, c.close(&out)); err != nil {
			return err
		}
	}
	return nil
}

// objects copies those that something names which stays, and those of which it is not known that only runs named them
// that are left out.
func (c *prune) objects(ctx context.Context) error {
	out, err := create(c.Dir, objectsFile)
	if err != nil {
		return err
	}
	err = each(c.From, objectsFile, func(o Object) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		view := o.Type == "archive" || o.Type == "snapshot" // made again with the views
		if r := c.runs[o.Run]; r != nil && r.left || (view || c.gone[o.SHA256]) && !c.wanted[o.SHA256] {
			return nil
		}
		if !hasObject(c.Dir, o) {
			data, err := readObject(c.From, o)
			if err != nil {
				return err
			}
			if err := putObject(c.Dir, o, data); err != nil {
				return err
			}
		}
		c.m.Objects++
		c.m.Bytes += o.Size
		c.Progress.say("objects", uint64(c.m.Objects), 0) //nolint:gosec // a count
		return out.add(o)
	})
	return errors.Join(err, c.close(&out))
}

// note notes the digests of objects that bytes have as text.
func (c *prune) note(in map[string]bool, b []byte) {
	hex := 0
	for i := 0; i <= len(b); i++ {
		if i < len(b) && strings.IndexByte("0123456789abcdef", b[i]) >= 0 {
			hex++
			continue
		}
		if hex == 64 && c.stored[string(b[i-64:i])] {
			in[string(b[i-64:i])] = true
		}
		hex = 0
	}
}
