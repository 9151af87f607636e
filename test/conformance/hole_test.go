package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// TestHole takes events out of a log, as an intruder with every right could, and compares what is left.
func TestHole(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 SAFE-15 a log with holes is read, led and extended as on one server", func(t *testing.T) {
		t.Parallel()
		ns := jettest.Server(t)
		st := jettest.OpenLog(t, ns, jettest.Connect(t, ns, jet.Config{Name: t.Name()}), "open")
		_, model := onModel(t, short)
		for _, lose := range [][]uint64{{3}, {5}, {1}, {2}, {4}} { // in the middle, the last, the first, the rest
			var got [2]string
			for i, side := range []struct {
				j    kernel.Journal
				lose func(seq uint64)
			}{{model.Journal(), model.Lose}, {st.Journal(), func(seq uint64) { jettest.Lose(t, ns, "open", seq) }}} {
				got[i] = tellHole(t, side.j, side.lose, lose[0])
			}
			if got[0] != got[1] {
				t.Errorf("without %d: the model has\n%s\nthe server\n%s", lose, got[0], got[1])
			}
		}
	})
	t.Run("SAFE-4 what is out of the log is not heard any more", func(t *testing.T) {
		t.Parallel()
		_, model := onModel(t, short)
		for i := range uint64(3) {
			model.Journal().Append(t.Context(), kernel.Entry{ID: "a", Kind: events.CallAllowed, Head: i, Bytes: fmt.Append(nil, i)})
		}
		model.Lose(2)
		ctx, stop := context.WithCancel(within(t))
		var received []uint64
		var listener sync.WaitGroup
		listener.Go(func() {
			_ = model.Inbox().Listen(ctx, events.Toolrunner, 1, func(_ context.Context, m kernel.Message) {
				received = append(received, m.Seq())
				_ = m.Ack(t.Context())
				if m.Seq() == 3 {
					stop()
				}
			})
		})
		listener.Wait()
		if !slices.Equal(received, []uint64{1, 3}) || model.Pending(events.Toolrunner) != 0 {
			t.Errorf("heard %d, %d pending; want 1 and 3, none pending", received, model.Pending(events.Toolrunner))
		}
	})
}

// tellHole appends five events, loses one, and tells what every operation on the log says then.
func tellHole(t *testing.T, j kernel.Journal, lose func(uint64), number uint64) string {
	t.Helper()
	ctx := within(t)
	run := fmt.Sprintf("run%d", number)
	var at []uint64
	head := uint64(0)
	for i := range 5 {
		ack := j.Append(ctx, kernel.Entry{ID: run, Kind: kindsSaid[i], Head: head, Bytes: fmt.Appendf(nil, "%s %d", run, i)})
		if ack.Outcome != kernel.Stored {
			t.Fatalf("append: %s (%v)", ack.Outcome, ack.Err)
		}
		head = ack.Seq
		at = append(at, head)
	}
	lose(at[number-1])
	told := ""
	for _, after := range append([]uint64{0}, at...) {
		evs, more, err := j.Read(ctx, run, after)
		told += fmt.Sprintf("read after %d: ", after)
		for _, f := range evs {
			told += fmt.Sprintf("%d=%s ", f.Seq, f.Bytes)
		}
		told += fmt.Sprintln(more, sayErr(err))
	}
	last, ok, err := j.Last(ctx, run)
	told += fmt.Sprintf("last %d=%s %v %s\n", last.Seq, last.Bytes, ok, sayErr(err))
	for _, head := range []uint64{0, at[3], at[4]} {
		told += fmt.Sprintf("append at %d: %s\n", head, sayAck(j.Append(ctx, kernel.Entry{ID: run, Kind: events.RunPaused, Head: head, Bytes: fmt.Appendf(nil, "%s after %d", run, head)})))
	}
	return told
}

// TestLimits is what both refuse for its size.
func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 SAFE-15 both take the same sizes", func(t *testing.T) {
		t.Parallel()
		model, real := onModelOnly(t), onServer(t, short)
		ctx := within(t)
		for _, size := range []int{1 << 10, 1<<20 - 200, 1<<20 + 1} {
			value := make([]byte, size)
			got, want := sayErr(real.kv.Put(ctx, "x", value)), sayErr(model.kv.Put(ctx, "x", value))
			if got != want {
				t.Errorf("a value of %d bytes: got %s, the model has %s", size, got, want)
			}
		}
		for over, want := range map[int]string{0: "ok", 2 << 10: "ok", 2<<10 + 1: "error"} {
			letter := kernel.DeadLetter{Code: "bad_input", Reason: "r", Hint: "h"}
			b, _ := json.Marshal(letter)
			letter.Data = strings.Repeat("x", events.MaxDeadLetter+over-len(b))
			for _, s := range []*side{real, model} {
				if got := sayErr(s.refusals.Refuse(ctx, events.Planner, letter)); got != want {
					t.Errorf("%s: a dead letter %d bytes above the limit: got %s, want %s", s.name, over, got, want)
				}
			}
		}
		huge := make([]byte, topology.MaxObject+1)
		_, err := real.blobs.Put(ctx, "", huge)
		_, want := model.blobs.Put(ctx, "", huge)
		if sayErr(err) != "too large" || sayErr(want) != "too large" {
			t.Errorf("an object above the limit: got %v, the model has %v, want too large", err, want)
		}
		var head [2]uint64
		for i := range 20 {
			b := make([]byte, events.MaxEvent)
			copy(b, fmt.Sprint(i))
			for k, s := range []*side{real, model} {
				ack := s.journal().Append(ctx, kernel.Entry{ID: "large", Kind: events.RunCreated, Head: head[k], Bytes: b})
				if ack.Outcome != kernel.Stored {
					t.Fatalf("%s: %s (%v)", s.name, ack.Outcome, ack.Err)
				}
				head[k] = ack.Seq
			}
		}
		for after := uint64(0); ; {
			got, more, err := real.journal().Read(ctx, "large", after)
			want, wantMore, wantErr := model.journal().Read(ctx, "large", after)
			if err != nil || wantErr != nil || len(got) != len(want) || more != wantMore {
				t.Fatalf("read after %d: got %d events, more %v (%v); the model has %d, %v (%v)", after, len(got), more, err, len(want), wantMore, wantErr)
			}
			if !more {
				break
			}
			after = lastSeq(got)
		}
	})
}

func onModelOnly(t *testing.T) *side {
	s, _ := onModel(t, short)
	return s
}
