package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// TestGrants gives, lists and takes back a grant as a person at a shell does, and as a program with pkg/client.
func TestGrants(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	c, err := client.Connect(t.Context(), client.Config{URL: d.station.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := func(t *testing.T, id string, flags ...string) (gate string) {
		t.Helper()
		d.want(3, nil, "run", "talker", "run it", "--session", "talk", "--id", id)
		s, err := c.State(t.Context(), id)
		if err != nil || len(s.Waiting()) != 1 {
			t.Fatalf("%+v %v", s.Waiting(), err)
		}
		gate = id + "/" + s.Waiting()[0].ID
		d.want(0, nil, append([]string{"approve", gate}, flags...)...)
		d.want(0, nil, "watch", id)
		return gate
	}
	listed := func(t *testing.T) []events.Grant {
		t.Helper()
		return decode[[]events.Grant](t, d.want(0, nil, "grants", "--json").out)
	}
	t.Run("PLUS-14 a grant of a session is listed until it is revoked, and the next run passes and then asks", func(t *testing.T) {
		d.want(0, words{"No grant holds."}, "grants")
		d.want(2, words{"--always"}, "approve", "run-x/g-x", "--for", "1h")
		gate := ask(t, "run-g1", "--always", "session", "--for", "2h", "--by", "anna")
		d.want(0, words{gate, "session talk", "anna", "echo ran > ran.txt; echo done"}, "grants")
		all := listed(t)
		if len(all) != 1 || all[0].Run+"/"+all[0].ID != gate || all[0].Until.Sub(all[0].At) != 2*time.Hour {
			t.Fatalf("%+v", all)
		}
		if got := d.want(0, nil, "grants", "-o", "name").out; got != gate+"\n" {
			t.Errorf("%q", got)
		}
		d.want(0, words{"It ran."}, "run", "talker", "run it", "--session", "talk", "--id", "run-g2")
		s := d.want(0, nil, "grants", "revoke", all[0].ID, "--by", "bob", "--reason", "enough", "--json")
		if got := decode[map[string]string](t, s.out); got["run_id"] != "run-g1" || got["grant_id"] != all[0].ID || got["status"] != "revoked" {
			t.Errorf("%v", got)
		}
		if all := listed(t); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		d.want(0, words{"is revoked"}, "grants", "revoke", gate) // one that holds no more is as good as revoked
		d.want(5, words{"inspan grants lists them"}, "grants", "revoke", all[0].ID)
		d.want(4, words{"unknown_grant"}, "grants", "revoke", "run-g2/g-1a2b3c4d5e6f")
		if again := ask(t, "run-g3"); strings.HasPrefix(again, "run-g1/") {
			t.Error(again)
		}
	})
	t.Run("PLUS-14 a program lists and revokes with pkg/client; a grant of a run ends with it", func(t *testing.T) {
		ask(t, "run-g4", "--always", "run")
		if all, err := c.Grants().List(t.Context()); err != nil || len(all) != 0 {
			t.Fatalf("%+v %v", all, err)
		}
		ask(t, "run-g5", "--always", "session")
		all, err := c.Grants().List(t.Context())
		if err != nil || len(all) != 1 || all[0].Pattern != "echo ran > ran.txt; echo done" || all[0].Session != "talk" {
			t.Fatalf("%+v %v", all, err)
		}
		if err := c.Grants().Revoke(t.Context(), client.Decision{Run: all[0].Run, Gate: all[0].ID, By: "bob"}); err != nil {
			t.Fatal(err)
		}
		if all, err := c.Grants().List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%+v %v", all, err)
		}
	})
}
