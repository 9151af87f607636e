package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/inspan/inspan/internal/kernel"
)

// The headers that make messages one batch: the server stores all of them or none, and writes to disk once.
const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// Grouping is which appends that wait for the server are sent together.
type Grouping int32

// What there is of it.
const (
	// GroupNone sends each append alone.
	GroupNone Grouping = iota
	// GroupOnDisk is for a server that gathers the messages of a batch on its disk, which takes as long as many appends.
	GroupOnDisk
	// GroupInMemory is for one that gathers them in memory (natsserver.Server.StageInMemory), which takes less.
	GroupInMemory
)

// sizes are how many appends may be under way singly, where what comes on top waits for one of them, and how many that
// wait are sent as one batch.
func (g Grouping) sizes() (alone, from int) {
	if g == GroupInMemory {
		return 4, 6
	}
	return 8, 16
}

// Limits of groups.
const (
	// groupMost and groupBytes bound a batch. The server takes 1000 messages.
	groupMost  = 256
	groupBytes = 4 << 20
	// groupRest is how long there is no batch after one was refused.
	groupRest = 250 * time.Millisecond
)

// group gathers the appends of many aggregates to one stream. An append that finds the stream idle is sent at once and
// alone, so nothing is slower; what queues up behind it is sent as one batch, if it is enough to pay. A batch never has
// two events of one aggregate: each is guarded by the position of its last event, and a batch cannot name its own.
type group struct {
	j  journal
	mu sync.Mutex
	// All below is guarded by mu. alone counts appends sent singly, flying is true while a batch is under way.
	alone   int
	flying  bool
	waiting []*member
	// rest is when there may be a batch again.
	rest time.Time
}

// member is an append that waits for its turn.
type member struct {
	entry kernel.Entry
	turn  chan turn // one place: a member is told once
}

// turn tells a member what happens to its append: it is answered, or it takes these appends, its own first, to the
// server as one batch, or it goes alone.
type turn struct {
	ack   *kernel.Ack
	batch []*member
}

// append sends an entry alone or with others. Its outcome is the same as if it had been sent alone.
func (g *group) append(ctx context.Context, e kernel.Entry) kernel.Ack {
	m := &member{entry: e, turn: make(chan turn, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, m)
	g.proceed()
	g.mu.Unlock()
	select {
	case t := <-m.turn:
		return g.take(ctx, m, t)
	case <-ctx.Done():
	}
	if g.leave(m) {
		return kernel.Ack{Outcome: kernel.Unknown, Err: fmt.Errorf("not sent: %w", context.Cause(ctx))}
	}
	t := <-m.turn
	if t.ack == nil && t.batch == nil { // its place must be given back
		defer g.landed()
		return kernel.Ack{Outcome: kernel.Unknown, Err: fmt.Errorf("not sent: %w", context.Cause(ctx))}
	}
	return g.take(ctx, m, t) // others depend on the batch
}

// leave takes back an append that was not sent.
func (g *group) leave(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == m {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (g *group) take(ctx context.Context, m *member, t turn) kernel.Ack {
	switch {
	case t.ack != nil:
		return *t.ack
	case t.batch == nil:
		defer g.landed()
		return g.j.single(ctx, m.entry)
	}
	if g.fly(ctx, t.batch) {
		return *(<-m.turn).ack
	}
	defer g.landed()
	return g.j.single(ctx, m.entry)
}

// landed gives back the place of an append that was sent alone.
func (g *group) landed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone--
	g.proceed()
}

// proceed tells as many members as may begin. mu is held. While a batch flies everything gathers: the server takes the
// messages of a stream one after the other anyway.
func (g *group) proceed() {
	if g.flying {
		return
	}
	alone, from := Grouping(g.j.c.grouping.Load()).sizes()
	if len(g.waiting) >= from && !time.Now().Before(g.rest) {
		if batch := g.gather(from); len(batch) >= from {
			g.flying = true
			batch[0].turn <- turn{batch: batch}
			return
		}
	}
	for g.alone < alone && len(g.waiting) > 0 {
		g.waiting[0].turn <- turn{}
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		g.alone++
	}
}

// gather takes the appends of one batch from those that wait, or leaves all where they are too few.
func (g *group) gather(from int) []*member {
	var batch, left []*member
	taken, size := make(map[string]bool, len(g.waiting)), 0
	for _, m := range g.waiting {
		if len(batch) == groupMost || size+len(m.entry.Bytes) > groupBytes || taken[kernel.Key(m.entry.Aggregate,
			m.entry.ID)] {
			left = append(left, m)
			continue
		}
		taken[kernel.Key(m.entry.Aggregate, m.entry.ID)] = true
		size += len(m.entry.Bytes)
		batch = append(batch, m)
	}
	if len(batch) >= from {
		g.waiting = left
	}
	return batch
}

// fly sends a batch and answers its members. Where the batch was refused nothing of it is stored, so false sends all
// of them on alone, to learn which was at fault. It ends with the caller's patience for an answer, not with its
// context, because the others wait for it too.
func (g *group) fly(ctx context.Context, batch []*member) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestWait)
	defer cancel()
	last, err := g.j.together(ctx, batch)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying = false
	defer g.proceed()
	if refused := code(err) != 0 || errors.Is(err, ErrDenied) || errors.Is(err, nats.ErrMaxPayload); refused {
		g.rest = time.Now().Add(groupRest)
		g.alone += len(batch)
		for _, m := range batch[1:] {
			m.turn <- turn{}
		}
		return false
	}
	if err == nil {
		g.j.c.grouped.Add(uint64(len(batch)))
	}
	for i, m := range batch {
		ack := kernel.Ack{Outcome: kernel.Unknown, Err: err}
		if err == nil {
			ack = kernel.Ack{Outcome: kernel.Stored, Seq: last - uint64(len(batch)-1-i)}
		}
		m.turn <- turn{ack: &ack}
	}
	return true
}

// together publishes entries as one batch and returns the position of the last. Those before it have the positions
// before it, because the server stores a batch in one piece. Errors are those of publish: the server's are refusals.
func (j journal) together(ctx context.Context, batch []*member) (uint64, error) {
	if err := j.c.Ready(ctx); err != nil {
		return 0, err
	}
	id := nuid.Next()
	for i, m := range batch {
		msg := j.message(m.entry)
		msg.Header[headerBatch] = []string{id}
		msg.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
		if i < len(batch)-1 {
			if err := j.c.nc.PublishMsg(msg); err != nil {
				return 0, fmt.Errorf("batch of %d: %w", len(batch), err)
			}
			continue
		}
		msg.Header[headerBatchCommit] = []string{"1"}
		answer, err := j.c.request(ctx, msg)
		if err != nil {
			return 0, fmt.Errorf("batch of %d: %w", len(batch), err)
		}
		return j.batchAck(answer.Data, id, len(batch))
	}
	return 0, errors.New("an empty batch")
}

// batchAck reads the answer to a batch. One that does not confirm the whole batch leaves all of it unknown.
func (j journal) batchAck(data []byte, id string, n int) (uint64, error) {
	var ack struct {
		pubAck
		Batch string `json:"batch"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("ack of a batch: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream != j.stream || ack.Batch != id || ack.Count != n || ack.Seq < uint64(n) {
		return 0, fmt.Errorf("ack of a batch of %d in %s names %d of batch %q in %q", n, j.stream, ack.Count, ack.Batch,
			ack.Stream)
	}
	return ack.Seq, nil
}
