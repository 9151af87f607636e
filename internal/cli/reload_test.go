package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/inspan/inspan/pkg/events"
)

// living is inspan up in a process of its own, whose standard error is read.
type living struct {
	running
	t   *testing.T
	err *buffer
}

func live(t *testing.T, dir string, env []string, args ...string) living {
	t.Helper()
	l := living{t: t, err: &buffer{}}
	l.running = upWith(t, dir, env, l.err, append([]string{"--port", "0"}, args...)...)
	return l
}

// reports waits for a line.
func (l living) reports(want string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !strings.Contains(l.err.String(), want) {
		select {
		case <-look.C:
		case <-ctx.Done():
			l.t.Fatalf("%q does not come:\n%s", want, l.err.String())
		}
	}
}

// described are the registered agents with their descriptions.
func (l living) described() map[string]string {
	l.t.Helper()
	s := inspan(l.t, "agents", "--json", "--server", l.URL)
	if s.code != 0 {
		l.t.Fatal(s.err)
	}
	all := map[string]string{}
	for _, a := range decode[[]events.Agent](l.t, s.out) {
		all[a.Name] = a.Description
	}
	return all
}

func TestReload(t *testing.T) {
	t.Parallel()
	second := strings.Replace(agent("reader", "read"), "A test agent", "The second one", 1)
	t.Run("ID-10 ID-11 changed, new, wrong and removed files of agents of inspan up, and a run that keeps its agent", func(t *testing.T) {
		t.Parallel()
		dir := newDesk(t).dir
		at := func(name string) string { return filepath.Join(dir, "agents", name+".prompt") }
		l := live(t, dir, nil, "--agents", "agents", "--scripts", "scripts")
		if s := inspan(t, "run", "reader", "x", "--id", "run-k", "--autonomy", "1", "--server", l.URL); s.code != 3 {
			t.Fatal(s.err)
		}
		text(t, at("reader"), second)
		l.reports("Agents: reader changed (description) and is registered; runs that have begun keep what they began with\n")
		if got := l.described()["reader"]; got != "The second one" { // what is reported is what others read, at once
			t.Errorf("it is %q", got)
		}
		if s := inspan(t, "export", "run-k", "--format", "json", "--server", l.URL); strings.Contains(s.out, "The second one") || !strings.Contains(s.out, "A test agent") {
			t.Errorf("the run has another agent\n%s", s.err)
		}
		text(t, at("reader"), "---\nname: reader\nmodle: x\n---\nDo.\n")
		l.reports("Agents: agents/reader.prompt:3: modle: ")
		l.reports("; reader stays as it was\n")
		now := time.Now()
		if err := os.Chtimes(at("reader"), now, now); err != nil { // the same content is not reported again
			t.Fatal(err)
		}
		text(t, at("writer"), agent("writer", "read"))
		l.reports("Agents: agents/writer.prompt is new: writer is registered\n")
		if err := os.Remove(at("broken")); err != nil {
			t.Fatal(err)
		}
		l.reports("Agents: agents/broken.prompt is gone: broken is no longer registered; runs that have begun keep it\n")
		if got := l.described(); len(got) != 3 || got["reader"] != "The second one" || got["writer"] == "" || got["sly"] == "" {
			t.Errorf("registered: %q", got)
		}
		if s := inspan(t, "run", "broken", "x", "--server", l.URL); s.code == 0 || !strings.Contains(s.err, "broken") {
			t.Errorf("exit %d: %s", s.code, s.err)
		}
		if n := strings.Count(l.err.String(), "modle"); n != 1 {
			t.Errorf("the wrong file is reported %d times:\n%s", n, l.err.String())
		}
		if s := inspan(t, "approve", "run-k", "--server", l.URL); s.code != 0 {
			t.Fatal(s.err)
		}
		if s := inspan(t, "watch", "run-k", "--server", l.URL); s.code != 0 || !strings.Contains(s.out, "The note is read.") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("SAFE-6 what a directory contributes is used once a person accepted it as it is now", func(t *testing.T) {
		t.Parallel()
		dir := newDesk(t).dir
		env := []string{"XDG_STATE_HOME=" + t.TempDir(), "INSPAN_CONFIG="}
		text(t, filepath.Join(dir, ".inspan", "config.yaml"), "agents: ./agents\nscripts: ./scripts\n")
		accept := func() {
			t.Helper()
			if s := process(t, dir, env, "trust"); s.code != 0 {
				t.Fatal(s.err)
			}
		}
		accept()
		l := live(t, dir, env)
		text(t, filepath.Join(dir, "agents", "reader.prompt"), second)
		const waits = "agents/reader.prompt changed; look at it and accept it with inspan trust: until then it is not used"
		l.reports(waits)
		if got := l.described()["reader"]; got != "A test agent" {
			t.Errorf("before it was accepted it is %q", got)
		}
		accept()
		l.reports("Agents: reader changed (description) and is registered")
		if got := l.described()["reader"]; got != "The second one" {
			t.Errorf("it is %q", got)
		}
		if n := strings.Count(l.err.String(), waits); n != 1 {
			t.Errorf("reported %d times:\n%s", n, l.err.String())
		}
	})
	t.Run("SESS-11 ID-10 a conversation with a station of its own shows it above the prompt, and goes on with the new one", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		text(t, filepath.Join(d.dir, "scripts", "other.yaml"), "turns:\n  - text: I do otherwise.\n")
		tm := d.terminalIn(d.dir, pty.Winsize{Rows: 40, Cols: 100}, []string{"INSPAN_ACCEPT_LAZY_FSYNC=true", "INSPAN_EMPTY=true"},
			"repl", "reader", "--ephemeral", "--agents", "agents", "--scripts", "scripts", "--sandbox", "host")
		from := tm.sees(0, "› ")
		tm.types("half an in")
		from = tm.sees(from, "half an in")
		text(t, filepath.Join(d.dir, "agents", "reader.prompt"), strings.Replace(second, "scripted/reader", "scripted/other", 1))
		from = tm.sees(from, "Agents: reader changed (description, model) and is registered")
		from = tm.sees(from, "half an in")
		tm.types("put\r")
		from = tm.sees(from, "I do otherwise.")
		tm.sees(from, "› ")
		tm.types("\x04")
		tm.ends()
	})
}
