package streaming_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/streaming"
)

// seen decodes what a channel has taken so far.
func said(t *testing.T, ch <-chan streaming.Replay) (all []streaming.Message) {
	t.Helper()
	for {
		select {
		case s := <-ch:
			var m streaming.Message
			if err := json.Unmarshal(s.Data, &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		default:
			return all
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	t.Run("OBS-9 tokens are gathered, numbered and end with done", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ch := make(chan streaming.Replay, 100)
			s := streaming.New(streaming.Channel(ch)).Open("r", streaming.About{Step: "s", Turn: 3, Attempt: 2})
			s.Write(streaming.Token, "", "first ")
			if got := said(t, ch); len(got) != 1 || got[0].Content != "first " || got[0].N != 1 || got[0].Event != "token" {
				t.Fatalf("the first text waits: %+v", got)
			}
			for range 10 {
				s.Write(streaming.Token, "", "ab")
			}
			if got := said(t, ch); len(got) != 0 {
				t.Fatalf("%d messages before the time of a batch", len(got))
			}
			<-time.After(streaming.BatchTime)
			synctest.Wait()
			s.Done(nil)
			got := said(t, ch)
			if len(got) != 2 || got[0].Content != strings.Repeat("ab", 10) || got[0].At != 6 || got[0].N != 2 {
				t.Fatalf("want one batch and the end, got %+v", got)
			}
			if m := got[1]; !m.Done || m.Event != "token" || m.N != 3 || m.At != 26 || m.Turn != 3 || m.Attempt != 2 || m.Step != "s" {
				t.Fatalf("the end is %+v", m)
			}
			s.Close()
		})
	})
	t.Run("OBS-10 thinking is an event of its own, and an error ends the attempt", func(t *testing.T) {
		t.Parallel()
		ch := make(chan streaming.Replay, 100)
		s := streaming.New(streaming.Channel(ch)).Open("r", streaming.About{Step: "s", Turn: 1})
		s.Write(streaming.Thinking, "", "hm")
		s.Write(streaming.Token, "", "yes")
		s.Done(errors.New("cut"))
		got := said(t, ch)
		if len(got) != 3 || got[0].Event != "thinking" || got[0].Content != "hm" || got[1].Event != "token" || got[1].Content != "yes" || got[2].Event != "error" || got[2].Error != "cut" || !got[2].Done {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("characters are never cut, large chunks are", func(t *testing.T) {
		t.Parallel()
		ch := make(chan streaming.Replay, 100)
		s := streaming.New(streaming.Channel(ch)).Open("r", streaming.About{Call: "c1", Tool: "bash"})
		s.Write(streaming.ToolOutput, "stdout", "a\xc3")
		s.Write(streaming.ToolOutput, "stdout", "\xa4b")
		s.Write(streaming.ToolOutput, "stderr", strings.Repeat("ö", streaming.MaxPart))
		s.Done(nil)
		var out, errs string
		for _, m := range said(t, ch) {
			if len(m.Content) > streaming.MaxPart {
				t.Errorf("a message of %d bytes", len(m.Content))
			}
			switch m.Output {
			case "stdout":
				out += m.Content
			case "stderr":
				errs += m.Content
			}
		}
		if out != "aäb" || errs != strings.Repeat("ö", streaming.MaxPart) {
			t.Errorf("stdout %q, %d bytes of stderr", out, len(errs))
		}
	})
	t.Run("what is kept is bounded, and who comes late is told", func(t *testing.T) {
		t.Parallel()
		f := streaming.New(streaming.None{})
		s := f.Open("r", streaming.About{Step: "s", Turn: 1})
		const all = 3 * streaming.MaxReplay
		for range all / 1000 {
			s.Write(streaming.Token, "", strings.Repeat("x", 999)+"\n")
		}
		kept, first := 0, streaming.Piece{}
		j := streaming.NewJoiner(func(p streaming.Piece) {
			if kept == 0 {
				first = p
			}
			kept += len(p.Content)
		})
		for _, b := range f.SoFar("r") {
			j.Take(b)
		}
		if kept > streaming.MaxReplay || kept < streaming.MaxReplay-2*streaming.BatchBytes || !first.Missed || first.At+int64(kept) != all/1000*1000 {
			t.Errorf("%d bytes are kept, the first is at %d, missed %t", kept, first.At, first.Missed)
		}
	})
	t.Run("several publishers, none, and a channel that is full", func(t *testing.T) {
		t.Parallel()
		one, other := make(chan streaming.Replay, 1), make(chan streaming.Replay, 9)
		s := streaming.New(streaming.Several{streaming.Channel(one), streaming.None{}, streaming.Channel(other)}).Open("r", streaming.About{Step: "s"})
		s.Write(streaming.Token, "", "a")
		s.Write(streaming.Thinking, "", "b")
		s.Done(nil)
		if a, b := said(t, one), said(t, other); len(a) != 1 || len(b) != 3 {
			t.Errorf("%d and %d messages, want 1 and 3", len(a), len(b))
		}
		streaming.New(nil).Open("r", streaming.About{}).Write(streaming.Token, "", "no one hears")
	})
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-8 what came of an attempt before is to be forgotten, whenever it comes", func(t *testing.T) {
		t.Parallel()
		ch := make(chan streaming.Replay, 100)
		f := streaming.New(streaming.Channel(ch))
		first := f.Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 1})
		second := f.Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 2})
		var got []string
		j := streaming.NewJoiner(func(p streaming.Piece) {
			if p.Again {
				got = append(got, "again")
			}
			got = append(got, p.Content)
		})
		take := func() {
			for {
				select {
				case s := <-ch:
					j.Take(s.Data)
				default:
					return
				}
			}
		}
		first.Write(streaming.Token, "", "wro")
		take()
		second.Write(streaming.Token, "", "right")
		take()
		first.Write(streaming.Thinking, "", "ng")
		first.Done(errors.New("cut"))
		take()
		if want := []string{"wro", "again", "", "right"}; strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
	t.Run("PLUS-8 an attempt takes the place of the one before also where another step took the turn's number in between", func(t *testing.T) {
		t.Parallel()
		ch := make(chan streaming.Replay, 100)
		f := streaming.New(streaming.Channel(ch))
		var got []string
		j := streaming.NewJoiner(func(p streaming.Piece) {
			if p.Again {
				got = append(got, "again")
			}
			got = append(got, p.Content)
		})
		for i, text := range []string{"wrong", "right", "next"} {
			about := streaming.About{Step: "s", Turn: 1 + i, Attempt: 1 + i, Owed: 7}
			if text == "next" {
				about.Owed, about.Attempt = 9, 1
			}
			f.Open("r", about).Write(streaming.Token, "", text)
			m := <-ch
			j.Take(m.Data)
		}
		if want := "wrong|again||right|next"; strings.Join(got, "|") != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
	t.Run("what was kept fills holes of streams that are known, and brings back none that are not", func(t *testing.T) {
		t.Parallel()
		ch := make(chan streaming.Replay, 100)
		f := streaming.New(streaming.Channel(ch))
		old := f.Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 1})
		old.Write(streaming.Token, "", "old")
		now := f.Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 1})
		now.Write(streaming.Token, "", "one ")
		now.Write(streaming.Thinking, "", "two")
		kept := [][]byte{(<-ch).Data, (<-ch).Data, (<-ch).Data}
		var got strings.Builder
		j := streaming.NewJoiner(func(p streaming.Piece) { got.WriteString(p.Content) })
		j.Take(kept[2])
		if !j.Waiting() {
			t.Fatal("it does not see that something is missing")
		}
		for _, b := range kept {
			j.Fill(b)
		}
		if got.String() != "one two" || j.Waiting() {
			t.Errorf("heard %q", got.String())
		}
	})
	t.Run("where no one answers, the stream goes on behind the hole and says so", func(t *testing.T) {
		t.Parallel()
		var got []streaming.Piece
		j := streaming.NewJoiner(func(p streaming.Piece) { got = append(got, p) })
		for _, m := range []streaming.Message{{Event: streaming.Token, ID: "x", N: 2, At: 5, Content: "b"}, {Event: streaming.Token, ID: "x", N: 3, At: 6, Content: "c"}} {
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			j.Take(b)
		}
		if len(got) != 0 || !j.Waiting() {
			t.Fatalf("%d pieces before what comes first", len(got))
		}
		j.GiveUp()
		if len(got) != 2 || !got[0].Missed || got[1].Missed || j.Waiting() {
			t.Fatalf("got %+v", got)
		}
	})
}

// BenchmarkToken is what one token of a model costs the executor while it streams.
func BenchmarkToken(b *testing.B) {
	b.ReportAllocs()
	s := streaming.New(streaming.None{}).Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 1})
	for b.Loop() {
		s.Write(streaming.Token, "", "word ")
	}
}

// BenchmarkTokenOff is the same where streaming is off.
func BenchmarkTokenOff(b *testing.B) {
	b.ReportAllocs()
	s := streaming.New(nil).Open("r", streaming.About{Step: "s", Turn: 1, Attempt: 1})
	for b.Loop() {
		s.Write(streaming.Token, "", "word ")
	}
}
