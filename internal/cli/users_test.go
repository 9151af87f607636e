package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	url, store, config := d.station.URL(), filepath.Join(d.dir, "store"), t.TempDir()
	do := func(t *testing.T, code int, has words, args ...string) said {
		t.Helper()
		s := process(t, d.dir, words{"XDG_CONFIG_HOME=" + config, "HOME=" + config, "INSPAN_STORE=" + store, "NATS_URL="}, args...)
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
	key := func(name string) string { return filepath.Join(config, "inspan", "keys", "default-"+name+".nk") }
	gone := make(chan struct{})
	if _, err := jettest.Login(t, url, "", func() { close(gone) }); err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-22 the first user closes the station for everybody else, who is disconnected", func(t *testing.T) {
		do(t, 0, words{"lets in whoever"}, "user", "list")
		do(t, 0, words{"ada may dispatch, watch and approve", "no one else", "default-ada"}, "user", "add", "ada", "--use")
		<-gone
		if _, err := jettest.Login(t, url, "", func() {}); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("without a key: %v", err)
		}
		info, err := os.Stat(key("ada"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		do(t, 0, words{"No runs"}, "runs") // by the context that --use chose
		if s := d.do("runs"); s.code != 1 || !strings.Contains(s.err, "does not let this program in") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
	t.Run("PLUS-22 SAFE-5 a user has the rights that were given, and answers gates in the own name alone", func(t *testing.T) {
		do(t, 0, words{"ben may watch and approve"}, "user", "add", "ben", "--may", "watch,approve")
		do(t, 0, nil, "run", "reader", "look", "--id", "run-a", "--autonomy", "1", "--detach")
		gate := ""
		for gate == "" {
			for _, g := range decode[[]client.Waiting](t, do(t, 0, nil, "gates", "--json").out) {
				gate = g.Gate.ID
			}
		}
		ben, err := jettest.Login(t, url, key("ben"), func() {})
		if err != nil {
			t.Fatal(err)
		}
		answer := []byte(`{"decision":"approve","by":"ada"}`)
		for _, subject := range []string{events.TaskSubject("default"), events.GateSubject("default", "run-a", gate),
			events.GateSubject("default", "run-a", gate) + ".ada"} {
			if err := errors.Join(ben.Publish(subject, answer), ben.Flush()); err != nil {
				t.Fatal(err)
			}
			if err := ben.LastError(); err == nil || !strings.Contains(err.Error(), subject) {
				t.Errorf("ben published on %s: %v", subject, err)
			}
		}
		if err := errors.Join(ben.Publish(events.GateSubject("default", "run-a", gate)+".ben", answer), ben.Flush()); err != nil {
			t.Fatal(err)
		}
		text := ""
		for !strings.Contains(text, "gate.approved") {
			text = do(t, 0, nil, "logs", "run-a", "--json").out
		}
		if !strings.Contains(text, `"by":"ben","assurance":"subject"`) {
			t.Errorf("answered by another:\n%s", text)
		}
	})
	t.Run("PLUS-22 a user who is removed is disconnected, and the station stays closed", func(t *testing.T) {
		gone := make(chan struct{})
		if _, err := jettest.Login(t, url, key("ben"), func() { close(gone) }); err != nil {
			t.Fatal(err)
		}
		do(t, 0, words{"ada", "ben", "watch and approve"}, "user", "list")
		do(t, 0, words{"not let in"}, "user", "remove", "ben")
		<-gone
		if _, err := jettest.Login(t, url, key("ben"), func() {}); !errors.Is(err, jet.ErrUnauthorized) {
			t.Errorf("with the key of a user who was removed: %v", err)
		}
		do(t, 5, words{"has no such user"}, "user", "remove", "ben")
		do(t, 0, words{"run-a"}, "runs")
	})
	t.Run("PLUS-22 SAFE-12 what cannot be a user changes nothing", func(t *testing.T) {
		before := do(t, 0, nil, "user", "list", "--json").out
		do(t, 2, words{"name of the user"}, "user", "add", "a.*")
		do(t, 2, words{"serve"}, "user", "add", "eve", "--may", "serve")
		do(t, 2, words{"no public key"}, "user", "add", "eve", "--public-key", "SUAAA")
		do(t, 2, words{"leave --key and --use out"}, "user", "add", "eve", "--use", "--public-key", "U")
		do(t, 1, words{"file of the key"}, "user", "add", "ada")
		do(t, 1, words{"has that user"}, "user", "add", "ada", "--key", filepath.Join(t.TempDir(), "k"))
		do(t, 2, words{"name a user, or --all"}, "user", "remove")
		if after := do(t, 0, nil, "user", "list", "--json").out; after != before {
			t.Errorf("the list was %s, and is %s", before, after)
		}
	})
}
