package lineedit

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"
)

// Keyboard is what a person types or a program pipes in. Reading cannot be interrupted, so one goroutine reads from the
// first question to the end of the program. Input that comes between questions waits for the next one.
type Keyboard struct {
	In io.Reader
	// raw gives pieces as they come, for an editor; else they are lines, with their ends.
	raw    bool
	Once   sync.Once
	Pieces chan []byte
}

// Next returns the channel of what is typed; it is closed at the end of the input.
func (k *Keyboard) Next() <-chan []byte {
	k.Once.Do(func() {
		k.Pieces = make(chan []byte)
		read := bufio.NewReader(k.In)
		go func() {
			defer close(k.Pieces)
			for {
				piece, err := k.read(read)
				if len(piece) > 0 {
					k.Pieces <- piece
				}
				if err != nil {
					return
				}
			}
		}()
	})
	return k.Pieces
}

// Started reports whether it reads already: from then on nothing else may.
func (k *Keyboard) Started() bool { return k.Pieces != nil }

func (k *Keyboard) read(from *bufio.Reader) ([]byte, error) {
	if !k.raw {
		return from.ReadBytes('\n')
	}
	b := make([]byte, from.Size())
	n, err := from.Read(b)
	return b[:n], err
}

// quietTime is how long nothing may come before what was typed too early is thought to be all of it.
const quietTime = 20 * time.Millisecond

// Drop forgets what was typed before now, so that it does not answer a question that was not shown yet.
func (k *Keyboard) Drop(ctx context.Context) {
	limit := time.NewTimer(quietTime)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-k.Next():
			if !ok {
				return
			}
			limit.Reset(quietTime)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
