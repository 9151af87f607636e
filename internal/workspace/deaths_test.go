package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

func TestDeaths(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			l := newLab(t)
			f := &fate{at: at, done: done}
			a := l.at("a", f)
			kept, broken, err := work(t, a, 1)
			if f.n < at {
				if at < 18 {
					t.Fatalf("only %d operations: there are not so few", f.n)
				}
				break
			}
			t.Run(fmt.Sprintf("WS-3 SAFE-8 the owner dies at operation %d, done %v", at, done), func(t *testing.T) {
				l.kill("a")
				b := l.at("b", nil)
				v, entered := b.Enter(t.Context(), demo, "r1")
				if entered != nil {
					t.Fatalf("after %v: %v", err, entered)
				}
				got := stateOf(t, v.Dir())
				if got != kept && got != kept+1 || got == kept+1 && err == nil {
					t.Fatalf("the other has state %d, %d was kept (%v)", got, kept, err)
				}
				before := l.record(demo)
				f.at, f.gone = 0, false // it was only paused, and wakes up
				if broken != nil {
					become(t, broken.Dir(), states[0])
					if err := broken.Keep(t.Context(), "late"); !errors.Is(err, ErrLost) {
						t.Errorf("the former owner keeps what it did: %v", err)
					}
					broken.Leave()
				}
				var busy *BusyError
				if _, err := a.Enter(t.Context(), demo, "r2"); !errors.As(err, &busy) || busy.Owner != "b" {
					t.Errorf("the former owner comes in again: %v", err)
				}
				if err := a.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if after := l.record(demo); after.Fence != before.Fence || after.Snapshot != before.Snapshot || after.Owner != "b" || stateOf(t, v.Dir()) != got {
					t.Errorf("it changed %+v to %+v", before, after)
				}
				v.Leave()
				if end, _, err := work(t, b, got+1); err != nil || end != len(states)-1 {
					t.Errorf("the other does not go on: state %d, %v", end, err)
				}
			})
		}
	}
}

func TestDeathsOfTheSecond(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			l := newLab(t)
			if _, _, err := work(t, l.at("a", nil), 1); err != nil {
				t.Fatal(err)
			}
			l.kill("a")
			f := &fate{at: at, done: done}
			v, err := l.at("b", f).Enter(t.Context(), demo, "r1")
			if f.n < at {
				if at < 6 {
					t.Fatalf("only %d operations: there are not so few", f.n)
				}
				break
			}
			t.Run(fmt.Sprintf("WS-3 who takes over dies at operation %d of it, done %v", at, done), func(t *testing.T) {
				if err == nil || v != nil {
					t.Fatal("it came in")
				}
				l.kill("b")
				v, err := l.at("c", nil).Enter(t.Context(), demo, "r1")
				if err != nil {
					t.Fatal(err)
				}
				if got := stateOf(t, v.Dir()); got != len(states)-1 {
					t.Errorf("the third has state %d", got)
				}
				if v.News(t.Context()) == "" || v.News(t.Context()) != "" {
					t.Error("agents are not told once that a machine was lost")
				}
			})
		}
	}
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			l := newLab(t)
			f := &fate{at: at, done: done, once: true}
			a := l.at("a", f)
			kept, v, err := work(t, a, 1)
			if f.n < at {
				break
			}
			t.Run(fmt.Sprintf("SAFE-4 the answer to operation %d is lost, done %v", at, done), func(t *testing.T) {
				if v != nil {
					if again := v.Keep(t.Context(), "again"); again != nil {
						t.Fatalf("after %v: %v", err, again)
					}
					v.Leave()
					kept++
				}
				if end, _, err := work(t, a, kept+1); err != nil || end != len(states)-1 {
					t.Fatalf("state %d, %v", end, err)
				}
				if err := a.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				other, err := l.at("b", nil).Enter(t.Context(), demo, "r1")
				if err != nil || stateOf(t, other.Dir()) != len(states)-1 {
					t.Errorf("%v, state %d", err, stateOf(t, other.Dir()))
				}
			})
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if _, _, err := work(t, l.at("a", nil), 1); err != nil {
		t.Fatal(err)
	}
	l.kill("a")
	rec := l.record(demo)
	if len(rec.Packs) != 2 {
		t.Fatalf("%d packs, want a chain that was made short", len(rec.Packs))
	}
	b := l.at("b", nil)
	for _, p := range rec.Packs {
		ref := p.Parts[0]
		whole, err := l.st.Blobs().Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"cut": whole[:len(whole)-1], "changed": bytes.Replace(whole, []byte("1"), []byte("9"), 1), "empty": nil} {
			t.Run("WS-3 a pack that is "+name+" is a clear failure and never half a tree", func(t *testing.T) {
				if bytes.Equal(whole, data) {
					data = append(bytes.Clone(whole), ' ')
				}
				l.st.DamageBlob(ref.SHA256, data)
				v, err := b.Enter(t.Context(), demo, "r1")
				if !errors.Is(err, ErrDamaged) || v != nil {
					t.Fatalf("%v", err)
				}
				if now := l.record(demo); now.Owner != "" || now.Snapshot != rec.Snapshot {
					t.Errorf("%+v", now)
				}
				if left, err := filepath.Glob(filepath.Join(b.cfg.Root, treesDir, "*", "*")); err != nil || len(left) > 0 {
					t.Errorf("it left %v, %v", left, err)
				}
			})
		}
		l.st.DamageBlob(ref.SHA256, whole)
	}
	t.Run("WS-3 what was fixed is restored", func(t *testing.T) {
		v, err := b.Enter(t.Context(), demo, "r1")
		if err != nil || stateOf(t, v.Dir()) != len(states)-1 {
			t.Fatal(err)
		}
	})
}
