package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	st, err := d.station.Conn().Station("default")
	if err != nil {
		t.Fatal(err)
	}
	say := func(t *testing.T, body string, header map[string]string) {
		if err := st.Publish(t.Context(), events.TaskSubject("default"), []byte(body), header); err != nil {
			t.Fatal(err)
		}
	}
	letters := func(t *testing.T, want int) []client.Letter {
		for ; ; pause(t) {
			all := decode[[]client.Letter](t, d.want(0, nil, "dead", "list", "--json").out)
			if len(all) >= want || t.Context().Err() != nil {
				return all
			}
		}
	}
	say(t, `{"agent":"late","task":"look"}`, nil)
	letters(t, 1)
	say(t, `{"agent":"late","task":"look"}`, map[string]string{"ce-specversion": "1.0", "ce-id": "from-ce", "ce-source": "/t", "ce-type": events.TaskType, "Content-Type": "application/json"})
	all := letters(t, 2)
	if len(all) != 2 || all[0].Code != "unknown_agent" || all[1].Header["ce-id"] != "from-ce" {
		t.Fatalf("%+v", all)
	}
	t.Run("SAFE-12 a letter that is said again before it is fixed is refused again, as another letter", func(t *testing.T) {
		d.want(4, []string{"unknown_agent"}, "dead", "replay", "1", "--yes")
		if all := letters(t, 3); len(all) != 3 || all[0].Replayed != nil {
			t.Errorf("%+v", all)
		}
	})
	reader, err := (&service.Agents{KV: st.KV(topology.ConfigBucket)}).Agent(t.Context(), "reader")
	if err != nil {
		t.Fatal(err)
	}
	reader.Name = "late"
	err = d.station.Administer(t.Context(), func(c *jet.Conn) error {
		as, err := c.Station("default")
		if err == nil {
			put(t, as.KV(topology.ConfigBucket), "agent.late", reader)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("SAFE-12 once it is fixed it is taken, starts one run, and is not said a third time", func(t *testing.T) {
		if s := inspan(t, "dead", "replay", "1", "--server", d.station.URL()); s.code != 1 || !strings.Contains(s.err, "was not published again") {
			t.Errorf("without a yes: exit %d %s", s.code, s.err)
		}
		d.want(0, []string{"accepted"}, "dead", "replay", "1", "--yes")
		d.want(4, []string{"already"}, "dead", "replay", "1", "--yes")
		d.want(0, []string{"replayed"}, "dead", "list")
		d.want(0, []string{"accepted"}, "dead", "replay", "2", "--yes")
		c, err := operator.On(d.station.Conn(), "default")
		if err != nil {
			t.Fatal(err)
		}
		runs := map[string]bool{}
		for len(runs) < 2 && t.Context().Err() == nil {
			pause(t)
			infos, err := c.Runs().List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range infos {
				runs[i.HarnessID] = true
			}
		}
		if len(runs) != 2 || !runs["from-ce"] {
			t.Errorf("runs %v, want from-ce and one more", runs)
		}
		var s run.State
		if s, err = c.State(t.Context(), "from-ce"); err != nil || s.AgentName != "late" {
			t.Errorf("%v %s", err, s.AgentName)
		}
	})
	t.Run("SAFE-12 CLI-9 what is not there, not whole or no number is said so", func(t *testing.T) {
		d.want(5, nil, "dead", "replay", "99", "--yes")
		d.want(2, nil, "dead", "replay", "x", "--yes")
		n := len(letters(t, 0))
		say(t, `{"agent":"nobody","task":"`+strings.Repeat("x", 9<<10)+`"}`, nil)
		all := letters(t, n+1)
		last := all[len(all)-1]
		d.want(4, []string{"only a part"}, "dead", "replay", number(last.Seq), "--yes")
	})
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func put(t *testing.T, kv kernel.KV, key string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Put(t.Context(), key, b); err != nil {
		t.Fatal(err)
	}
}
