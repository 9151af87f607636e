package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestSessionImport(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	file := text(t, filepath.Join(d.dir, ".history.json"), `[{"role":"user","content":[{"text":"I am Ada"}]},{"role":"model","content":[{"text":"Hello \u001b[2JAda."}]}]`)
	t.Run("SESS-10 SESS-18 a session goes on with the conversation of a file", func(t *testing.T) {
		s := d.want(0, words{"Session old", "2 messages", "inspan repl"}, "session", "import", "old", file)
		if strings.Contains(s.out, "\x1b") {
			t.Errorf("%q", s.out)
		}
		d.want(0, words{"You are Ada."}, "run", "talker", "who am I?", "--session", "old")
		if got := strings.Join(d.received("old"), "|"); got != "I am Ada|who am I?" {
			t.Errorf("heard %s", got)
		}
	})
	t.Run("SESS-10 what a session says of itself can be imported into another one", func(t *testing.T) {
		s := d.piped(d.do("session", "history", "old", "--json").out, "session", "import", "copy", "-", "--json")
		if e := decode[events.Session](t, s.out); s.code != 0 || e.Messages != 4 || e.ID != "copy" {
			t.Errorf("%d %s%s", s.code, s.out, s.err)
		}
		if got := strings.Join(d.received("copy"), "|"); got != "I am Ada|who am I?" {
			t.Errorf("heard %s", got)
		}
	})
	t.Run("SESS-10 a session that has a conversation keeps it, and what is no conversation changes nothing", func(t *testing.T) {
		d.want(4, words{"session_has_history", "inspan session clear old"}, "session", "import", "old", file)
		d.want(2, words{"not a conversation"}, "session", "import", "none", text(t, filepath.Join(d.dir, "bad"), "hello"))
		d.want(2, words{"the limit is"}, "session", "import", "none", text(t, filepath.Join(d.dir, "big"), "["+strings.Repeat(" ", 300<<10)+"]"))
		d.want(2, words{"no such file"}, "session", "import", "none", filepath.Join(d.dir, "nowhere"))
		d.want(2, words{"no file"}, "session", "import", "none", d.dir)
		d.want(2, words{"session"}, "session", "import", "a b", file)
		d.want(5, nil, "session", "info", "none")
		d.want(0, nil, "session", "clear", "old")
		d.want(0, words{"2 messages"}, "session", "import", "old", file)
	})
}
