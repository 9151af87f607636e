package e2b

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// input sends a program what it reads.
type input struct{ done chan struct{} }

type sendInput struct {
	Process selector `json:"process"`
	Input   struct {
		Stdin []byte `json:"stdin"`
	} `json:"input"`
}

type closeStdin struct {
	Process selector `json:"process"`
}

// begin reads Stdin to its end, and closes the program's.
func (i *input) begin(ctx context.Context, m *machine, pid int64, p mirror.Program) {
	i.done = make(chan struct{})
	user := ""
	if p.Privileged {
		user = administrator
	}
	go func() {
		defer close(i.done)
		send := sendInput{Process: selector{pid}}
		buf := make([]byte, inputChunk)
		for {
			n, err := p.Stdin.Read(buf)
			if n > 0 {
				send.Input.Stdin = buf[:n]
				// An error is the program that has ended or closed its input, or a connection whose loss the stream
				// tells.
				if m.unary(ctx, "SendInput", send, user) != nil {
					return
				}
			}
			if err != nil { // its end, or the reader's own error: the program sees the end of its input
				break
			}
			if ctx.Err() != nil {
				return
			}
		}
		// It fails where the program has ended, which is as well.
		_ = m.unary(ctx, "CloseStdin", closeStdin{selector{pid}}, user)
	}()
}

// wait waits until nothing more is sent, and for a Read that still blocks only for a moment: it is left behind.
func (i *input) wait() {
	if i.done == nil {
		return
	}
	grace := time.NewTimer(inputGrace)
	defer grace.Stop()
	select {
	case <-i.done:
	case <-grace.C:
	}
}
