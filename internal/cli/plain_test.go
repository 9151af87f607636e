package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPlainText is a run whose task, prompt, arguments and answers are full of signs that mean something in HTML.
func TestPlainText(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/html.prompt": "---\nname: html\ndescription: a <b> & c\nversion: 1\nmodel: scripted/html\ntools: [bash]\npermissions: {bash: {\"*\": ask}}\nharness: {enabled: true, timeout: 2m}\n" +
			"sandbox: {mode: host, network: true}\n---\nTalk <b> & more.\n",
		"scripts/html.yaml": "turns:\n  - when: {turn: 1}\n    text: \"I <think> & run\"\n    calls:\n      - {name: bash, input: {command: \"echo '<a> & b' > x && cat < x\"}}\n  - text: \"done <ok> & fine\"\n",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	d.want(0, []string{"r"}, "run", "html", "say <b> & go", "--id", "r", "--detach")
	until(t, "a gate", func() bool { return strings.Contains(d.do("gates").out, "r/g-") })
	shows := func(state string, commands ...string) {
		for _, c := range commands {
			t.Run("CLI-9 "+state+" inspan "+c+" shows < > & as they are", func(t *testing.T) {
				s := d.want(0, nil, strings.Fields(c)...)
				for _, bad := range []string{"u003c", "u003e", "u0026", "&lt;", "&amp;"} {
					if i := strings.Index(s.out+s.err, bad); i >= 0 {
						t.Errorf("%q in %s", bad, (s.out + s.err)[max(0, i-60):min(len(s.out+s.err), i+40)])
					}
				}
				if !strings.Contains(s.out, "<") {
					t.Errorf("nothing of the kind is shown:\n%s", s.out)
				}
			})
		}
	}
	shows("at a gate", "top --once --json", "gates", "gates --json", "inspect r", "inspect r --json", "logs r", "logs r --json", "why r", "why r --json", "runs", "runs --json", "agents --json")
	t.Run("CLI-9 an error as JSON shows < > & as they are", func(t *testing.T) {
		s := d.do("inspect", "<none>&", "--json")
		if s.code == 0 || !strings.Contains(s.err, "<none>&") || strings.Contains(s.err, "u003c") {
			t.Errorf("exit %d %s%s", s.code, s.out, s.err)
		}
	})
	gate := decode[[]struct{ Gate struct{ ID string } }](t, d.do("gates", "--json").out)[0].Gate.ID
	d.want(0, nil, "approve", "r/"+gate)
	until(t, "the end", func() bool { return strings.Contains(d.do("runs", "--json").out, `"completed"`) })
	shows("of a run that ended", "inspect r", "inspect r --json", "inspect r --at 7", "inspect r --at 7 --json", "logs r", "logs r --json", "watch r", "watch r --json", "export r --format json", "export r --format messages", "runs --json")
}

// until waits for something that another process does.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		if t.Context().Err() != nil {
			break
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("%s did not come", what)
}
