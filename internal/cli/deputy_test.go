package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/notify"
)

func TestDeputyNotices(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	store, homes := filepath.Join(d.dir, "store"), map[string]string{"ann": t.TempDir(), "bob": t.TempDir()}
	env := func(who string) []string {
		return []string{"XDG_CONFIG_HOME=" + homes[who], "HOME=" + homes[who], "INSPAN_STORE=" + store, "NATS_URL=", "INSPAN_APPROVER=" + who}
	}
	do := func(t *testing.T, code int, has words, who string, args ...string) said {
		t.Helper()
		s := process(t, d.dir, env(who), args...)
		if s.code != code {
			t.Fatalf("inspan %v: exit %d, want %d\n%s%s", args, s.code, code, s.out, s.err)
		}
		for _, w := range has {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("inspan %v has no %q:\n%s%s", args, w, s.out, s.err)
			}
		}
		return s
	}
	asks := func(t *testing.T, who, id string) {
		t.Helper()
		do(t, 0, nil, who, "run", "reader", "look", "--id", id, "--autonomy", "1", "--detach")
	}
	for who := range homes {
		do(t, 0, nil, who, "user", "add", who, "--use")
	}
	t.Run("PLUS-23b PLUS-15a a deputy is notified of the gates of who is away, with the command to type, and of none once that has ended", func(t *testing.T) {
		do(t, 0, words{"bob answers gates in the place of ann"}, "ann", "away", "--to", "bob", "--until", "1h")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		keep := filepath.Join(t.TempDir(), "position.json")
		cmd := exec.CommandContext(t.Context(), self, "notify", "--json", "--by", "bob", "--keep", keep)
		cmd.Dir, cmd.Env = d.dir, append(append(os.Environ(), cliVar+"=1", exitVar+"="+filepath.Join(t.TempDir(), "exit")), env("bob")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := &caller{t: t, lines: bufio.NewScanner(out)}
		until(t, "the position is kept", func() bool { return fileHas(keep, "position") })
		asks(t, "ann", "run-ann")
		n := c.next()
		if n.Kind != notify.Gate || n.Run != "run-ann" || len(n.Deputies) != 1 || !strings.Contains(n.Command, " --by bob --deputy-for ann") {
			t.Errorf("%+v", n)
		}
		do(t, 0, nil, "bob", strings.Fields(strings.TrimPrefix(n.Command, "inspan "))...)
		text := ""
		for !strings.Contains(text, "run.completed") {
			text = do(t, 0, nil, "ann", "logs", "run-ann", "--json").out
		}
		if !strings.Contains(text, `"by":"ann","assurance":"subject"`) || !strings.Contains(text, `"deputy":{"by":"bob"`) {
			t.Errorf("%s", text)
		}
		do(t, 0, words{"ann is back"}, "ann", "away", "--end")
		asks(t, "ann", "run-again")
		asks(t, "bob", "run-bob")
		if n := c.next(); n.Run != "run-bob" || len(n.Deputies) != 0 || strings.Contains(n.Command, "deputy") {
			t.Errorf("%+v", n)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}
