package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/inspan/inspan/internal/mem"
)

// tale is the story of a play.
type tale struct {
	w      *world
	keep   bool
	lines  strings.Builder
	sum    hash
	n      int
	counts map[string]int
}

type hash interface {
	io.Writer
	Sum64() uint64
}

func newTale(w *world, keep bool) *tale {
	return &tale{w: w, keep: keep, sum: fnv.New64a(), counts: map[string]int{}}
}

func (t *tale) digest() uint64 { return t.sum.Sum64() }

func (t *tale) text() string { return t.lines.String() }

func (t *tale) line(who, what string) {
	t.n++
	_, _ = io.WriteString(t.sum, who)  // a hash takes all
	_, _ = io.WriteString(t.sum, what) // a hash takes all
	if t.keep {
		fmt.Fprintf(&t.lines, "%6d %9.3fs  %-13s %s\n", t.n, t.w.clock.Now().Sub(t.w.begin).Seconds(), who, what)
	}
}

func (t *tale) op(o *op, v verdict) {
	switch {
	case v.kills():
		t.counts["crash "+strings.Fields(words[v])[1]]++
		t.line(o.p.name, words[v]+o.what)
	case v != made:
		t.counts[strings.Fields(o.what)[0]+" "+strings.TrimPrefix(words[v], "! ")]++
		t.line(o.p.name, o.what+"  "+words[v])
	default:
		t.line(o.p.name, o.what)
	}
}

func (t *tale) deliver(p *proc, m mem.Waiting) {
	if m.Deliveries > 0 {
		t.counts["delivered again"]++
	}
	t.line(p.name, fmt.Sprintf(">> %s #%d (%d)", short(m.Subject), m.Seq, m.Deliveries+1))
}

func (t *tale) proc(p *proc, what string) {
	t.counts["process "+what]++
	t.line(p.name, what)
}
