package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Check reads the whole folder of a backup and compares every digest. Nothing is restored from one that fails.
func Check(ctx context.Context, dir string, progress Progress) (Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return m, err
	}
	for i, f := range m.Files {
		if err := context.Cause(ctx); err != nil {
			return m, fmt.Errorf("check the backup: %w", err)
		}
		if err := f.check(dir); err != nil {
			return m, err
		}
		progress.say("files checked", uint64(i+1), uint64(len(m.Files))) //nolint:gosec // a count
	}
	objects := 0
	err = each(dir, objectsFile, func(o Object) error {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("check the backup: %w", err)
		}
		objects++
		progress.say("objects checked", uint64(objects), uint64(m.Objects)) //nolint:gosec // a count
		_, err := readObject(dir, o)
		return err
	})
	if err != nil {
		return m, err
	}
	return m, m.counts(dir, objects)
}

// counts compares what the files have with what the manifest says, and that the events are all there.
func (m Manifest) counts(dir string, objects int) error {
	last := uint64(0)
	err := m.events(dir, func(e Message) error {
		if last++; e.Seq != last {
			return fmt.Errorf("event %d follows %d: %w", e.Seq, last-1, ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if last != m.Log || objects != m.Objects {
		return fmt.Errorf("it has %d events and %d objects, its manifest states %d and %d: %w", last, objects, m.Log,
			m.Objects, ErrDamaged)
	}
	return nil
}

// events reads the files of the log in order.
func (m Manifest) events(dir string, see func(Message) error) error {
	for _, f := range m.Files {
		if strings.HasPrefix(f.Name, logFolder+"/") {
			if err := each(dir, f.Name, see); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f File) check(dir string) error {
	if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
		return fmt.Errorf("the manifest names %.200q: %w", f.Name, ErrDamaged)
	}
	in, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.Name)))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", f.Name, ErrDamaged, err)
	}
	defer in.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	n, err := io.Copy(sum, in)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s has other bytes than were written: %w", f.Name, ErrDamaged)
	}
	return nil
}

// Fill copies a backup, which Check has read, to a station without events whose services do not run. The log comes
// last, at the positions that it had. Interrupted, it is done again: what is there is compared, and what is missing is
// added. From its beginning on the services of the station refuse to work (topology.RestoreKey), until the caller has
// deleted that key.
func Fill(ctx context.Context, to Target, dir string, m Manifest, progress Progress) error {
	there, err := prefix(ctx, to, dir, m)
	if err != nil {
		return err
	}
	begun := Value{Bucket: topology.ConfigBucket, Key: topology.RestoreKey, Value: []byte(m.Cut.Format(time.RFC3339))}
	if err := to.PutValue(ctx, begun); err != nil {
		return err
	}
	if there < m.Log || m.Log == 0 {
		if err := beside(ctx, to, dir, m, progress); err != nil {
			return err
		}
	}
	return appendLog(ctx, to, dir, m, there, progress)
}

// prefix returns how many events of the backup the station has. One that has others is not empty; those that the last
// part of a restore appends are no others.
func prefix(ctx context.Context, to Target, dir string, m Manifest) (uint64, error) {
	state, err := to.LogState(ctx)
	if err != nil || state.Last == 0 {
		return 0, err
	}
	log := &reader{to: to}
	err = m.events(dir, func(want Message) error {
		if want.Seq > state.Last {
			return nil
		}
		got, err := log.next(ctx)
		if err != nil {
			return err
		}
		if got.Seq != want.Seq || got.Subject != want.Subject || !bytes.Equal(got.Data, want.Data) {
			return notEmpty(want.Seq)
		}
		return nil
	})
	for err == nil && log.after < state.Last {
		var got Message
		if got, err = log.next(ctx); err == nil && !ownEvent(got.Subject) {
			err = notEmpty(got.Seq)
		}
	}
	return min(state.Last, m.Log), err
}

func notEmpty(at uint64) error {
	return fmt.Errorf("%w: its event %d is none of the backup: restore into a new station", ErrNotEmpty, at)
}

// ownEvent reports whether an event is one that a restore appends once the log is filled.
func ownEvent(subject string) bool {
	sub, ok := events.ParseAggregateSubject(subject)
	if !ok {
		return false
	}
	switch kind := kindOf(sub); sub.Aggregate {
	case events.HaltAggregate:
		return kind == events.HaltOrdered
	case events.RunAggregate:
		return kind == events.RunMoved
	}
	return false
}

// reader reads the log of a station event by event.
type reader struct {
	to    Target
	page  []Message
	after uint64
}

func (r *reader) next(ctx context.Context) (m Message, err error) {
	if len(r.page) == 0 {
		if r.page, err = r.to.LogAfter(ctx, r.after); err != nil {
			return m, err
		}
	}
	if len(r.page) == 0 {
		return m, fmt.Errorf("no event behind position %d: a replica is behind, try again", r.after)
	}
	m, r.page = r.page[0], r.page[1:]
	r.after = m.Seq
	return m, nil
}

// beside fills in all but the log. Each part may be done twice.
func beside(ctx context.Context, to Target, dir string, m Manifest, progress Progress) error {
	n := uint64(0)
	count := func(what string, total int, err error) error {
		if err == nil {
			n++
			progress.say(what, n, uint64(total)) //nolint:gosec // a count
		}
		return err
	}
	err := each(dir, objectsFile, func(o Object) error {
		data, err := readObject(dir, o)
		if err == nil {
			err = to.PutObject(ctx, o, data)
		}
		return count("objects", m.Objects, err)
	})
	if err != nil {
		return err
	}
	n = 0
	err = each(dir, valuesFile, func(v Value) error { return count("settings", m.Values, to.PutValue(ctx, v)) })
	if err != nil {
		return err
	}
	n = 0
	err = each(dir, timersFile, func(t timed) error {
		return count("timers", m.Timers, to.PutTimer(ctx, t.Family, t.Message))
	})
	if err != nil {
		return err
	}
	// The positions of inputs begin behind those that the log names, so that no new one is taken for an old one.
	if err := to.RenewIn(ctx, m.In+1); err != nil {
		return err
	}
	n = 0
	return each(dir, inputsFile, func(in Message) error { return count("inputs", m.Inputs, to.PutInput(ctx, in)) })
}

// appendEvents is how many events are appended at once.
const appendEvents = 256

func appendLog(ctx context.Context, to Target, dir string, m Manifest, there uint64, progress Progress) error {
	var batch []Message
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := to.AppendLog(ctx, batch); err != nil {
			return err
		}
		progress.say("events", batch[len(batch)-1].Seq, m.Log)
		batch = batch[:0]
		return nil
	}
	err := m.events(dir, func(e Message) error {
		if e.Seq <= there {
			return nil
		}
		if batch = append(batch, e); len(batch) < appendEvents {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
