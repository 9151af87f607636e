package cli_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	t.Run("CLI-11 without queues the list says how to make one, and what is wrong is said with what to do", func(t *testing.T) {
		say(t, 0, []string{"No merge queues", "inspan queue add"}, "queue", "list")
		say(t, 5, []string{"inspan queue list"}, "queue", "show", "main")
		say(t, 2, []string{"no checks", "accept"}, "queue", "add", "main", "--repo", "https://example.org/p", "--agent", "reader")
		say(t, 2, []string{"no repo"}, "queue", "add", "main", "--agent", "reader", "--accept", "true")
		say(t, 4, []string{"unknown_agent", "readr"}, "queue", "add", "main", "--repo", "https://example.org/p", "--agent", "readr", "--accept", "true")
		say(t, 4, []string{"unknown_queue"}, "queue", "retry", "main", "hello")
	})
	t.Run("DLV-1 CLI-11 a queue is made once, shown, and says which setting a repository on a disk needs", func(t *testing.T) {
		far := say(t, 0, []string{"Merge queue main lands on main of https://example.org/p", "inspan deliver ITEM AGENT --queue main"},
			"queue", "add", "main", "--repo", "https://example.org/p", "--agent", "reader", "--accept", "true")
		if strings.Contains(far.out, "INSPAN_GIT_PROTOCOLS") {
			t.Errorf("%s", far.out)
		}
		say(t, 0, []string{"file:///srv/p", `"file" in INSPAN_GIT_PROTOCOLS`}, "queue", "add", "disk", "--repo", "file:///srv/p", "--agent", "reader", "--accept", "true")
		say(t, 4, []string{"queue_exists"}, "queue", "add", "main", "--repo", "https://example.org/p", "--agent", "reader", "--accept", "true")
		q := decode[events.MergeQueue](t, say(t, 0, nil, "queue", "show", "main", "--json").out)
		if q.ID != "main" || q.Spec.Repo != "https://example.org/p" || q.Spec.Branch != "main" || len(q.Entries) != 0 {
			t.Errorf("%+v", q)
		}
		say(t, 0, []string{"main", "disk", "file:///srv/p"}, "queue", "list")
		say(t, 4, []string{"hello"}, "queue", "drop", "main", "hello")
	})
	t.Run("DLV-1 an item goes to a queue that is there, and to the repository of that queue", func(t *testing.T) {
		say(t, 0, nil, "work", "add", "Say hello", "--id", "hello")
		say(t, 5, []string{"inspan queue list"}, "deliver", "hello", "reader", "--queue", "none")
		say(t, 4, []string{"https://example.org/p"}, "deliver", "hello", "reader", "--queue", "main", "--repo", "https://example.org/other")
		say(t, 2, []string{"maker"}, "deliver", "hello", "reader", "--queue", "main", "--maker", "No/Such")
	})
}
