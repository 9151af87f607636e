package storecheck

import "time"

// LogMark is how far the log of a station had come whose servers are elsewhere. The persister keeps it beside the
// index. A log that was made anew begins with a new one.
type LogMark struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"`
}

// LogMarkKey is the key of the mark in the state bucket.
const LogMarkKey = "log.mark"

// Missing is what a log lacks beside what was accepted.
func (m LogMark) Missing(name string, now Stream, accepted Status) (lost Report) {
	was := Stream{First: max(1, accepted.First), Last: m.Last, Deleted: accepted.Deleted}
	if !m.Created.Equal(now.Created) || m.Last <= accepted.Reached {
		was.Last = 0
	}
	for _, f := range was.Lacks(name, "", now) {
		lost.Add(f)
	}
	return lost
}
