package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// logReader reads the log of a station event by event.
type logReader struct {
	st    *jet.Station
	page  []backup.Message
	after uint64
}

func (r *logReader) next(ctx context.Context) (e backup.Message, ok bool, err error) {
	if len(r.page) == 0 {
		if r.page, err = r.st.LogAfter(ctx, r.after); err != nil || len(r.page) == 0 {
			return e, false, err
		}
	}
	e, r.page = r.page[0], r.page[1:]
	r.after = e.Seq
	return e, true, nil
}

// compare reads the logs of both places side by side up to a position: the same events, byte for byte, are the same
// counts and the same last hash of every run.
func (m *mover) compare(ctx context.Context, last uint64) error {
	from, to := &logReader{st: m.From.Station}, &logReader{st: m.to}
	ended := map[string]bool{}
	for at := uint64(1); at <= last; at++ {
		want, ok, err := from.next(ctx)
		if err != nil || !ok || want.Seq != at {
			return errors.Join(err, differs("the source", at, want, ok))
		}
		got, ok, err := to.next(ctx)
		if err != nil || !ok || got.Seq != at {
			return errors.Join(err, differs("the target", at, got, ok))
		}
		if got.Subject != want.Subject || !bytes.Equal(got.Data, want.Data) {
			return fmt.Errorf("%w: event %d on %s: empty the target, and call this again", ErrDiffers, at, want.Subject)
		}
		if sub, ok := events.ParseAggregateSubject(want.Subject); ok && sub.Aggregate == events.RunAggregate {
			ended[sub.ID] = ended[sub.ID] || backup.Ends(sub)
		}
		if m.Progress != nil {
			m.Progress("events compared", at, last)
		}
	}
	m.out.Events, m.out.Runs, m.out.Open = last, len(ended), 0
	for _, e := range ended {
		if !e {
			m.out.Open++
		}
	}
	return nil
}

func differs(who string, at uint64, e backup.Message, ok bool) error {
	if !ok {
		return fmt.Errorf("%w: %s ends before event %d", ErrDiffers, who, at)
	}
	return fmt.Errorf("%w: %s has event %d where event %d is due", ErrDiffers, who, e.Seq, at)
}

// still sees that the source stored nothing but its mark since it was copied. Else the mark is taken back, so that the
// source is copied again.
func (m *mover) still(ctx context.Context, v view) error {
	r := &logReader{st: m.From.Station, after: v.rec.Log}
	for {
		e, ok, err := r.next(ctx)
		if err != nil || !ok {
			return err
		}
		sub, known := events.ParseAggregateSubject(e.Subject)
		if known && sub.Aggregate == events.HaltAggregate {
			continue
		}
		if v.to.Number != v.from.Number || !v.to.Halted {
			return fmt.Errorf("%w (event %d), and the target was released: hold both with inspan halt, and see which runs went on at both",
				errStale, e.Seq)
		}
		err = m.From.Steer(ctx, events.HaltControl{Action: events.ReturnAction, Number: v.from.Number, By: m.By,
			Reason: "events came after the copy"})
		if err != nil {
			return fmt.Errorf("take the mark of the source away, which went on after it was copied: %w", err)
		}
		return errStale
	}
}

// carriedHeader of an input has its position at the source.
const carriedHeader = "Inspan-Moved"

// carry brings inputs to the target that came to the source after it was copied. The target does nothing yet, so each
// that was carried is there, with its position. It returns the position of the last one.
func (m *mover) carry(ctx context.Context, after uint64) (there uint64, err error) {
	there = after
	for at := after; ; {
		in, ok, err := m.to.InAfter(ctx, at)
		if err != nil {
			return there, fmt.Errorf("inputs of the target: %w", err)
		}
		if !ok {
			break
		}
		at = in.Seq
		if values := in.Header[carriedHeader]; len(values) == 1 {
			if n, err := strconv.ParseUint(values[0], 10, 64); err == nil {
				there = max(there, n)
			}
		}
	}
	for {
		in, ok, err := m.nextInput(ctx, there)
		if err != nil || !ok {
			return there, err
		}
		there = in.Seq
		in = backup.Carried(m.Station, in)
		if in.Header == nil {
			in.Header = map[string][]string{}
		}
		in.Header[carriedHeader] = []string{strconv.FormatUint(there, 10)}
		if err := m.to.PutInput(ctx, in); err != nil {
			return there, fmt.Errorf("carry an input to the target: %w", err)
		}
		m.out.Carried++
	}
}

