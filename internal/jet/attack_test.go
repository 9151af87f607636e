package jet_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// TestDeputy has the server itself publish for somebody who may not: a consumer delivers to any subject.
func TestDeputy(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	target := events.RunEventSubject("s1", "forged", events.CallAllowed)
	source := "$KV." + topology.StateBucket + ".s1.forged"
	stream := topology.KVStream(topology.StateBucket)
	consumer, err := json.Marshal(map[string]any{"stream_name": stream, "action": "", "config": map[string]any{"name": "deputy",
		"deliver_subject": target, "ack_policy": "none", "deliver_policy": "all", "filter_subject": source, "mem_storage": true}})
	if err != nil {
		t.Fatal(err)
	}
	create := "$JS.API.CONSUMER.CREATE." + stream + ".deputy." + source
	t.Run("SAFE-6 no service and no user makes the server deliver into the log", func(t *testing.T) {
		for _, role := range events.Services() {
			nc, _ := raw(t, s, natsUser(string(role), "x"), nats.CustomInboxPrefix(inboxOf(role)), quiet)
			ask(t, nc, create)
		}
		for _, right := range []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove} {
			nc, _ := raw(t, s, natsUser(string(right), "x"), quiet)
			ask(t, nc, create)
		}
	})
	t.Run("SAFE-6 even an administrator's consumer forges no event: what it delivers keeps its own subject", func(t *testing.T) {
		nc, js := raw(t, s, natsUser("admin", "x"))
		if _, err := js.Publish(within(t), source, []byte("forged")); err != nil {
			t.Fatal(err)
		}
		sub, err := nc.SubscribeSync(target) // without interest nothing is delivered
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushWithContext(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.RequestWithContext(within(t), create, consumer); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.NextMsgWithContext(within(t)); err != nil || m.Subject != source {
			t.Fatalf("got %v, %v; want the delivery under its own subject", m, err)
		}
		if evs, _, err := seenBy(t, s, "admin", "", "s1").Journal().Read(within(t), "forged", 0); err != nil || len(evs) != 0 {
			t.Errorf("the run has %d events, %v", len(evs), err)
		}
	})
}

// quiet keeps refusals that a test wants out of its output.
var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
