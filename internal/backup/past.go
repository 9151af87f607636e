package backup

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// pastRun is what a backup has of a run.
type pastRun struct {
	id string
	// sequence and hash are those of the last event, and last is its position in the backup.
	sequence uint64
	hash     string
	last     uint64
	// odd runs stay: the events do not follow one another. Those of pruned ones were left out before.
	odd    bool
	pruned bool
	// forgotten is set where those of a pruned one were deleted on request.
	forgotten bool
	created   *events.RunCreatedData
	// fork is the run that it was forked from.
	fork    string
	began   time.Time
	started *time.Time
	// end is the result of a run that has ended, at is when.
	end *events.Result
	at  time.Time
	// left is true where the events of the run are left out.
	left bool
}

// see takes the next event of the run.
func (r *pastRun) see(e Message, kind events.Kind) {
	f, p, err := events.Read(e.Data)
	if d, stands := p.(*events.RunPrunedData); stands && r.last == 0 && err == nil {
		r.pruned, r.last, r.forgotten, r.created = true, e.Seq, d.Forgotten != nil, &d.Created
		return
	}
	if err != nil || r.pruned || r.end != nil || p.Kind() != kind || f.Run != r.id || f.Sequence != r.sequence+1 ||
		f.PrevHash != r.hash {
		r.odd = true
		return
	}
	r.sequence, r.hash, r.last = f.Sequence, events.HashOf(e.Data), e.Seq
	switch d := p.(type) {
	case *events.RunCreatedData:
		bare := d.Bare()
		bare.Earlier = d.Earlier
		r.created, r.began = &bare, f.Time
		if d.ForkOf != nil {
			r.fork = d.ForkOf.Run
		}
		if d.Direct {
			r.started = &f.Time
		}
	case *events.RunStartedData:
		r.started = &f.Time
	case *events.RunCompletedData:
		r.ended(d.Result, f.Time)
	case *events.RunFailedData:
		r.ended(d.Result, f.Time)
	}
}

func (r *pastRun) ended(result events.Result, at time.Time) {
	bare := result.Bare()
	r.end, r.at = &bare, at
}

// root is the run whose tree the run is part of.
func (r *pastRun) root() string {
	if r.created != nil && r.created.ChildOf != nil {
		return r.created.ChildOf.Root
	}
	return r.id
}

// leave marks the runs that are left out: those whose whole tree ended before a time, and of whose files no run is made
// that goes on. It returns how many.
func leave(runs map[string]*pastRun, before time.Time) (n int) {
	stays := map[string]bool{}
	for _, r := range runs {
		if r.pruned {
			continue
		}
		if r.odd || r.created == nil || r.end == nil || !r.at.Before(before) {
			stays[r.root()] = true
		}
		if r.created == nil || r.end != nil {
			continue
		}
		for _, earlier := range r.created.Earlier {
			if of := runs[earlier]; of != nil {
				stays[of.root()] = true
			}
		}
	}
	for _, r := range runs {
		if !stays[r.root()] && !r.pruned {
			r.left, n = true, n+1
		}
	}
	return n
}

// stands makes the event that stands for the run out of its last one.
func (r *pastRun) stands(last Message, backup string, at time.Time, by string, forget *forgetting) (Message, error) {
	f, _, err := events.Read(last.Data)
	if err != nil {
		return last, err
	}
	created := *r.created
	created.Earlier, created.Direct, created.ForkOf = nil, false, nil
	d := events.RunPrunedData{Event: "run_pruned", Covered: r.sequence, Created: created, CreatedAt: r.began,
		StartedAt: r.started, EndedAt: r.at, Result: *r.end, Backup: backup, BackupAt: at.UTC(), By: by}
	if forget != nil {
		d.Forget(forget.Reason, forget.People...)
	}
	return standIn(last, f, &d, r.hash, backup)
}

// standIn makes an event the one that follows the last event f of an aggregate and stands for all of them.
func standIn(last Message, f events.Event, p events.Payload, hash, backup string) (Message, error) {
	var err error
	if f.Data, err = json.Marshal(p); err != nil {
		return last, err
	}
	f.ID = digest([]byte(hash + backup))[:32]
	f.Source, f.Type = events.Source(f.Station, events.Planner), p.Kind().Type()
	f.Sequence, f.PrevHash = f.Sequence+1, hash
	if last.Data, err = f.Encode(); err != nil {
		return last, err
	}
	of, _, _ := strings.Cut(last.Subject, ".evt.")
	last.Subject = of + ".evt." + string(p.Kind())
	content := last.Header["Content-Type"]
	if last.Header = nil; content != nil {
		last.Header = map[string][]string{"Content-Type": content}
	}
	return last, nil
}
