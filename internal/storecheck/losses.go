package storecheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/disk"
)

// Losses is what a store has lost since it was made. It is kept beside the streams, so that a loss that was found once
// is reported until a person has accepted it.
type Losses struct {
	// Open is what no one has accepted yet, and when it was found.
	Open  Report    `json:"open"`
	Found time.Time `json:"found,omitzero"`
	// Accepted are losses that a person took note of.
	Accepted []Acceptance `json:"accepted,omitempty"`
}

// Acceptance is one loss that a person accepted.
type Acceptance struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Report Report    `json:"report"`
	// Replaced: the streams were taken away after the loss, to be filled again from an archive. What was lost before is
	// of streams that are gone.
	Replaced bool `json:"replaced,omitempty"`
}

// LossesFile is its name in the store.
const LossesFile = "losses.json"

// LoadLosses reads what a store has lost; the zero value where nothing was.
func LoadLosses(store string) (l Losses, err error) {
	b, err := os.ReadFile(filepath.Join(store, LossesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return Losses{}, fmt.Errorf("read what the store has lost: %w", err)
	}
	return l, nil
}

// Save writes it.
func (l Losses) Save(store string) error {
	b, err := json.MarshalIndent(l, "", "  ")
	if err == nil {
		err = disk.Replace(filepath.Join(store, LossesFile), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record what the store has lost: %w", err)
	}
	return nil
}

// Accept moves what is open to what is accepted. replaced says that the streams were taken away.
func (l *Losses) Accept(by string, at time.Time, replaced bool) {
	l.Accepted = append(l.Accepted, Acceptance{ID: l.Open.ID(), At: at.UTC(), By: by, Report: l.Open, Replaced: replaced})
	l.Open, l.Found = Report{}, time.Time{}
}

// Known are the losses of the streams that there are now, open or accepted: they need not be found again.
func (l Losses) Known() (all []Finding) {
	for _, a := range l.Accepted {
		if a.Replaced {
			all = nil
			continue
		}
		all = append(all, a.Report.Lost()...)
	}
	return append(all, l.Open.Lost()...)
}

// Status is what a station tells its users of its store.
type Status struct {
	// ID is that of the loss that is open, empty where there is none; Lost says what it is, a line for each part.
	ID   string   `json:"id,omitempty"`
	Lost []string `json:"lost,omitempty"`
	// Runs that are known to have lost events.
	Runs []string `json:"runs,omitempty"`
	// Deleted is how many empty positions of the log a person has accepted.
	Deleted uint64 `json:"deleted,omitempty"`
	// Reached is the position that the log had reached when a person accepted that it ends before it.
	Reached uint64 `json:"reached,omitempty"`
	// First is the position that the log began with when a person accepted that what stood before is lost.
	First uint64 `json:"first,omitempty"`
	// Notes are faults that cost nothing: they were repaired.
	Notes []string `json:"notes,omitempty"`
}
