package conformance

import (
	"sort"
	"strings"
	"testing"
)

// Reasons why a server may differ from the model without faults. Each of them is something the model does when a fault
// tells it to.
const (
	transient     = "transient"
	lostRequest   = "unknown, not stored"
	lostAck       = "unknown, stored"
	lateRequest   = "unknown, stored later"
	lowConflict   = "conflict with an older head"
	staleRead     = "stale read"
	staleLast     = "stale last"
	readFailed    = "read failed"
	lastFailed    = "last failed"
	staleKV       = "stale value"
	storeFailed   = "store failed"
	unheard       = "delivery no one heard"
	receivedAgain = "heard again after its ack"
	earlyAgain    = "heard again before the ack wait"
	timerEarly    = "timer early"
	timerLate     = "timer late"
	timerTwice    = "timer twice"
	leaseOutlive  = "lease outlives its term"
)

type where int

const (
	anywhere where = iota
	replicas       // only where there is more than one server
)

// allowed is the list of differences that are no violation, with the fault that makes the model do the same.
var allowed = []struct {
	reason string
	on     where
	why    string
}{
	{transient, anywhere, "another append to the run was under way, or a new leader had not applied what was acknowledged: mem.Busy"},
	{lostRequest, anywhere, "the request was lost, or the server was busy for longer than an answer is waited for: mem.LostRequest"},
	{lostAck, anywhere, "the answer was lost, or the server was busy for longer than an answer is waited for: mem.LostAck"},
	{lateRequest, anywhere, "the request waited in the server after no one waited for its answer: mem.LateRequest"},
	{lowConflict, replicas, "a new leader had not applied what was acknowledged: mem.LowConflict"},
	{staleRead, replicas, "any replica answers a read, and it may be behind: Faults.Read"},
	{staleLast, replicas, "a leader that was deposed and has not noticed: Faults.Last"},
	{readFailed, replicas, "no replica answered, or a page came torn: Faults.Read"},
	{lastFailed, replicas, "there was no leader: Faults.Last"},
	{staleKV, replicas, "any replica answers a read of a bucket: Faults.Get"},
	{storeFailed, replicas, "there was no leader: Faults.Put"},
	{unheard, anywhere, "it waited too long for a free worker and was handed back, or its connection was lost: Faults.Deliver, Lost"},
	{receivedAgain, anywhere, "the ack came after the ack wait or was lost: Faults.Ack"},
	{earlyAgain, anywhere, "a new leader of the consumer does not know since when a message is out, or it waited on its way to the handler: Faults.Deliver, Again"},
	{timerEarly, anywhere, "the server compares in steps: Faults.Fire"},
	{timerLate, anywhere, "the server looks at its schedules in steps, and the machine may be busy: Faults.Fire"},
	{timerTwice, replicas, "a new leader fires again what the old one had fired: Faults.Fire"},
	{leaseOutlive, anywhere, "the server drops what is too old in steps, and a new leader waits for its own clock: Faults.Expire"},
}

// TestTable keeps the table in order: no reason twice, none without the fault of the model.
func TestTable(t *testing.T) {
	t.Parallel()
	var reasons []string
	for _, a := range allowed {
		reasons = append(reasons, a.reason)
		if !strings.Contains(a.why, "mem.") && !strings.Contains(a.why, "Faults.") {
			t.Errorf("%s: the table does not say which fault of the model does it: %q", a.reason, a.why)
		}
	}
	sort.Strings(reasons)
	for i := 1; i < len(reasons); i++ {
		if reasons[i] == reasons[i-1] {
			t.Errorf("%s is in the table twice", reasons[i])
		}
	}
}
