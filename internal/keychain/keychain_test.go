package keychain_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

var at = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func id(n byte) string { return run.KeyID(public(n)) }

// rotated are links that replace key 1 by 2, 2 by 3 and so on.
func rotated(to byte) (links []events.KeyLink) {
	for n := byte(1); n < to; n++ {
		links = append(links, keychain.Replace("s", events.KeyWasRotated, key(n), key(n+1), 0, at))
	}
	return links
}

// placed are links at the positions 10, 20 and so on.
func placed(links ...events.KeyLink) (chain []keychain.Link) {
	for i, l := range links {
		chain = append(chain, keychain.Link{KeyLink: l, Seq: uint64(10 * (i + 1))})
	}
	return chain
}

func added(t *testing.T, s keychain.State, links ...events.KeyLink) keychain.State {
	t.Helper()
	s, err := keychain.Add("s", s, links, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ids(keys []ed25519.PublicKey) (names []string) {
	for _, k := range keys {
		names = append(names, run.KeyID(k))
	}
	slices.Sort(names)
	return names
}

func TestAdd(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-20a links are brought once, whoever brings them and however often", func(t *testing.T) {
		t.Parallel()
		s := added(t, keychain.State{}, rotated(3)...)
		if len(s.Changes()) != 2 || s.Current() != audit.FormatPublic(key(3)) || !s.Signs(s.Current()) || s.Signs(audit.FormatPublic(key(2))) {
			t.Errorf("%d changes, %s in force", len(s.Changes()), keychain.ID(s.Current()))
		}
		if again := added(t, s, rotated(3)...); len(again.Changes()) != 2 {
			t.Errorf("brought again: %d changes", len(again.Changes()))
		}
		if half := added(t, added(t, keychain.State{}, rotated(2)...), rotated(4)...); len(half.Changes()) != 3 {
			t.Errorf("the rest of a file that the log had a part of: %d changes", len(half.Changes()))
		}
	})
	t.Run("PLUS-20a where none was replaced any key signs", func(t *testing.T) {
		t.Parallel()
		if s := (keychain.State{}); !s.Signs("x") || s.Knows("x") {
			t.Error("a station without a chain refuses a key")
		}
	})
	t.Run("PLUS-20a what does not follow is refused", func(t *testing.T) {
		t.Parallel()
		s := added(t, keychain.State{}, rotated(3)...)
		forged := keychain.Replace("s", events.KeyWasRotated, key(3), key(9), 0, at)
		forged.New = audit.FormatPublic(key(8))
		unsigned := keychain.Replace("s", events.KeyHasLeaked, key(3), key(9), 0, at)
		unsigned.Reason = events.KeyWasRotated
		for name, c := range map[string]struct {
			link events.KeyLink
			want error
		}{
			"a key that is not in force": {keychain.Replace("s", events.KeyWasRotated, key(2), key(9), 0, at), keychain.ErrOrder},
			"the way back":               {keychain.Replace("s", events.KeyWasRotated, key(3), key(1), 0, at), keychain.ErrOrder},
			"another station":            {keychain.Replace("other", events.KeyWasRotated, key(3), key(9), 0, at), keychain.ErrSignature},
			"another key":                {forged, keychain.ErrSignature},
			"no signature of the old":    {unsigned, keychain.ErrSignature},
			"an unknown reason":          {keychain.Replace("s", "because", key(3), key(9), 0, at), keychain.ErrOrder},
			"an end without a leak":      {keychain.Replace("s", events.KeyWasRotated, key(3), key(9), 5, at), keychain.ErrOrder},
			"itself":                     {keychain.Replace("s", events.KeyWasRotated, key(3), key(3), 0, at), keychain.ErrOrder},
		} {
			next, err := keychain.Add("s", s, []events.KeyLink{c.link}, at)
			if name == "itself" && err == nil && len(next.Changes()) == 2 {
				continue // it is known, and changes nothing
			}
			if !errors.Is(err, c.want) || len(next.Changes()) != 2 {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("PLUS-20a a key that is lost is named by the log", func(t *testing.T) {
		t.Parallel()
		s := added(t, added(t, keychain.State{}, rotated(2)...), keychain.Replace("s", events.KeyIsLost, nil, key(7), 0, at))
		if last := s.Links[1]; last.Old != audit.FormatPublic(key(2)) || keychain.Check("s", last) != nil {
			t.Errorf("%+v, %v", last, keychain.Check("s", last))
		}
	})
	t.Run("PLUS-20a the fold refuses a link out of order", func(t *testing.T) {
		t.Parallel()
		for name, d := range map[string]*events.KeyRotatedData{
			"a number too far":  {Number: 2, KeyLink: rotated(2)[0]},
			"one that was used": {Number: 2, KeyLink: keychain.Replace("s", events.KeyWasRotated, key(2), key(1), 0, at)},
		} {
			s := keychain.State{}
			if d.Number == 2 && name != "a number too far" {
				s = added(t, s, rotated(2)...)
			}
			if _, err := keychain.Aggregate().Apply(s, events.Event{Subject: events.KeysID, Sequence: 2, Time: at}, d, "h"); err == nil {
				t.Errorf("%s folds", name)
			}
		}
	})
}

func TestTrust(t *testing.T) {
	t.Parallel()
	trust := func(t *testing.T, given []ed25519.PublicKey, chain ...keychain.Link) keychain.Trusted {
		t.Helper()
		all, err := keychain.Trust("s", given, nil, chain)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	leak := keychain.Replace("s", events.KeyHasLeaked, key(3), key(4), 0, at)
	lost := keychain.Replace("s", events.KeyIsLost, nil, key(5), 0, at)
	lost.Old = audit.FormatPublic(key(4))
	for name, c := range map[string]struct {
		given []ed25519.PublicKey
		chain []keychain.Link
		want  []string
	}{
		"PLUS-20a whoever knows the first key trusts those that it certified":   {[]ed25519.PublicKey{public(1)}, placed(rotated(4)...), []string{id(1), id(2), id(3), id(4)}},
		"PLUS-20a whoever knows the last key trusts those before it":            {[]ed25519.PublicKey{public(4)}, placed(rotated(4)...), []string{id(1), id(2), id(3), id(4)}},
		"PLUS-20a whoever knows one in the middle trusts all":                   {[]ed25519.PublicKey{public(2)}, placed(rotated(4)...), []string{id(1), id(2), id(3), id(4)}},
		"PLUS-20a a key that leaked certifies none":                             {[]ed25519.PublicKey{public(1)}, placed(append(rotated(3), leak)...), []string{id(1), id(2), id(3)}},
		"PLUS-20a the key after a leak says up to where the old one was good":   {[]ed25519.PublicKey{public(4)}, placed(append(rotated(3), leak)...), []string{id(1), id(2), id(3), id(4)}},
		"PLUS-20a no one vouches for the name of a key that was lost":           {[]ed25519.PublicKey{public(5)}, placed(append(rotated(3), leak, lost)...), []string{id(5)}},
		"PLUS-20a without a key the chain of the station is taken":              {nil, placed(append(rotated(3), leak, lost)...), []string{id(1), id(2), id(3), id(4), id(5)}},
		"PLUS-20a a stranger's key leads nowhere":                               {[]ed25519.PublicKey{public(77)}, placed(rotated(4)...), []string{id(77)}},
		"PLUS-20a a station that replaced none is trusted as it says by itself": {[]ed25519.PublicKey{public(1)}, nil, []string{id(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := trust(t, c.given, c.chain...)
			if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(ids(got.Keys), want) {
				t.Errorf("got %v, want %v", ids(got.Keys), want)
			}
		})
	}
	t.Run("PLUS-20a a key ends where it was replaced, and one that leaked where the operator says", func(t *testing.T) {
		t.Parallel()
		early := keychain.Replace("s", events.KeyHasLeaked, key(3), key(4), 23, at)
		late := keychain.Replace("s", events.KeyHasLeaked, key(4), key(5), 999, at)
		got := trust(t, nil, placed(append(rotated(3), early, late)...)...)
		if want := map[string]uint64{id(1): 10, id(2): 20, id(3): 23, id(4): 40}; fmt.Sprint(got.Ends) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got.Ends, want)
		}
	})
	t.Run("PLUS-20a a link that was changed is an error, not a key less", func(t *testing.T) {
		t.Parallel()
		chain := placed(rotated(3)...)
		chain[1].At = "2020-01-01T00:00:00Z"
		if _, err := keychain.Trust("s", nil, nil, chain); !errors.Is(err, keychain.ErrSignature) || !strings.Contains(err.Error(), "position 20") {
			t.Errorf("got %v", err)
		}
	})
}

func TestFile(t *testing.T) {
	t.Parallel()
	f := keychain.File{Private: key(3), Links: rotated(3)}
	t.Run("PLUS-20a a file of a key is read as it was written, and its first line is the key of a setting", func(t *testing.T) {
		t.Parallel()
		got, err := keychain.ParseFile(string(f.Format()))
		if err != nil || !got.Private.Equal(f.Private) || len(got.Links) != 2 || got.Public() != f.Public() {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, l := range got.Links {
			if err := keychain.Check("s", l); err != nil {
				t.Error(err)
			}
		}
		if seed, err := audit.ParsePrivate(string(f.Format())); err != nil || !seed.Equal(f.Private) {
			t.Error(err)
		}
	})
	t.Run("PLUS-20a a file that lacks any of its bytes is damaged, unless whole links are missing at its end", func(t *testing.T) {
		t.Parallel()
		whole := f.Format()
		for n := range whole {
			got, err := keychain.ParseFile(string(whole[:n]))
			if err == nil && len(got.Links) > 0 && n < len(whole)-1 {
				t.Errorf("%d of %d bytes are read, with %d links", n, len(whole), len(got.Links))
			}
			if err != nil && !errors.Is(err, keychain.ErrFile) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

func TestRing(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-20b a key keeps its number, whatever comes after it", func(t *testing.T) {
		t.Parallel()
		value := []byte("first")
		for n := 1; n < 4; n++ {
			r, err := keychain.ReadRing(value, nil)
			if err != nil {
				t.Fatal(err)
			}
			if value, err = r.With(fmt.Sprint("key", n), at); err != nil {
				t.Fatal(err)
			}
			if r, err = keychain.ReadRing(value, nil); err != nil || r.Newest() != n {
				t.Fatalf("newest is %d, want %d: %v", r.Newest(), n, err)
			}
			for number, want := range []string{"first", "key1", "key2", "key3"}[:n+1] {
				if got, err := r.Key(number); err != nil || string(got) != want {
					t.Errorf("key %d is %q, %v", number, got, err)
				}
			}
			if _, err := r.Key(n + 1); !errors.Is(err, keychain.ErrNoNumber) {
				t.Errorf("a number that is not there: %v", err)
			}
		}
	})
	t.Run("PLUS-20b a key that is a setting is the first one, and never stored", func(t *testing.T) {
		t.Parallel()
		r, err := keychain.ReadRing(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		value, err := r.With("second", at)
		if err != nil {
			t.Fatal(err)
		}
		r, err = keychain.ReadRing(value, []byte("setting"))
		if err != nil || bytes.Contains(value, []byte("setting")) {
			t.Fatalf("%s, %v", value, err)
		}
		if first, err := r.Key(0); err != nil || string(first) != "setting" {
			t.Errorf("%s, %v", first, err)
		}
		if r, err = keychain.ReadRing(value, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Key(0); !errors.Is(err, keychain.ErrNoNumber) {
			t.Errorf("without the setting: %v", err)
		}
	})
	t.Run("PLUS-20b what is no ring is an error, and no key", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"{", `{"keys":[]}`, `{"keys":[{"key":"a"}]}`, `{"keys":7}`} {
			if _, err := keychain.ReadRing([]byte(text), nil); !errors.Is(err, keychain.ErrNoRing) {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}
