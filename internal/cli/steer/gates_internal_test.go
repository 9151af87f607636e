package steer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

func TestListing(t *testing.T) {
	t.Parallel()
	var gates []client.Waiting
	for i := range 60 { // the newest first
		gates = append(gates, client.Waiting{Run: run.Info{HarnessID: fmt.Sprintf("r%02d", i)},
			Gate: &run.Gate{ID: "g", CreatedAt: time.Unix(int64(1000-i), 0)}})
	}
	for limit, want := range map[int]int{0: 60, 50: 50, 1: 1, 100: 60} {
		t.Run(fmt.Sprintf("of 60 gates a list of at most %d has the oldest, and says how many there are more", limit), func(t *testing.T) {
			t.Parallel()
			c := gatesCommand{App: &app.App{}, limit: limit}
			l := c.listing(append([]client.Waiting{}, gates...))
			if len(l.Rows) != want || l.Names[0] != "r59/g" {
				t.Errorf("%d rows that begin with %s, want %d that begin with r59/g", len(l.Rows), l.Names[0], want)
			}
			if more := fmt.Sprintf("and %d newer gates", 60-want); strings.Contains(l.Note, "newer") != (want < 60) ||
				want < 60 && !strings.Contains(l.Note, strings.TrimSuffix(more, "s")) {
				t.Errorf("the note is %q", l.Note)
			}
		})
	}
}
