package localstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Status of a branch.
type Status string

// The statuses of a branch.
const (
	// BranchOpen may grow, and is not yet in the primary log.
	BranchOpen Status = "open"
	// BranchHome has all its events in the primary log.
	BranchHome Status = "home"
	// BranchRefused: another event stands in the primary log where its next one should. The rest is evidence only.
	BranchRefused Status = "refused"
)

// Branch is a piece of a run's log that was written while the primary was away.
type Branch struct {
	ID     int64     `json:"id"`
	Run    string    `json:"run"`
	Status Status    `json:"status"`
	Reason string    `json:"reason,omitempty"`
	Opened time.Time `json:"opened"`
	// Fork is the position in the primary log of the event before it.
	Fork uint64 `json:"fork"`
	// Events on it, and those of them that are in the primary log.
	Events int `json:"facts"`
	Home   int `json:"home"`
}

// branch is an open one.
type branch struct {
	id   int64
	run  string
	fork uint64
}

// Branches lists those of a status, oldest first; an empty status means all.
func (s *Station) Branches(ctx context.Context, status Status) ([]Branch, error) {
	var all []Branch
	err := s.store.each(ctx, func(scan func(...any) error) error {
		var b Branch
		var opened int64
		if err := scan(&b.ID, &b.Run, &b.Status, &b.Reason, &opened, &b.Fork, &b.Events, &b.Home); err != nil {
			return err
		}
		b.Opened = time.Unix(0, opened).UTC()
		all = append(all, b)
		return nil
	}, `SELECT b.id, b.run, b.status, b.reason, b.opened, b.fork, count(f.seq), count(nullif(f.home, 0))
		FROM branches b LEFT JOIN facts f ON f.branch = b.id WHERE ? IN ('', b.status) GROUP BY b.id ORDER BY b.id`, string(status))
	if err != nil {
		return nil, fmt.Errorf("branches of the local store: %w", err)
	}
	return all, nil
}

// Evidence returns the events of a branch, in order.
func (s *Station) Evidence(ctx context.Context, id int64) ([]kernel.Record, error) {
	return s.records(ctx, batch, "SELECT seq, kind, bytes FROM facts WHERE branch = ? ORDER BY seq", id)
}

func (s *Station) openBranch(ctx context.Context, run string) (*branch, error) {
	b := branch{run: run}
	err := s.store.db.QueryRowContext(ctx,
		"SELECT id, fork FROM branches WHERE run = ? AND status = ? ORDER BY id DESC LIMIT 1", run,
		string(BranchOpen)).Scan(&b.id, &b.fork)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("branch of run %s: %w", run, err)
	}
	return &b, nil
}

// readBranch returns the events of a branch after its fork or a local position.
func (s *Station) readBranch(ctx context.Context, b *branch, after uint64) ([]kernel.Record, bool, error) {
	if isLocal(after) {
		after -= localSeq
	} else {
		after = 0
	}
	evs, err := s.records(ctx, batch+1,
		"SELECT seq, kind, bytes FROM facts WHERE branch = ? AND seq > ? ORDER BY seq LIMIT ?", b.id, after, batch+1)
	if err != nil {
		return nil, false, fmt.Errorf("read the branch of run %s: %w", b.run, err)
	}
	for i := range evs {
		evs[i].Seq += localSeq
	}
	if len(evs) > batch {
		return evs[:batch], true, nil
	}
	return evs, false, nil
}

func (s *Station) lastOf(ctx context.Context, b *branch) (kernel.Record, bool, error) {
	evs, err := s.records(ctx, 1, "SELECT seq, kind, bytes FROM facts WHERE branch = ? ORDER BY seq DESC LIMIT 1", b.id)
	if err != nil || len(evs) == 0 {
		return kernel.Record{}, false, err
	}
	return kernel.Record{Seq: localSeq + evs[0].Seq, Kind: evs[0].Kind, Bytes: evs[0].Bytes}, true, nil
}

// fork begins a branch with an event that the primary did not confirm, and warns behind it. The event comes first: the
// primary may have it already, and then has it at this very place.
func (f *Fallback) fork(e kernel.Entry, why error) kernel.Ack {
	said := []kernel.Entry{e}
	if e.Kind != events.RunCompleted && e.Kind != events.RunFailed { // after which nothing is said
		warning, err := warn(e, why)
		if err != nil {
			return kernel.Ack{Outcome: kernel.Denied, Err: err}
		}
		said = append(said, warning)
	}
	var put []stored
	f.setOpen(e.ID, true)
	err := f.local.store.write(context.Background(), func(tx *sql.Tx) error {
		res, err := tx.Exec("INSERT INTO branches(run, fork, status, reason, opened) VALUES(?, ?, ?, ?, ?)", e.ID, e.Head,
			string(BranchOpen), why.Error(), time.Now().UnixNano())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		for _, s := range said {
			one, err := insert(tx, s, &id)
			if err != nil {
				return err
			}
			put = append(put, one)
		}
		return nil
	})
	if err != nil {
		return outcome(err)
	}
	for _, p := range put {
		f.local.deliver(p, localSeq+p.seq)
	}
	f.notify(Notice{Run: e.ID, Status: BranchOpen, Events: len(put), Reason: why.Error()})
	return kernel.Ack{Outcome: kernel.Stored, Seq: localSeq + put[0].seq}
}

func (f *Fallback) notify(n Notice) {
	if f.primary.Notify != nil {
		f.primary.Notify(n)
	}
}

// maxReason bounds what a warning says of the reason, in bytes.
const maxReason = 1 << 10

// warn makes the event that follows e: that the local store keeps the run. It is the persister's word, which is a role
// of this process.
func warn(e kernel.Entry, why error) (kernel.Entry, error) {
	before, err := events.Decode(e.Bytes)
	if err != nil {
		return kernel.Entry{}, err
	}
	word, _ := events.Lookup(events.CheckpointFallback)
	reason := why.Error()
	data, err := json.Marshal(&events.CheckpointFallbackData{Event: word.Event, Store: "sqlite", Since: before.Sequence,
		Reason: reason[:min(len(reason), maxReason)]})
	if err != nil {
		return kernel.Entry{}, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	at := time.Now().UTC().Round(0)
	if at.Before(before.Time) {
		at = before.Time
	}
	next := events.Event{SpecVersion: "1.0", ID: fmt.Sprintf("%x", id), Source: events.Source(before.Station, word.Author),
		Type:    events.CheckpointFallback.Type(),
		Subject: before.Subject, Time: at, ContentType: "application/json", Identity: before.Identity,
		Sequence: before.Sequence + 1, PrevHash: run.HashOf(e.Bytes), Data: data}
	b, err := next.Encode()
	return kernel.Entry{Aggregate: e.Aggregate, ID: e.ID, Kind: events.CheckpointFallback, Bytes: b}, err
}

// extend puts an event behind the last one of a branch.
func (f *Fallback) extend(e kernel.Entry, b *branch) kernel.Ack {
	var put stored
	err := f.local.store.write(context.Background(), func(tx *sql.Tx) error {
		var last uint64
		if err := tx.QueryRow("SELECT max(seq) FROM facts WHERE branch = ?", b.id).Scan(&last); err != nil {
			return err
		}
		if last += localSeq; last != e.Head {
			return errConflict{last}
		}
		var err error
		put, err = insert(tx, e, &b.id)
		return err
	})
	if err != nil {
		return outcome(err)
	}
	f.local.deliver(put, localSeq+put.seq)
	return kernel.Ack{Outcome: kernel.Stored, Seq: localSeq + put.seq}
}
