package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/run"
)

// anchored runs an agent and returns the signed head of the run, once it is that of its last event.
func (d *desk) anchored(id string) run.Anchor {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Join(d.dir, "store", "workspace", "run", id), 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.want(0, nil, "run", "reader", "look", "--id", id)
	for d.t.Context().Err() == nil {
		pause(d.t)
		if r := decode[audit.Report](d.t, d.want(0, nil, "audit", id, "--json").out); r.Anchored == r.Events {
			break
		}
	}
	path := filepath.Join(d.dir, id+".anchor")
	events := d.want(0, nil, "export", id, "--anchor", path).out
	if err := os.WriteFile(filepath.Join(d.dir, id+".jsonl"), []byte(events), 0o644); err != nil {
		d.t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := audit.ReadAnchor(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

func TestRotateAnchorKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	store := filepath.Join(d.dir, "store")
	key := func() keychain.File {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(store, station.KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		f, err := keychain.ParseFile(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	forged := func(name string, a run.Anchor, seq uint64, by keychain.File) string {
		t.Helper()
		s := run.State{HarnessID: a.Run, Sequence: a.Sequence, Hash: a.Hash}
		s.Identity.Station = a.Station
		b, err := json.Marshal(run.AnchorOf(s, seq, a.At, by.Private))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.dir, name+".anchor")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, key1 := d.anchored("first"), key()
	d.want(0, []string{"No key of anchors was replaced"}, "rotate", "list")
	d.want(0, []string{"Would replace", keychain.ID(key1.Public())}, "rotate", "anchor-key", "--dry-run", "--store", store)
	if now := key(); now.Public() != key1.Public() {
		t.Fatal("a dry run replaced the key")
	}
	d.want(0, []string{"is replaced (rotated)", "It is in force"}, "rotate", "anchor-key", "--store", store)
	second, key2 := d.anchored("second"), key()
	d.want(0, nil, "rotate", "anchor-key", "--store", store, "--json")
	third, key3 := d.anchored("third"), key()

	t.Run("PLUS-20a each run is signed by the key of its time, and one audit verifies them all", func(t *testing.T) {
		for i, a := range []run.Anchor{first, second, third} {
			if want := keychain.ID([]keychain.File{key1, key2, key3}[i].Public()); a.Key != want {
				t.Errorf("run %s is signed by %s, want %s", a.Run, a.Key, want)
			}
		}
		d.want(0, []string{"rotated", keychain.ID(key1.Public()), keychain.ID(key3.Public())}, "rotate", "list")
		d.want(0, []string{"No fault in 3 runs"}, "audit", "--all")
		all := decode[operator.Audits](t, d.want(0, nil, "audit", "--all", "--json").out)
		for _, r := range all.Runs {
			if !r.Vouched() || !r.Signed {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("PLUS-20a whoever has one public key of the chain verifies all runs, without a station, too", func(t *testing.T) {
		chain := filepath.Join(d.dir, "keys.json")
		if err := os.WriteFile(chain, []byte(d.want(0, nil, "rotate", "list", "--json").out), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, k := range []keychain.File{key1, key2, key3} {
			d.want(0, []string{"No fault in 3 runs"}, "audit", "--all", "--key", k.Public())
			for _, id := range []string{"first", "second", "third"} {
				file, anchor := filepath.Join(d.dir, id+".jsonl"), filepath.Join(d.dir, id+".anchor")
				if s := inspan(t, "audit", "--file", file, "--anchor", anchor, "--key", k.Public(), "--chain", chain); s.code != 0 || !strings.Contains(s.out, "signed at event") {
					t.Errorf("%s: exit %d\n%s%s", id, s.code, s.out, s.err)
				}
			}
		}
		file, anchor := filepath.Join(d.dir, "third.jsonl"), filepath.Join(d.dir, "third.anchor")
		if s := inspan(t, "audit", "--file", file, "--anchor", anchor, "--key", key1.Public()); s.code != 1 || !strings.Contains(s.err, "not a trusted key") {
			t.Errorf("without the chain: exit %d\n%s%s", s.code, s.out, s.err)
		}
		if s := inspan(t, "audit", "--file", file, "--anchor", anchor, "--chain", chain); s.code != 2 || !strings.Contains(s.err, "--key") {
			t.Errorf("without a key: exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
	t.Run("PLUS-20a what an old key signs after it was replaced is reported, whatever position it says", func(t *testing.T) {
		for name, seq := range map[string]uint64{"honest": third.Seq, "dated back": 1} {
			d.want(1, []string{"third", "it was replaced"}, "audit", "--all", "--anchor", forged(name, third, seq, key1))
			d.want(1, []string{"it was replaced"}, "audit", "third", "--anchor", forged(name, third, seq, key2))
		}
		d.want(0, []string{"No fault"}, "audit", "--all", "--anchor", forged("in its time", first, first.Seq, key1))
	})
	t.Run("PLUS-20a a key that leaked certifies nothing, and counts up to where the operator says", func(t *testing.T) {
		d.want(2, []string{"--leaked and --lost"}, "rotate", "anchor-key", "--store", store, "--leaked", "--lost")
		d.want(2, []string{"goes with --leaked"}, "rotate", "anchor-key", "--store", store, "--since", "7")
		d.want(1, []string{"leave --lost out"}, "rotate", "anchor-key", "--store", store, "--lost")
		d.want(0, []string{"leaked", "does not certify"}, "rotate", "anchor-key", "--store", store, "--leaked")
		key4 := key()
		fourth := d.anchored("fourth")
		if fourth.Key != keychain.ID(key4.Public()) {
			t.Errorf("signed by %s", fourth.Key)
		}
		d.want(0, []string{"No fault in 4 runs"}, "audit", "--all")
		d.want(0, nil, "audit", "fourth", "--key", key4.Public())
		d.want(0, nil, "audit", "third", "--key", key4.Public())
		d.want(0, nil, "audit", "third", "--key", key1.Public())
		d.want(1, []string{"not a trusted key"}, "audit", "fourth", "--key", key1.Public())
	})
	t.Run("PLUS-20a PLUS-18 a copy of the station has the chain and no private key, and verifies", func(t *testing.T) {
		dir, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
		d.want(0, nil, "backup", dir)
		if err := os.Mkdir(restored, 0o755); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(store, station.KeyFile)) // its owner brings it from where it is kept
		if err == nil {
			err = os.WriteFile(filepath.Join(restored, station.KeyFile), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s := inspan(t, "restore", dir, "--store", restored, "--new-keys"); s.code != 0 {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		for _, k := range []keychain.File{key1, key2, key3, key()} {
			without(t, dir, strings.TrimSpace(string(keychain.File{Private: k.Private}.Format())))
		}
		if s := inspan(t, "rebuild", "--store", restored); s.code != 0 { // signs the heads of runs that have ended
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		base, err := service.FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		base.SandboxReaches = true
		st, err := station.Up(t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: restored, Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		copied := &desk{t: t, dir: d.dir, station: st}
		copied.want(0, []string{"No fault in 4 runs"}, "audit", "--all")
		copied.want(0, []string{"leaked"}, "rotate", "list")
		copied.want(1, []string{"it was replaced"}, "audit", "third", "--anchor", forged("again", third, third.Seq, key1))
	})
}

// without checks that no file below a folder has a text.
func without(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), secret) {
			t.Errorf("%s has a private key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRotateCredentials(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	url, store, config := d.station.URL(), filepath.Join(d.dir, "store"), t.TempDir()
	do := func(t *testing.T, code int, has []string, args ...string) said {
		t.Helper()
		s := process(t, d.dir, []string{"XDG_CONFIG_HOME=" + config, "HOME=" + config, "INSPAN_STORE=" + store, "NATS_URL="}, args...)
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
	path := filepath.Join(config, "inspan", "keys", "default-ada.nk")
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	do(t, 0, nil, "user", "add", "ada", "--use")
	t.Run("PLUS-20c a user's key is replaced in its file: the old one is refused, and who has it is disconnected", func(t *testing.T) {
		old := filepath.Join(t.TempDir(), "old.nk")
		before := read()
		if err := os.WriteFile(old, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		if _, err := jettest.Login(t, url, old, func() { close(gone) }); err != nil {
			t.Fatal(err)
		}
		do(t, 0, []string{"Would replace"}, "rotate", "credentials", "ada", "--dry-run")
		if read() != before {
			t.Fatal("a dry run replaced it")
		}
		do(t, 0, []string{"is replaced"}, "rotate", "credentials", "ada")
		<-gone
		if read() == before {
			t.Error("the file has the old key")
		}
		if _, err := jettest.Login(t, url, old, func() {}); err == nil {
			t.Error("the old key is let in")
		}
		do(t, 0, []string{"No runs"}, "runs") // by the context, which names the file
	})
	t.Run("PLUS-20c a rotation that was killed at any point is completed by the same command", func(t *testing.T) {
		for _, point := range []string{"the new key is written", "the list has it"} {
			before := read()
			do(t, 0, nil, "rotate", "credentials", "ada")
			after := read()
			if err := os.WriteFile(path+".next", []byte(after), 0o600); err != nil { // as it was before the last step
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			if point == "the new key is written" {
				do(t, 0, nil, "rotate", "credentials", "ada", "--public-key", publicOf(t, before))
			}
			do(t, 0, nil, "rotate", "credentials", "ada", "--json")
			if read() != after {
				t.Errorf("%s: another key was made", point)
			}
			if _, err := os.Stat(path + ".next"); err == nil {
				t.Errorf("%s: the new key is still beside it", point)
			}
			do(t, 0, []string{"No runs"}, "runs")
		}
	})
	t.Run("PLUS-20c what cannot be replaced says why and changes nothing", func(t *testing.T) {
		before := do(t, 0, nil, "user", "list", "--json").out
		do(t, 5, []string{"inspan user list"}, "rotate", "credentials", "nobody")
		do(t, 5, []string{"inspan token list"}, "rotate", "credentials", "nobody", "--token")
		do(t, 2, []string{"--key names its file"}, "rotate", "credentials", "ada", "--key", filepath.Join(t.TempDir(), "none.nk"))
		do(t, 2, []string{"only one of them"}, "rotate", "credentials", "ada", "--key", "a", "--public-key", "b")
		if err := os.WriteFile(path+".next", []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
		do(t, 1, []string{"no key of a user", "remove it"}, "rotate", "credentials", "ada")
		if err := os.Remove(path + ".next"); err != nil {
			t.Fatal(err)
		}
		if after := do(t, 0, nil, "user", "list", "--json").out; after != before {
			t.Errorf("the list was %s, and is %s", before, after)
		}
	})
	t.Run("PLUS-20c a token of the gateway gets another secret, and what it may stays", func(t *testing.T) {
		old := strings.TrimSpace(do(t, 0, nil, "token", "add", "ci", "--scope", "runs:read").out)
		next := strings.TrimSpace(do(t, 0, []string{"is refused from now on"}, "rotate", "credentials", "ci", "--token").out)
		if next == "" || next == old {
			t.Errorf("%q after %q", next, old)
		}
		do(t, 0, []string{"ci", "runs:read"}, "token", "list")
	})
}

func TestRotateStationKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	store := filepath.Join(d.dir, "store")
	t.Run("PLUS-20b no one but the setup user replaces the station key", func(t *testing.T) {
		running := (&desk{t: t, dir: d.dir}).up()
		if s := inspan(t, "rotate", "station-key", "--store", store); s.code != 4 || !strings.Contains(s.err, "stop it") {
			t.Errorf("a station that runs: exit %d\n%s%s", s.code, s.out, s.err)
		}
		running.want(4, []string{"only the user setup may"}, "rotate", "station-key")
		running.anchored("before")
	})
	if s := inspan(t, "rotate", "station-key", "--store", store, "--dry-run"); s.code != 0 || !strings.Contains(s.out, "key 1") {
		t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
	}
	for want := 1; want < 3; want++ {
		s := inspan(t, "rotate", "station-key", "--store", store, "--json")
		if got := decode[map[string]any](t, s.out); s.code != 0 || got["number"] != float64(want) {
			t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	}
	d.up()
	t.Run("PLUS-20b calls say which key they began with, and old logs stay as they are", func(t *testing.T) {
		d.want(0, []string{"No fault in 1 run"}, "audit", "--all")
	})
}

func publicOf(t *testing.T, seed string) string {
	t.Helper()
	public, err := userkey.Public([]byte(strings.TrimSpace(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return public
}
