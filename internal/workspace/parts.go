package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// partBytes is the size of the objects that a pack is cut into.
	partBytes = 16 << 20
	// putting is how many of them are put at a time: while the store writes one, the next is read and hashed. With the
	// one that is read that is the most that is held in memory.
	putting = 2
)

// storePack puts a pack into the object store.
func storePack(ctx context.Context, blobs kernel.Blobs, id string, pack io.Reader) (Pack, error) {
	p := Pack{Snapshot: id}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var refs []*events.Ref // in the order of the parts, filled in as they are put
	var under sync.WaitGroup
	turns := make(chan struct{}, putting)
	for {
		part, err := io.ReadAll(io.LimitReader(pack, partBytes))
		if err != nil {
			stop(fmt.Errorf("read the pack of snapshot %.12s: %w", id, err))
		}
		if err != nil || len(part) == 0 || !turn(ctx, turns) {
			break
		}
		ref := new(events.Ref)
		refs = append(refs, ref)
		under.Go(func() {
			defer func() { <-turns }()
			got, err := blobs.Put(ctx, "tree", part)
			if err != nil {
				stop(fmt.Errorf("store the pack of snapshot %.12s: %w", id, err))
			}
			*ref = got
		})
	}
	under.Wait()
	if ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	for _, ref := range refs {
		p.Parts = append(p.Parts, *ref)
	}
	return p, nil
}

// turn takes a place among those who put, unless ctx has ended.
func turn(ctx context.Context, turns chan<- struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case turns <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// parts reads the objects of a pack one after the other, and one ahead of who reads it. It must be closed.
type parts struct {
	ctx  context.Context // of the one restore that reads it
	from kernel.Blobs
	refs []events.Ref
	data []byte
	// ahead gets the next part; nil where none is under way. It has room for it, so that no one waits to give it.
	ahead chan part
}

type part struct {
	data []byte
	err  error
}

func (p *parts) Read(b []byte) (int, error) {
	for len(p.data) == 0 {
		if p.ahead == nil {
			if len(p.refs) == 0 {
				return 0, io.EOF
			}
			p.fetch()
		}
		got := <-p.ahead
		p.ahead = nil
		if got.err != nil {
			return 0, got.err
		}
		if p.data = got.data; len(p.refs) > 0 {
			p.fetch()
		}
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

// fetch begins to read the next part.
func (p *parts) fetch() {
	ahead := make(chan part, 1)
	ref := p.refs[0]
	p.refs, p.ahead = p.refs[1:], ahead
	go func() {
		data, err := p.from.Get(p.ctx, ref)
		if errors.Is(err, kernel.ErrNotFound) || errors.Is(err, kernel.ErrDamagedObject) || errors.Is(err,
			kernel.ErrTooLarge) {
			err = fmt.Errorf("%w: %w (restore the object store)", ErrDamaged, err)
		}
		ahead <- part{data, err}
	}()
}

// close waits for what is under way.
func (p *parts) close() {
	if p.ahead != nil {
		<-p.ahead
	}
	p.ahead, p.data, p.refs = nil, nil, nil
}
