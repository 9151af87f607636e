package storecheck

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Outcome says what became of a fault.
type Outcome string

// Only Lost is damage: all others leave the station with everything that it had.
const (
	// Lost is what cannot be read any more.
	Lost Outcome = "lost"
	// Repaired is a bit that was turned back.
	Repaired Outcome = "repaired"
	// Rebuilt is state that is made again from what it was made of.
	Rebuilt Outcome = "rebuilt"
	// Unfinished is the end of a file that a crash cut off before it was acknowledged.
	Unfinished Outcome = "unfinished"
)

// ViewsStream holds the index and the snapshots, which the persister makes again from the log, where no other is named.
const ViewsStream = "KV_harness-state"

// forgoes reports whether what a stream has lost costs nothing: the views are made again, and text that was published
// live and leases are of use for a moment only.
func forgoes(stream, views string) bool {
	return stream == cmp.Or(views, ViewsStream) || stream == "KV_harness-lease" || strings.HasPrefix(stream, "LIVE_")
}

// costs is the outcome of a loss in a stream.
func costs(stream, views string) Outcome {
	if forgoes(stream, views) {
		return Rebuilt
	}
	return Lost
}

// Finding is one fault of a store.
type Finding struct {
	Outcome Outcome `json:"outcome"`
	// File is relative to the store; empty where the fault is one of a stream as a whole.
	File   string `json:"file,omitempty"`
	Stream string `json:"stream,omitempty"`
	// From and To are the first and last position that is lost; To is 0 where the end is not known.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// Runs that are known to have lost events.
	Runs []string `json:"runs,omitempty"`
	What string   `json:"what"`
}

// Views reports whether the views must be made again; views is their stream, empty for ViewsStream.
func (f Finding) Views(views string) bool {
	return f.Stream == cmp.Or(views, ViewsStream) && f.Outcome == Rebuilt
}

func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Outcome))
	b.WriteString(": ")
	if f.Stream != "" {
		b.WriteString("stream " + f.Stream + ": ")
	}
	b.WriteString(f.What)
	if f.File != "" {
		b.WriteString(" (" + f.File + ")")
	}
	if len(f.Runs) > 0 {
		b.WriteString("; runs " + strings.Join(f.Runs, ", "))
	}
	return b.String()
}

// Messages is how many messages are known to be lost.
func (f Finding) Messages() uint64 {
	if f.Outcome != Lost || f.From == 0 || f.To < f.From {
		return 0
	}
	return f.To - f.From + 1
}

// Report is what is wrong with a store. The zero value is a sound one.
type Report struct {
	Findings []Finding `json:"findings,omitempty"`
}

// Lost are the findings that are damage.
func (r Report) Lost() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Outcome != Lost })
}

// Damaged reports whether anything is lost.
func (r Report) Damaged() bool { return len(r.Lost()) > 0 }

// ID names what is lost: whoever accepts it shows with the ID that the report was read.
func (r Report) ID() string {
	lost := r.Lost()
	if len(lost) == 0 {
		return ""
	}
	b, err := json.Marshal(lost)
	if err != nil {
		panic(fmt.Sprintf("a report is plain data: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// Add appends a finding unless the report has it.
func (r *Report) Add(f Finding) {
	if !slices.ContainsFunc(r.Findings, func(g Finding) bool { return g.String() == f.String() }) {
		r.Findings = append(r.Findings, f)
	}
}

// Error says what is lost, a line for each.
func (r Report) Error() string {
	lost := r.Lost()
	lines := make([]string, len(lost))
	for i, f := range lost {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}
