package mem

import "github.com/inspan/inspan/internal/reactor"

// Fault is what goes wrong with one append.
type Fault int

// The faults of an append. A server in trouble does each of them.
const (
	// None: it is made as asked.
	None Fault = iota
	// LostAck: it is made, and nobody hears the answer.
	LostAck
	// LostRequest: it is not made, and nobody hears so.
	LostRequest
	// LateRequest: nobody hears an answer, and it is made later, before the next append to its run, if it still fits.
	LateRequest
	// Busy: refused for a reason that passes.
	Busy
	// LowConflict: refused with a last sequence below the run's head, although it fits.
	LowConflict
	// NoSpace: refused because the log is full.
	NoSpace
	// NoRight: refused because this user may not say it.
	NoRight
)

// Faults decides what goes wrong. A nil func means that nothing does. The functions are called one at a time, with n
// counting their calls from 1; they must not call the station.
type Faults struct {
	Append func(n uint64, e reactor.Entry) Fault
	// Read says how many of the run's newest facts this read does not see, or fails it.
	Read func(n uint64, run string) (behind int, err error)
	// Last does the same to the leader's word: a leader that was deposed and has not noticed.
	Last func(n uint64, run string) (behind int, err error)
}

// asked counts the calls of the journal.
type asked struct{ appends, reads, lasts uint64 }

// SetFaults replaces the faults and begins to count from 1 again. The zero Faults end all trouble.
func (s *Station) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.asked = f, asked{}
}

// Land makes the late appends that are still under way, where they fit.
func (s *Station) Land() {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.late
	s.late = nil
	for _, e := range late {
		s.store(e)
	}
}
