package events

import "time"

// Space is what one stream of a station takes.
type Space struct {
	Stream string `json:"stream"`
	// Holds says what is in it.
	Holds    string `json:"holds"`
	Messages uint64 `json:"messages"`
	Bytes    int64  `json:"bytes"`
	// Limit is 0 where the stream has none of its own.
	Limit int64 `json:"limit,omitempty"`
	// PerDay is by how many bytes a stream grows that lets nothing go, as it did in the last day; a station that is
	// younger is not asked for more than it has. It follows from the number of messages and their mean size.
	PerDay int64 `json:"per_day,omitempty"`
}

// SpaceWarns is the share of a limit from which on a stream is to be looked at, and SpaceSoon how long before it is
// full.
const (
	SpaceWarns = 0.8
	SpaceSoon  = 7 * 24 * time.Hour
)

// Share is how much of its limit the stream has used; 0 without one.
func (s Space) Share() float64 {
	if s.Limit <= 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Limit)
}

// FullIn is how long the stream has room for if it grows as it did; ok is false where that is not known, or never.
func (s Space) FullIn() (d time.Duration, ok bool) {
	if s.Limit <= 0 || s.PerDay <= 0 {
		return 0, false
	}
	days := float64(max(0, s.Limit-s.Bytes)) / float64(s.PerDay)
	if days > 3650 { // ten years, and no duration has room for much more
		return 0, false
	}
	return time.Duration(days * 24 * float64(time.Hour)), true
}

// Warns reports whether somebody should make room.
func (s Space) Warns() bool {
	in, ok := s.FullIn()
	return s.Share() >= SpaceWarns || ok && in < SpaceSoon
}
