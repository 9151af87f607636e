package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// CopyConfig says which backup is copied, and where to.
type CopyConfig struct {
	// From is the folder of a whole backup, Dir one that is not there, is empty, or has an interrupted backup.
	From, Dir string
	Station   string
	// By is who asked for it.
	By string
	// Version is that of the program.
	Version  string
	Progress Progress
}

// copying is one copy of a backup without a part of it.
type copying struct {
	CopyConfig
	// of is the backup that is read, and sum the digest of its manifest; m is the one that is written.
	of, m Manifest
	sum   string
	runs  map[string]*pastRun
	// left are the runs that are left out.
	left int
	// stored are the objects by their digests; wanted are those that something names which stays, gone those that
	// something names which is left out.
	stored       map[string]Object
	wanted, gone map[string]bool
	// forget is what has to be deleted; nil where room is made.
	forget *forgetting
}

func newCopy(cfg CopyConfig) *copying {
	return &copying{CopyConfig: cfg, runs: map[string]*pastRun{}, stored: map[string]Object{}, wanted: map[string]bool{},
		gone: map[string]bool{}}
}

// make checks the backup that is read, lets choose mark what is left out, and writes the copy. Nothing is written
// before that.
func (c *copying) make(ctx context.Context, choose func() error) error {
	var err error
	if c.of, err = Check(ctx, c.From, c.Progress); err != nil {
		return err
	}
	if c.of.Station != c.Station {
		return fmt.Errorf("%w: name it with --station %s", ErrOtherStation, c.of.Station)
	}
	signed, err := os.ReadFile(filepath.Join(c.From, manifestFile))
	if err != nil {
		return fmt.Errorf("read the manifest of the backup: %w", err)
	}
	c.sum = digest(signed)
	if err := c.look(ctx); err != nil {
		return err
	}
	if err := choose(); err != nil {
		return err
	}
	if err := begin(c.Dir); err != nil {
		return err
	}
	c.m = c.of
	c.m.Format, c.m.Version, c.m.Files, c.m.Bytes, c.m.Objects = max(c.of.Format, prunedFormat), c.Version, nil, 0, 0
	c.m.PrunedFrom, c.m.Pruned = c.sum, c.left
	for _, r := range c.runs {
		if r.pruned {
			c.m.Pruned++
		}
	}
	if err := c.forget.begin(c); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{c.log, c.rest, c.objects} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("copy the backup %s: %w", c.From, err)
		}
	}
	return c.m.write(c.Dir)
}

// look reads which objects there are, and what became of each run.
func (c *copying) look(ctx context.Context) error {
	err := each(c.From, objectsFile, func(o Object) error {
		c.stored[o.SHA256] = o
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	err = c.of.events(c.From, func(e Message) error {
		sub, _ := events.ParseAggregateSubject(e.Subject)
		if sub.Aggregate == events.RunAggregate {
			r := c.runs[sub.ID]
			if r == nil {
				r = &pastRun{id: sub.ID}
				c.runs[sub.ID] = r
			}
			r.see(e, kindOf(sub))
		}
		c.forget.look(sub, e)
		c.Progress.say("events looked at", e.Seq, c.of.Log)
		return context.Cause(ctx)
	})
	return err
}

// log writes the events that stay, at positions that follow one another.
func (c *copying) log(ctx context.Context) error {
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
		stands, out, err := c.instead(e)
		if err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
		if !out {
			c.forget.staying(e)
			return add(e)
		}
		c.note(c.gone, e.Data)
		if stands == nil {
			return nil
		}
		return add(*stands)
	})
	return errors.Join(err, c.close(&out))
}

// instead reports whether an event is left out, and returns what stands for it: the last one of a run or a session that
// is left out is followed by the event that stands for all of them.
func (c *copying) instead(e Message) (stands *Message, out bool, err error) {
	sub, _ := events.ParseAggregateSubject(e.Subject)
	if sub.Aggregate != events.RunAggregate {
		return c.forget.instead(c, sub, e)
	}
	r := c.runs[sub.ID]
	if !r.left || e.Seq != r.last {
		return nil, r.left, nil
	}
	m, err := r.stands(e, c.sum, c.of.Cut, c.By, c.forget)
	return &m, true, err
}

// close ends a file of the copy; one that was not begun is none.
func (c *copying) close(out **lines) error {
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
func (c *copying) rest(ctx context.Context) error {
	for _, file := range []string{inputsFile, timersFile, valuesFile} {
		out, err := create(c.Dir, file)
		if err != nil {
			return err
		}
		err = each(c.From, file, func(line json.RawMessage) error {
			if c.forget.drops(&c.m, file, line) {
				c.note(c.gone, line)
				return context.Cause(ctx)
			}
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
func (c *copying) objects(ctx context.Context) error {
	out, err := create(c.Dir, objectsFile)
	if err != nil {
		return err
	}
	if err := c.forget.follow(ctx, c); err != nil {
		return errors.Join(err, c.close(&out))
	}
	err = each(c.From, objectsFile, func(o Object) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !c.takes(o) {
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

// takes reports whether an object is part of the copy.
func (c *copying) takes(o Object) bool {
	r, view := c.runs[o.Run], o.Type == "archive" || o.Type == "snapshot" // views are made again
	switch {
	case r != nil && r.left:
		return false
	case o.Run != "" || c.wanted[o.SHA256]:
		return true
	}
	return !view && !c.gone[o.SHA256] && c.forget.spares(o)
}

// note notes the digests of objects that bytes have as text.
func (c *copying) note(in map[string]bool, b []byte) {
	hex := 0
	for i := 0; i <= len(b); i++ {
		if i < len(b) && strings.IndexByte("0123456789abcdef", b[i]) >= 0 {
			hex++
			continue
		}
		if hex == 64 && c.has(string(b[i-64:i])) {
			in[string(b[i-64:i])] = true
		}
		hex = 0
	}
}

func (c *copying) has(sum string) bool {
	_, ok := c.stored[sum]
	return ok
}
