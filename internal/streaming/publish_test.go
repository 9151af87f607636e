package streaming_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/streaming"
)

// heard counts what it is told to publish.
type received struct{ n int }

func (h *received) Publish(string, []byte) { h.n++ }

func TestChoose(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{"": "nats", "true": "nats", "nats": "nats", "jetstream": "jetstream", "channel": "channel", "false": "", "none": "",
		" jetstream , channel,jetstream": "jetstream channel", "nats,jetstream,channel": "nats jetstream channel"} {
		t.Run("OBS-12 OBS-13 the option "+option+" chooses its publishers", func(t *testing.T) {
			t.Parallel()
			all := map[string]*received{"nats": {}, "jetstream": {}, "channel": {}}
			p, err := streaming.Choose(option, map[string]streaming.Publisher{"nats": all["nats"], "jetstream": all["jetstream"], "channel": all["channel"]})
			if err != nil {
				t.Fatal(err)
			}
			p.Publish("r", []byte("{}"))
			for name, h := range all {
				once := strings.Contains(want, name)
				if once && h.n != 1 || !once && h.n != 0 {
					t.Errorf("%s was told %d times", name, h.n)
				}
			}
		})
	}
	for option, want := range map[string]string{"kafka": `"kafka"`, "nats,none": "stands alone", "nats,": `""`, "channel": "none in this process"} {
		t.Run("OBS-12 the option "+option+" is refused with what to do", func(t *testing.T) {
			t.Parallel()
			if _, err := streaming.Choose(option, map[string]streaming.Publisher{"nats": &received{}}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}
