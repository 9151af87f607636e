package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// door is a log that does not answer while it is shut.
type endpoint struct {
	kernel.Journal
	shut atomic.Bool
}

var errShut = errors.New("the log is away")

func (d *endpoint) answers(context.Context) error {
	if d.shut.Load() {
		return errShut
	}
	return nil
}

func (d *endpoint) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if d.shut.Load() {
		return kernel.Ack{Outcome: kernel.Unknown, Err: errShut}
	}
	return d.Journal.Append(ctx, e)
}

// drawn draws a legal history of a run. The warning of a fallback is left out: a fallback alone says it.
func drawn(t *rapid.T, id string) *runtest.Builder {
	b := runtest.New("test", id)
	for range rapid.IntRange(1, 40).Draw(t, "facts") {
		var moves []events.Payload
		for _, m := range runtest.Moves(b.State()) {
			if m.Kind() != events.CheckpointFallback {
				moves = append(moves, m)
			}
		}
		if len(moves) == 0 {
			break
		}
		b.Append(rapid.SampledFrom(moves).Draw(t, "move"))
	}
	return b
}

// persist appends events to a log, and returns the position of the last one.
func persist(t *rapid.T, j kernel.Journal, id string, head uint64, evs [][]byte) uint64 {
	for _, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := f.Kind()
		ack := j.Append(context.Background(), kernel.Entry{ID: id, Kind: kind, Bytes: b, Head: head})
		if ack.Outcome != kernel.Stored {
			t.Fatalf("event %d: %s, %v", f.Sequence, ack.Outcome, ack.Err)
		}
		head = ack.Seq
	}
	return head
}

// restore folds what a log has of a run.
func restore(t *rapid.T, j kernel.Journal, id string, from run.State, after uint64) run.State {
	for more := true; more; {
		var page []kernel.Record
		var err error
		if page, more, err = j.Read(context.Background(), id, after); err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if from, err = from.Apply(r.Bytes); err != nil {
				t.Fatal(err)
			}
			after = r.Seq
		}
	}
	return from
}

func same(t *rapid.T, how string, got, want run.State) {
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v, want %+v", how, got, want)
	}
}

// shelves are where snapshots are kept in the forms that a station writes there.
func kvs(state, local kernel.KV, blobs kernel.Blobs) map[string]*snapshot.Store {
	return map[string]*snapshot.Store{
		"primary, binary": {KV: state, Blobs: blobs, Form: snapshot.FormBinary},
		"primary, JSON":   {KV: state, Blobs: blobs, Form: snapshot.FormJSON},
		"fallback, JSON":  {KV: local, Form: snapshot.FormJSON},
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	server := jettest.Server(t, func(c *natsserver.Config) { c.LazySync = true })
	st := jettest.Station(t, jettest.Connect(t, server, jet.Config{}), "test", jet.ApplyOptions{Replicas: 1})
	local, err := localstore.Open(t.Context(), localstore.Config{Path: filepath.Join(t.TempDir(), "local.bolt"), Station: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	beside, err := localstore.Open(t.Context(), localstore.Config{Path: filepath.Join(t.TempDir(), "fallback.bolt"), Station: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = beside.Close() })
	log := &endpoint{Journal: st.Journal()}
	f, err := localstore.NewFallback(t.Context(), beside, localstore.Primary{Journal: log, Inbox: st.Inbox(), Timers: st.Timers(), Blobs: st.Blobs(), Refusals: st.Refusals(), Answers: log.answers})
	if err != nil {
		t.Fatal(err)
	}
	stores := kvs(st.KV(topology.StateBucket), local.KV(topology.StateBucket), st.Blobs())
	n := 0
	t.Run("PROP-5 PERS-2 Feature: agent-harnesses, Property 5: persist then restore is an identity, over the primary store and the fallback", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			n++
			id := fmt.Sprintf("r%d", n)
			b := drawn(t, id)
			evs, want := b.Events(), b.State()
			heads := map[string]uint64{"primary": persist(t, st.Journal(), id, 0, evs), "fallback": persist(t, local.Journal(), id, 0, evs)}
			same(t, "the primary log", restore(t, st.Journal(), id, run.State{}, 0), want)
			same(t, "the log in the local store", restore(t, local.Journal(), id, run.State{}, 0), want)
			at := rapid.IntRange(1, len(evs)).Draw(t, "snapshot at")
			part, err := run.Fold(run.State{}, evs[:at]...)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range stores {
				if err := s.Save(context.Background(), want, heads["primary"]); err != nil {
					t.Fatal(err)
				}
				got, head, ok := s.Latest(context.Background(), id)
				if !ok || head != heads["primary"] {
					t.Fatalf("%s: head %d, %v", name, head, ok)
				}
				same(t, name, got, want)
				if err := s.Save(context.Background(), part, 1); err != nil {
					t.Fatal(err)
				}
				got, _, _ = s.Latest(context.Background(), id)
				if got, err = run.Fold(got, evs[at:]...); err != nil {
					t.Fatal(err)
				}
				same(t, name+" and the events behind it", got, want)
			}
		})
	})
	t.Run("PERS-4 PERS-5 what a fallback takes is the same state there and, once home, in the log", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			n++
			id := fmt.Sprintf("f%d", n)
			evs := drawn(t, id).Events()
			at := rapid.IntRange(1, len(evs)).Draw(t, "away behind")
			fork := persist(t, f, id, 0, evs[:at])
			before := restore(t, f, id, run.State{}, 0)
			log.shut.Store(true)
			defer log.shut.Store(false)
			want := before
			if at < len(evs) {
				persist(t, f, id, fork, evs[at:at+1])
				want = restore(t, f, id, before, fork)
				if warned := want.Sequence - before.Sequence; warned != 2 && !want.Status.Ended() {
					t.Fatalf("%d events were kept, want the one and its warning", warned)
				}
			}
			log.shut.Store(false)
			if err := f.Settle(context.Background()); err != nil {
				t.Fatal(err)
			}
			same(t, "the log that is back", restore(t, st.Journal(), id, run.State{}, 0), want)
		})
	})
}