// nextInput is the next input of the source that goes along. Controls of the emergency stop are of one place.
func (m *mover) nextInput(ctx context.Context, after uint64) (backup.Message, bool, error) {
	for {
		in, ok, err := m.From.Station.InAfter(ctx, after)
		if err != nil {
			return in, false, fmt.Errorf("inputs of the source: %w", err)
		}
		if !ok || in.Subject != events.HaltSubject(m.Station) {
			return in, ok, nil
		}
		after = in.Seq
	}
}

// release lets the target work. The halt of the source is asked for once more, and what takes a move back marks the
// target first: so a release and a move that is taken back exclude each other.
func (m *mover) release(ctx context.Context, v view, carried uint64) error {
	now, err := halted(ctx, m.From.Station, m.Station)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	if !now.Halted || now.MovedPlace != v.place {
		return fmt.Errorf("the source is not marked as moved to %s any more: %w", m.To.Name, ErrAborted)
	}
	if ours(v.to) {
		err := Steer(m.to, m.Station)(ctx, events.HaltControl{Action: events.ReleaseAction, Number: v.to.Number, By: m.By,
			Reason: "moved from " + m.From.Name})
		if err != nil {
			return fmt.Errorf("release the target: %w", err)
		}
	}
	m.out.Released = ours(v.to) || !v.to.Halted
	config := m.to.KV(topology.ConfigBucket)
	for _, key := range []string{topology.RestoreKey, topology.MoveKey} {
		if err := config.Delete(ctx, key); err != nil {
			return fmt.Errorf("let the services of the target work: %w", err)
		}
	}
	return m.late(ctx, carried)
}

// late counts inputs that came to the source when those before them had been carried.
func (m *mover) late(ctx context.Context, after uint64) error {
	for {
		in, ok, err := m.nextInput(ctx, after)
		if err != nil || !ok {
			return err
		}
		m.out.Late++
		after = in.Seq
	}
}

// finished says of a move that was done before what is known of it.
func (m *mover) finished(ctx context.Context, v view) error {
	m.out.Already, m.out.Released = true, !v.to.Halted
	if m.Reroute == nil {
		return nil
	}
	var err error
	m.out.Projects, err = m.Reroute(false)
	return err
}

// Abort takes a move back, as long as the target is not released. The target does nothing from then on, and the source
// is released where the move has halted it. It returns the projects whose routes were changed back.
func Abort(ctx context.Context, cfg Config) (projects []string, err error) {
	m, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	v, err := m.look(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case v.source == v.place:
		return nil, ErrSame
	case v.from.MovedTo != "" && v.from.MovedPlace != v.place:
		return nil, fmt.Errorf("%w, %s: name that as the target", ErrElsewhere, v.from.MovedTo)
	case v.from.MovedTo != "":
		if err := m.disown(ctx, v); err != nil {
			return nil, err
		}
		err = m.From.Steer(ctx, events.HaltControl{Action: events.ReturnAction, Number: v.from.Number, By: m.By,
			Reason: "the move was taken back"})
		if err != nil {
			return nil, fmt.Errorf("take the mark of the source away: %w", err)
		}
	}
	if m.Reroute != nil {
		if projects, err = m.Reroute(true); err != nil {
			return nil, fmt.Errorf("routes of projects: %w", err)
		}
	}
	if !ours(v.from) {
		return projects, nil
	}
	err = m.From.Steer(ctx, events.HaltControl{Action: events.ReleaseAction, Number: v.from.Number, By: m.By,
		Reason: "the move was taken back"})
	if err != nil {
		return projects, fmt.Errorf("release the source: %w", err)
	}
	return projects, nil
}

// disown marks the target of a marked source, so that it is not released: whichever of this and the release comes first
// excludes the other.
func (m *mover) disown(ctx context.Context, v view) error {
	switch {
	case !v.restoring || !v.to.Halted:
		return fmt.Errorf("%w, its runs go on there: move it back, to an empty place, as it was moved", ErrReleased)
	case v.to.MovedTo != "":
		return nil
	}
	err := Steer(m.to, m.Station)(ctx, events.HaltControl{Action: events.MoveAction, Number: v.to.Number, By: m.By,
		To: m.From.Name, Place: v.source, Reason: "the move was taken back at " + m.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return fmt.Errorf("mark the target: %w", err)
	}
	return nil
}
