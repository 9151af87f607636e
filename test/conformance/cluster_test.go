//go:build slow

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// cluster is three servers, and stations as seen from the first two: the third may be stopped.
type cluster struct {
	group *jettest.Group
	conns []*jet.Conn
}

func three(t *testing.T) *cluster {
	t.Helper()
	g := &cluster{group: jettest.Cluster(t, 3)}
	for i := range 2 {
		g.conns = append(g.conns, jettest.Connect(t, g.group.Server(i), jet.Config{Name: t.Name()}))
	}
	return g
}

func (g *cluster) side(t *testing.T, name, station string, w terms) *side {
	t.Helper()
	var seen []*jet.Station
	for _, c := range g.conns {
		seen = append(seen, jettest.Station(t, c, station, jet.ApplyOptions{Replicas: 3, AckWait: w.ackWait, LeaseTerm: w.lease}))
	}
	return sideOf(name, w, seen...)
}

// until waits until as many operations have ended, or ctx.
func until(ctx context.Context, made func() int, n int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for made() < n && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// stepDown has leaders step down and counts them.
type stepDown struct {
	t     *testing.T
	g     *cluster
	mu    sync.Mutex
	count int // guarded by mu
}

func (d *stepDown) stream(name, to string) {
	if err := d.g.group.StepDown(0, name, to); err != nil {
		d.t.Logf("step down: %v", err) // there was no leader: trouble enough
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
}

// all has the leaders of a stream and of its consumers step down.
func (d *stepDown) all(stream string) {
	d.stream(stream, "")
	for _, role := range events.Services() {
		_ = d.g.group.StepDownConsumer(0, stream, string(role)) // not every role hears this stream
	}
}

// troubles has the leader of a log step down now and then, and once leads with the third server and stops it in the
// middle; restarted is closed when it is back. total is the number of operations that will be made.
func (d *stepDown) troubles(station string, total int, stopped, restarted chan struct{}) func(ctx context.Context, made func() int) {
	stream := topology.Log(station)
	return func(ctx context.Context, made func() int) {
		defer close(restarted)
		for part := 1; part <= 4; part++ {
			until(ctx, made, part*total/10)
			d.stream(stream, "")
		}
		until(ctx, made, total/2)
		d.stream(stream, "n3")
		until(ctx, made, total/2+total/20)
		d.g.group.Stop(2)
		close(stopped)
		until(ctx, made, total*7/10)
		d.g.group.Restart(2)
		for part := 8; part <= 9; part++ {
			until(ctx, made, part*total/10)
			d.stream(stream, "")
		}
	}
}

// registers puts values under keys of one writer each, and objects, while servers are in trouble.
func registers(t *testing.T, s *side, c *tally, keys, puts int, trouble <-chan struct{}) {
	t.Helper()
	ctx := within(t)
	var writers sync.WaitGroup
	for k := range keys {
		writers.Go(func() {
			r := &register{s: s, c: c, key: fmt.Sprintf("key%d", k), may: map[string]bool{}}
			for i := 0; i < puts || !over(trouble) && ctx.Err() == nil; i++ {
				r.put(ctx, fmt.Appendf(nil, "%s %d", r.key, i))
				r.object(ctx, fmt.Appendf(nil, "%s %d", r.key, i))
			}
			for got := r.get(ctx); !r.may[string(got)]; got = r.get(ctx) {
				if ctx.Err() != nil {
					c.violate(s, "%s has %q in the end, may have %v", r.key, got, r.may)
					return
				}
			}
		})
	}
	writers.Wait()
}

// register is one key. Every value seen must have been put; the value that stays is the last one acknowledged, or one
// of those that no one knows of.
type register struct {
	s    *side
	c    *tally
	key  string
	all  [][]byte
	last string          // acknowledged
	may  map[string]bool // what may be the value in the end
}

func (r *register) put(ctx context.Context, v []byte) {
	r.c.agreed(1)
	r.all = append(r.all, v)
	err := r.s.kv.Put(ctx, r.key, v)
	r.may[string(v)] = true
	if err != nil {
		r.c.allow(r.s, storeFailed, "put %s: %v", r.key, err)
	} else {
		delete(r.may, r.last)
		r.last = string(v)
	}
	r.get(ctx)
}

func (r *register) get(ctx context.Context) []byte {
	got, err := r.s.kv.Get(ctx, r.key)
	switch {
	case errors.Is(err, kernel.ErrNotFound) || err == nil && contains(r.all, got) && string(got) != r.last:
		r.c.allow(r.s, staleKV, "get %s: %q, the last is %q", r.key, got, r.last)
	case err == nil && !contains(r.all, got):
		r.c.violate(r.s, "get %s: %q was never put", r.key, got)
	case err != nil:
		r.c.allow(r.s, storeFailed, "get %s: %v", r.key, err)
	}
	return got
}

// object puts an object and gets it back.
func (r *register) object(ctx context.Context, v []byte) {
	r.c.agreed(1)
	ref, err := r.s.blobs.Put(ctx, "text/plain", v)
	if err != nil {
		r.c.allow(r.s, storeFailed, "put object: %v", err)
		return
	}
	if got, err := r.s.blobs.Get(ctx, ref); err != nil {
		r.c.allow(r.s, storeFailed, "get object: %v", err)
	} else if !bytes.Equal(got, v) {
		r.c.violate(r.s, "object %s: got %q, put %q", ref.SHA256, got, v)
	}
}

func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func contains(all [][]byte, v []byte) bool {
	for _, have := range all {
		if bytes.Equal(have, v) {
			return true
		}
	}
	return false
}
