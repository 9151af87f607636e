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
	for ; ; pause(d.t) {
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

func TestRetryFiles(t *testing.T) {
	t.Parallel()
	dir := newDesk(t).dir
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	putFile(t, at("agents/writer.prompt"), strings.Replace(agent("writer", "write, read"), "timeout: 2m", "timeout: 2m\n  autonomy: 5", 1))
	first := "turns:\n  - when: {turn: 1}\n    text: I write.\n    calls:\n      - {name: write, input: {path: made.txt, content: \"made before the failure\"}}\n"
	broken := first + "  - when: {turn: 2}\n    error: {class: invalid, message: \"no such model\"}\n"
	repaired := first + "  - when: {turn: 2}\n    text: I read.\n    calls:\n      - {name: read, input: {path: made.txt}}\n  - when: {turn: 3}\n    text: Done.\n"
	in := func(code int, words words, args ...string) said {
		t.Helper()
		s := process(t, dir, nil, args...)
		if s.code != code {
			t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
		}
		for _, w := range words {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("inspan %s does not print %q:\n%s%s", strings.Join(args, " "), w, s.out, s.err)
			}
		}
		return s
	}
	ended := func(id string) run.State {
		t.Helper()
		in(0, nil, "logs", id, "--follow")
		return decode[run.State](t, in(0, nil, "inspect", id, "--json").out)
	}
	read := func(s run.State) string {
		for _, c := range run.Backward(s.ToolCallHistory) {
			if c.CallName == "read" {
				return c.Result
			}
		}
		return ""
	}
	start := func(env ...string) running {
		return upWith(t, dir, env, os.Stderr, "--port", "0", "--agents", "agents", "--scripts", "scripts")
	}
	putFile(t, at("scripts/writer.yaml"), broken)
	up := start()
	failed := map[string]run.State{}
	for _, id := range []string{"kept", "edited", "gone"} {
		in(1, words{"no such model"}, "run", "writer", "write it", "--id", id)
		failed[id] = ended(id)
	}
	up.kill()
	putFile(t, at("scripts/writer.yaml"), repaired)
	up = start()
	unchanged := func(id string) {
		t.Helper()
		if now := ended(id); now.Sequence != failed[id].Sequence || now.Hash != failed[id].Hash || now.Status != events.Failed {
			t.Errorf("the failed run %s was changed: event %d, was %d", id, now.Sequence, failed[id].Sequence)
		}
	}

	t.Run("PLUS-13 after kill -9 of the station a retry works with the files that the failed run made", func(t *testing.T) {
		in(0, words{"Retried kept as kept-retry", "the same workspace, whose files were not changed since"}, "retry", "kept")
		if s := ended("kept-retry"); s.Status != events.Completed || !strings.Contains(read(s), "made before the failure") {
			t.Errorf("%+v %q", s.Result, read(s))
		}
		unchanged("kept")
	})
	t.Run("PLUS-13 files that somebody changed since are named, safe for a terminal", func(t *testing.T) {
		work := at(".inspan/workspace/" + failed["edited"].Created.Workspace)
		putFile(t, filepath.Join(work, "made.txt"), "changed by a person")
		putFile(t, filepath.Join(work, "bad \x1b[2J\nname"), "")
		s := in(0, words{"with the files as they are now, changed since: ", "made.txt"}, "retry", "edited")
		if strings.Contains(s.out, "\x1b[2J") || strings.Contains(s.out, "\nname") {
			t.Errorf("a file name reaches the terminal: %q", s.out)
		}
		if s := ended("edited-retry"); !strings.Contains(read(s), "changed by a person") {
			t.Errorf("%q", read(s))
		}
		unchanged("edited")
	})
	t.Run("PLUS-13 a retry whose files were removed is refused, and begins without them only when that is accepted", func(t *testing.T) {
		up.kill()
		start("INSPAN_WORKSPACE_CLEANUP_ON_COMPLETE=true") // it removes that of gone when it starts
		for work := at(".inspan/workspace/" + failed["gone"].Created.Workspace); ; {
			if _, err := os.Stat(work); err != nil {
				break
			}
			in(0, nil, "runs")
		}
		in(4, words{"files_lost", "removed after the run ended", "inspan retry gone --without-files"}, "retry", "gone")
		in(5, nil, "inspect", "gone-retry")
		in(0, words{"Retried gone as gone-retry", "in a new workspace"}, "retry", "gone", "--without-files")
		s := ended("gone-retry")
		if s.Created.ForkOf == nil || s.Created.ForkOf.SameWorkspace || s.Created.Workspace == failed["gone"].Created.Workspace {
			t.Errorf("%+v in %s", s.Created.ForkOf, s.Created.Workspace)
		}
		if len(s.Messages) == 0 || !strings.Contains(s.Messages[0].Text, "new, empty directory") {
			t.Errorf("the agent is not informed: %+v", s.Messages)
		}
		unchanged("gone")
	})
}
