package jet_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestDeputy(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	t.Run("SAFE-6 a consumer that delivers into the log is no way around the permissions", func(t *testing.T) {
		nc, _ := raw(t, s, natsUser("admin", "x"))
		bucket := topology.StateBucket
		if _, err := nc.Request("$KV."+bucket+".s1.forged", []byte("forged"), time.Second); err != nil {
			t.Fatal(err)
		}
		sub0, _ := nc.SubscribeSync(events.FactSubject("s1", "forged", events.CallAllowed))
		nc.Flush()
		target := events.FactSubject("s1", "forged", events.CallAllowed)
		body, _ := json.Marshal(map[string]any{"stream_name": "KV_" + bucket, "config": map[string]any{"name": "spy", "deliver_subject": target,
			"ack_policy": "none", "deliver_policy": "all", "filter_subject": "$KV." + bucket + ".s1.>", "mem_storage": true}, "action": ""})
		m, err := nc.Request("$JS.API.CONSUMER.CREATE.KV_"+bucket+".spy.$KV."+bucket+".s1.>", body, time.Second)
		t.Logf("%v %v", m, err)
		if m != nil { t.Logf("%s", m.Data) }
		time.Sleep(time.Second)
		st := seenBy(t, s, "planner", inboxOf(events.Planner), "s1")
		last, ok, err := st.Journal().Last(within(t), "forged")
		t.Logf("%+v %v %v", last, ok, err)
		_ = nats.ErrTimeout
		gm, err := sub0.NextMsg(time.Second)
		t.Logf("interest got %v %v", gm, err)
		_ = reactor.Full
		ci, _ := nc.Request("$JS.API.CONSUMER.INFO.KV_"+bucket+".spy", nil, time.Second)
		t.Logf("INFO %s", ci.Data)
		info, _ := nc.Request("$JS.API.STREAM.INFO.LOG_s1", []byte(`{"subjects_filter":">"}`), time.Second)
		t.Logf("%s", info.Data)
	})
}
