package security

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
)

// slowAcks is an ack wait that no test waits for: what a delivery loses stays lost.
const slowAcks = 10 * time.Minute

// odd are messages that a publisher may send and that could be taken for something else on their way to a role: for the
// end of an answer, or for a status of the server. block is a whole header block, empty for none.
var odd = []struct{ name, block, body string }{
	{"nothing at all", "", ""},
	{"an empty header block", "NATS/1.0\r\n\r\n", ""},
	{"a header and no body", "NATS/1.0\r\nA: b\r\n\r\n", ""},
	{"a status line", "NATS/1.0 409 Consumer Deleted\r\n\r\n", ""},
	{"a status line that ends a pull", "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 0\r\n\r\n", ""},
	{"a heartbeat", "NATS/1.0 100 Idle Heartbeat\r\n\r\n", ""},
	{"no responders", "NATS/1.0 503\r\n\r\n", ""},
	{"a status as a header", "NATS/1.0\r\nStatus: 409\r\nDescription: Consumer Deleted\r\n\r\n", ""},
	{"a status as a header with a count", "NATS/1.0\r\nStatus: 408\r\nNats-Pending-Messages: 99\r\n\r\n", ""},
	{"a status and a body", "NATS/1.0 409 Consumer Deleted\r\n\r\n", "x"},
	{"a header block without a colon", "NATS/1.0\r\nnonsense\r\n\r\n", ""},
	{"a header block without its version", "SATAN/6.6\r\nA: b\r\n\r\n", ""},
	{"a header block that does not end", "NATS/1.0\r\nA: b", ""},
	{"a header of 60 KiB", "NATS/1.0\r\nA: " + strings.Repeat("b", 60<<10) + "\r\n\r\n", ""},
	{"a message id", "NATS/1.0\r\nNats-Msg-Id: odd\r\n\r\n", ""},
	{"an expected sequence", "NATS/1.0\r\nNats-Expected-Last-Sequence: 0\r\n\r\n", ""},
	{"an expected stream", "NATS/1.0\r\nNats-Expected-Stream: LOG_s1\r\n\r\n", ""},
	{"a time to live", "NATS/1.0\r\nNats-TTL: 1s\r\n\r\n", ""},
	{"a rollup", "NATS/1.0\r\nNats-Rollup: all\r\n\r\n", ""},
	{"a schedule", "NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Schedule-Target: station.s1.task\r\n\r\n", ""},
	{"the end of a schedule", "NATS/1.0\r\nNats-Scheduler: station.s1.task\r\nNats-Schedule-Next: purge\r\n\r\n", ""},
	{"part of a batch", "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n", ""},
	{"a whole batch", "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n", ""},
	{"a counter", "NATS/1.0\r\nNats-Incr: +1\r\n\r\n", ""},
	{"a source", "NATS/1.0\r\nNats-Stream-Source: LOG_s1 1\r\n\r\n", ""},
	{"a pinned client", "NATS/1.0\r\nNats-Pin-Id: odd\r\n\r\n", ""},
	{"a stalled consumer", "NATS/1.0\r\nNats-Consumer-Stalled: $JS.FC.x\r\n\r\n", ""},
	{"another client's name", "NATS/1.0\r\nNats-Request-Info: {\"acc\":\"streams-s1\"}\r\n\r\n", ""},
	{"a trace", "NATS/1.0\r\nNats-Trace-Dest: station.s1.task\r\n\r\n", ""},
	{"only a trace", "NATS/1.0\r\nNats-Trace-Dest: station.s1.task\r\nNats-Trace-Only: true\r\n\r\n", ""},
	{"another API level", "NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n", ""},
	{"a delete marker", "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n", ""},
}

// TestOddMessages has an outsider publish each odd message in front of good ones. The role must be given the good ones
// although the ack wait is minutes: an odd message that ends an answer of the server takes those behind it along.
func TestOddMessages(t *testing.T) {
	t.Parallel()
	for _, queue := range []struct {
		name, user, subject string
		role                events.Service
	}{
		{"a task", "dispatcher", "station.s1.task", events.Planner},
		{"control of a run", "dispatcher", "station.s1.run.r1.control", events.Planner},
		{"control of a session", "dispatcher", "station.s1.session.w1.control", events.Planner},
		{"an answer to a gate", "anna", "station.s1.run.r1.gate.g1.anna", events.Gatekeeper},
		{"a sweep", "dispatcher", "station.s1.session.w1.sweep", events.Toolrunner},
	} {
		t.Run("SAFE-12 no message of an outsider holds up "+queue.name+" behind it", func(t *testing.T) {
			t.Parallel()
			s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, shipped() })
			b := bedWith(t, s.URL(), jet.ApplyOptions{Replicas: 1, AckWait: slowAcks})
			bodies := b.deliveries(queue.role)
			w := b.wire(queue.user)
			for _, o := range odd {
				w.publishBlock(queue.subject, o.block, o.body)
				for i := range 3 {
					w.publish(queue.subject, "", "", fmt.Sprintf("good %d behind %s", i, o.name))
				}
				w.settle()
				want := map[string]bool{}
				for i := range 3 {
					want[fmt.Sprintf("good %d behind %s", i, o.name)] = true
				}
				if !arrive(bodies, want) {
					t.Fatalf("not delivered behind %s: %v; the ack wait is %s", o.name, slices.Sorted(maps.Keys(want)), slowAcks)
				}
			}
		})
	}
}

// deliveries has a role take and acknowledge all that it is given, and returns the bodies.
func (b *bed) deliveries(role events.Service) <-chan string {
	b.t.Helper()
	bodies := make(chan string, 4096) // more than a test publishes
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	inbox := b.station(string(role)).Inbox()
	go func() {
		ended <- inbox.Listen(ctx, role, 32, func(ctx context.Context, m kernel.Message) {
			_ = m.Ack(ctx) // the test ends with the connection
			bodies <- string(m.Data())
		})
	}()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("listen: %v", err)
		}
	})
	return bodies
}

// arrive waits for bodies, in any order because handlers run side by side, and takes those that came out of want.
func arrive(bodies <-chan string, want map[string]bool) bool {
	limit := time.After(patience)
	for len(want) > 0 {
		select {
		case body := <-bodies:
			delete(want, body)
		case <-limit:
			return false
		}
	}
	return true
}
