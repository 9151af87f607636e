package tokens_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/services/gateway/tokens"
)

func token(name string, scopes ...tokens.Scope) (tokens.Token, string) {
	secret, digest := tokens.New()
	return tokens.Token{Name: name, Digest: digest, Scopes: append(scopes, tokens.Read)}, secret
}

func add(t tokens.Token) func(tokens.List) (tokens.List, error) {
	return func(l tokens.List) (tokens.List, error) { return l.With(t) }
}

func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	t.Run("TRIG-3 the file has no token, and a token is found until it expires or is removed", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), tokens.File)
		ci, secret := token("ci", tokens.Write)
		ci.Expires = now.Add(time.Hour)
		l, err := tokens.Change(path, add(ci))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(b), secret) || strings.Contains(string(b), strings.TrimPrefix(secret,
			tokens.Prefix)) {
			t.Errorf("%s, %v", b, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if got, ok := l.Find(secret, now); !ok || got.Name != "ci" || !got.Has(tokens.Write) || got.Has(tokens.Answer) {
			t.Errorf("%+v, %v", got, ok)
		}
		for what, s := range map[string]string{"none": "", "another": secret + "a", "its digest": ci.Digest,
			"cut": secret[:len(secret)-1]} {
			if _, ok := l.Find(s, now); ok {
				t.Errorf("%s is taken for the token", what)
			}
		}
		if _, ok := l.Find(secret, now.Add(time.Hour)); ok {
			t.Error("it has expired")
		}
		f := tokens.Follow(path)
		if l, err := f.Now(); err != nil || len(l.Tokens) != 1 {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := tokens.Change(path, func(l tokens.List) (tokens.List, error) { return l.Without("ci") }); err != nil {
			t.Fatal(err)
		}
		if l, err := f.Now(); err != nil || len(l.Tokens) != 0 {
			t.Errorf("after it was removed: %+v, %v", l, err)
		}
		if err := os.WriteFile(path, []byte(`{"tokens":[`), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := f.Now(); err == nil || len(l.Tokens) != 0 {
			t.Errorf("a broken list: %+v, %v", l, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if l, err := f.Now(); err != nil || len(l.Tokens) != 0 {
			t.Errorf("no list: %+v, %v", l, err)
		}
	})
	t.Run("TRIG-3 tokens that are added at the same time are all there, and none twice", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), tokens.File)
		var wg sync.WaitGroup
		for n := range 8 {
			one, _ := token("t" + string(rune('a'+n)))
			wg.Go(func() {
				if _, err := tokens.Change(path, add(one)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if l, err := tokens.Load(path); err != nil || len(l.Tokens) != 8 {
			t.Errorf("%d tokens, %v", len(l.Tokens), err)
		}
		again, _ := token("ta")
		if _, err := tokens.Change(path, add(again)); !errors.Is(err, tokens.ErrThere) {
			t.Errorf("twice: %v", err)
		}
		if _, err := tokens.Change(path, func(l tokens.List) (tokens.List, error) { return l.Without("x") }); !errors.Is(err,
			tokens.ErrUnknown) {
			t.Errorf("unknown: %v", err)
		}
	})
	t.Run("SAFE-12 what is no list lets no one in", func(t *testing.T) {
		t.Parallel()
		digest := tokens.DigestOf("x")
		line := `{"name":"ci","sha256":"` + digest + `","scopes":["runs:read"],"added":"2026-01-01T00:00:00Z"}`
		for name, text := range map[string]string{
			"empty": "", "cut": `{"tokens":[` + line, "an unknown key": `{"tokens":[],"open":true}`,
			"the same twice": `{"tokens":[` + line + "," + line + `]}`,
			"a short digest": `{"tokens":[` + strings.Replace(line, digest, digest[2:], 1) + `]}`,
			"no scope":       `{"tokens":[` + strings.Replace(line, `"runs:read"`, "", 1) + `]}`,
			"another scope":  `{"tokens":[` + strings.Replace(line, "runs:read", "all", 1) + `]}`,
			"a name of two":  `{"tokens":[` + strings.Replace(line, `"ci"`, `"c i"`, 1) + `]}`,
			"too large":      `{"tokens":[` + strings.Repeat(" ", 1<<20) + `]}`,
		} {
			path := filepath.Join(t.TempDir(), tokens.File)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err := tokens.Load(path); err == nil || len(l.Tokens) != 0 {
				t.Errorf("%s: %+v, %v", name, l, err)
			}
			one, _ := token("one")
			if _, err := tokens.Change(path, add(one)); err == nil {
				t.Errorf("%s: it was changed", name)
			}
		}
	})
}
