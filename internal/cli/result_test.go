package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

func TestResult(t *testing.T) {
	t.Parallel()
	t.Run("DLV-6 DLV-7 the result of a run is what the SDK has, as text or whole, and one that has not ended has none", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t).up()
		d.want(0, nil, "run", "reader", "look", "--id", "r1", "--autonomy", "5")
		if got := d.want(0, nil, "inspect", "r1", "--result").out; got != "The note is read.\n" {
			t.Errorf("%q", got)
		}
		c, err := client.Connect(t.Context(), client.Config{URL: d.station.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out, err := c.Runs().Outcome(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		got, want := decode[run.Final](t, d.want(0, nil, "inspect", "r1", "--result", "--json").out), out.Final
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) || got.Output != "The note is read." {
			t.Errorf("%s\nwant %s", a, b)
		}
		d.want(1, []string{"has not ended", "inspan watch r1"}, "inspect", "r1", "--result", "--at", "2")
	})
}
