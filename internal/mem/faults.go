package mem

import (
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/pkg/events"
)

// Fault is what goes wrong with one append, or with one write into another store.
type Fault int

// The faults of an append. A server in trouble does each of them. A disk that is full and does not say so is
// LostRequest for whatever is written.
const (
	// None: it is made as asked.
	None Fault = iota
	// LostAck: it is made, and no one receives the answer.
	LostAck
	// LostRequest: it is not made, and no one learns so.
	LostRequest
	// LateRequest: no one receives an answer, and it is made later, before the next append to its run, if it still fits.
	// Into other stores it is made by Land only.
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

// Store is one of the stores beside the log.
type Store string

// The stores that Faults.Put and Faults.Get speak of, and what their keys are.
const (
	TimerStore   Store = "timers"   // {run}.{family}.{id}
	BlobStore    Store = "blobs"    // the SHA-256 in hex
	KVStore      Store = "shelf"    // the key
	LeaseStore   Store = "leases"   // the instance
	InputStore   Store = "inputs"   // the subject
	RefusalStore Store = "refusals" // the subject that was refused
)

// Delivery is what goes wrong with one delivery.
type Delivery = queue.Delivery

// Faults decides what goes wrong. A nil func means that nothing does. The functions are called one at a time, with n
// counting their calls from 1; they must not call the station.
type Faults struct {
	Append func(n uint64, e kernel.Entry) Fault
	// Read says how many of the run's newest events this read does not see, or fails it.
	Read func(n uint64, run string) (behind int, err error)
	// Last does the same to the leader's word: a leader that was deposed and has not noticed.
	Last func(n uint64, run string) (behind int, err error)
	// Deliver is asked whenever a message gets ready to be delivered, the first time and again.
	Deliver func(n uint64, role events.Service, subject string) Delivery
	// Ack says that an acknowledgement is lost: no one notices, and the message comes again after the ack wait.
	Ack func(n uint64, role events.Service, subject string) (lost bool)
	// Fire says when a timer that is set now fires, from the time it is due: before, after, or more than once. Nil or
	// empty is once and in time.
	Fire func(n uint64, run, name string) []time.Duration
	// Expire says how long after its term a lease ends that is renewed now: a server drops what is too old in steps.
	Expire func(n uint64, instance string) time.Duration
	// Put says what goes wrong with one write into a store beside the log. LowConflict is like Busy there.
	Put func(n uint64, in Store, key string) Fault
	// Get says how many of the newest values of a key this read does not see, or fails it. Leases and objects have one
	// value each: one that is not seen is not there, or is not whole.
	Get func(n uint64, in Store, key string) (behind int, err error)
}

// asked counts the calls of the functions of Faults.
type asked struct{ appends, reads, lasts, deliveries, acks, timers, renewals, puts, gets uint64 }

// SetFaults replaces the faults and begins to count from 1 again. The zero Faults end all trouble.
func (s *Station) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.asked = f, asked{}
}

// Land makes the late appends and writes that are still under way, where they fit.
func (s *Station) Land() {
	s.mu.Lock()
	defer s.mu.Unlock()
	late, puts := s.late, s.latePuts
	s.late, s.latePuts = nil, nil
	for _, e := range late {
		s.store(e)
	}
	for _, do := range puts {
		_ = do() // no one receives the answer of a late write
	}
}

var (
	errLostOnTheWay = errors.New("no answer: lost on the way")
	errBusy         = errors.New("another write is under way: try again")
	errNoRight      = errors.New("permissions violation")
)

// put makes a write into a store beside the log as a fault has it. Called with mu held; do is called with mu held.
func (s *Station) put(in Store, key string, do func() error) error {
	s.asked.puts++
	fault := None
	if s.faults.Put != nil {
		fault = s.faults.Put(s.asked.puts, in, key)
	}
	switch fault {
	case LostAck:
		_ = do() // what it says is what gets lost
		return errLostOnTheWay
	case LostRequest:
		return errLostOnTheWay
	case LateRequest:
		s.latePuts = append(s.latePuts, do)
		return errLostOnTheWay
	case Busy, LowConflict:
		return errBusy
	case NoSpace:
		return fmt.Errorf("%w: maximum bytes exceeded", kernel.ErrFull)
	case NoRight:
		return errNoRight
	case None:
	}
	return do()
}

// get asks how far behind a read of a store beside the log is. Called with mu held.
func (s *Station) get(in Store, key string) (behind int, err error) {
	s.asked.gets++
	if s.faults.Get == nil {
		return 0, nil
	}
	behind, err = s.faults.Get(s.asked.gets, in, key)
	return max(0, behind), err
}

// fault asks what goes wrong with a delivery. Called with mu held.
func (s *Station) fault(role events.Service, subject string) Delivery {
	s.asked.deliveries++
	if s.faults.Deliver == nil {
		return Delivery{}
	}
	return s.faults.Deliver(s.asked.deliveries, role, subject)
}

// ackLost asks whether an acknowledgement is lost. Called with mu held.
func (s *Station) ackLost(role events.Service, subject string) bool {
	s.asked.acks++
	return s.faults.Ack != nil && s.faults.Ack(s.asked.acks, role, subject)
}
