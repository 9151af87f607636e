package streaming

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counter counts what is published.
type counter struct {
	messages, bytes int
	all             [][]byte
}

func (c *counter) Publish(_ string, data []byte) {
	c.messages++
	c.bytes += len(data)
	c.all = append(c.all, data)
}

func TestRate(t *testing.T) {
	t.Parallel()
	const seconds = 4
	flood := func(t *testing.T, write func(s *Stream, n int)) *counter {
		t.Helper()
		out := &counter{}
		f := New(out)
		s := f.Open("r", About{Call: "c", Tool: "bash"})
		for i := range seconds * 1000 {
			write(s, i)
			<-time.After(time.Millisecond)
		}
		s.Write(ToolOutput, "stdout", "the end\n")
		s.Done(nil)
		most := BurstBytes + (seconds+1)*RateBytes
		if text := out.bytes - out.messages*400; out.messages > most/MessageCost || text > most {
			t.Errorf("%d messages of %d bytes were said in %d s", out.messages, out.bytes, seconds)
		}
		late := 0
		j := NewJoiner(func(p Piece) { late += len(p.Content) })
		for _, m := range f.SoFar("r") {
			j.Take(m)
		}
		if late == 0 || late > MaxReplay+MaxPart {
			t.Errorf("who comes late is told %d bytes", late)
		}
		s.Close()
		return out
	}
	t.Run("OBS-12 the output of a tool that floods is said at a bounded rate, in order, with what is missing told and its end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			chunk := strings.Repeat("x", 31<<10) + "ü"
			out := flood(t, func(s *Stream, _ int) { s.Write(ToolOutput, "stdout", chunk) })
			var last Piece
			missed, received, end := false, "", int64(0)
			j := NewJoiner(func(p Piece) {
				missed = missed || p.Missed
				if p.At < end {
					t.Errorf("at %d after %d", p.At, end)
				}
				end = p.end()
				received += p.Content
				last = p
			})
			for _, m := range out.all {
				if !json.Valid(m) {
					t.Fatalf("%q", m)
				}
				j.Take(m)
			}
			if !missed || !last.Done || !strings.HasSuffix(received, "the end\n") || strings.Contains(received, "\uFFFD") || j.Waiting() {
				t.Errorf("missed %v, done %v, %d bytes heard", missed, last.Done, len(received))
			}
		})
	})
	t.Run("OBS-12 a tool that writes to both its outputs in turns, byte by byte, does not flood either", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			flood(t, func(s *Stream, n int) {
				for range 50 {
					s.Write(ToolOutput, []string{"stdout", "stderr"}[n%2], "x")
					n++
				}
			})
		})
	})
	t.Run("OBS-9 what a model writes is said whole", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			out := &counter{}
			s := New(out).Open("r", About{Turn: 1})
			text := strings.Repeat("word ", 1<<20/5)
			s.Write(Token, "", text)
			s.Done(nil)
			received := 0
			j := NewJoiner(func(p Piece) { received += len(p.Content) })
			for _, m := range out.all {
				j.Take(m)
			}
			if received != len(text) {
				t.Errorf("%d of %d bytes", received, len(text))
			}
		})
	})
}
