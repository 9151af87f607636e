package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// end waits until a run has ended.
func (d *desk) end(id string) run.State {
	d.t.Helper()
	for {
		if s := decode[run.State](d.t, d.want(0, nil, "inspect", id, "--json").out); s.Status.Ended() {
			return s
		}
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	script := filepath.Join(d.dir, "scripts", "reader.yaml")
	good, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	write := func(second string) {
		t.Helper()
		first, _, _ := strings.Cut(string(good), "  - when: {turn: 2}")
		if err := os.WriteFile(script, []byte(first+second), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	broken := "  - when: {turn: 2}\n    error: {class: invalid, message: \"no such model\"}\n"
	write(broken)
	d.up()
	d.want(1, words{"no such model"}, "run", "reader", "read it", "--id", "bad", "--budget-tokens", "90000")
	bad := d.end("bad")

	t.Run("PLUS-13 a retry has what the failed run did and used, and leaves that run as it is", func(t *testing.T) {
		d.want(0, words{"Retried bad as bad-retry after event", "same workspace", "120 tokens, 1 tool call used", "2 min 0 s to work"}, "retry", "bad")
		s := d.end("bad-retry")
		if s.Status != events.Failed || s.Turns().Len() != bad.Turns().Len() || s.Created.ForkOf.Run != "bad" || s.Created.Workspace != bad.Created.Workspace || s.Tokens.Total() != 120 {
			t.Errorf("%+v %+v", s.Created.ForkOf, s.Result)
		}
		if now := d.end("bad"); now.Sequence != bad.Sequence {
			t.Error("the failed run was changed")
		}
	})
	t.Run("PLUS-13 a failed retry is gone on with in its turn, and two calls at once make one run; inspect shows both directions", func(t *testing.T) {
		write(string(good)[strings.Index(string(good), "  - when: {turn: 2}"):])
		var wg sync.WaitGroup
		var made [2]client.Retried
		for i := range made {
			wg.Go(func() {
				made[i] = decode[client.Retried](t, d.want(0, nil, "retry", "bad", "--json").out)
			})
		}
		wg.Wait()
		if made[0].Run != "bad-retry-2" || made[0].Of != "bad-retry" || made[1].Run != made[0].Run || made[1].At != made[0].At || made[0].Tokens != 120 || !made[0].SameWorkspace {
			t.Fatalf("%+v", made)
		}
		if s := d.end("bad-retry-2"); s.Status != events.Completed || s.Result.Output != "The note is read." {
			t.Fatalf("%+v", s.Result)
		}
		d.want(0, words{"bad-retry is retried already, as bad-retry-2", "completed"}, "retry", "bad")
		d.want(0, words{"Retried as", "bad-retry after event"}, "inspect", "bad")
		d.want(0, words{"Forked from", "bad after event", "Retried as", "bad-retry-2 after event", "completed"}, "inspect", "bad-retry")
		d.want(0, words{"Forked from", "bad-retry after event"}, "inspect", "bad-retry-2")
	})
	t.Run("PLUS-13 what cannot be retried is refused with what to do instead", func(t *testing.T) {
		d.want(4, words{"completed", "inspan fork bad-retry-2 --say"}, "retry", "bad-retry-2")
		d.want(5, words{"not found"}, "retry", "none")
		d.want(1, words{"budget"}, "run", "reader", "read it", "--id", "dear", "--budget-tokens", "10")
		d.want(4, words{"bad_retry", "--budget-tokens"}, "retry", "dear")
	})
}

func TestRetryOf(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-13 each run has one id for its retry, of a length that an id may have", func(t *testing.T) {
		t.Parallel()
		for id, want := range map[string]string{"a": "a-retry", "a-retry": "a-retry-2", "a-retry-2": "a-retry-3", "a-retry-9": "a-retry-10", "a-retry-x": "a-retry-x-retry", "a-retry-0": "a-retry-0-retry"} {
			if got := client.RetryOf(id); got != want {
				t.Errorf("%s: got %s, want %s", id, got, want)
			}
		}
		long := strings.Repeat("x", 64)
		if got := client.RetryOf(long); !events.ValidID(got) || client.RetryOf(long[:63]+"y") == got || client.RetryOf(got) == got {
			t.Errorf("got %s", got)
		}
	})
}
