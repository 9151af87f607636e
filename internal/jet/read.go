package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// errTorn means that a page did not come as the server sent it. The page is dropped and may be asked for again.
var errTorn = errors.New("a page came torn")

// directRequest asks any replica for the messages on a subject, from a position or a time on, or for the last message
// of each subject from a position on.
type directRequest struct {
	Seq      uint64     `json:"seq,omitempty"`
	Since    *time.Time `json:"start_time,omitempty"`
	NextFor  string     `json:"next_by_subj,omitempty"`
	LastOf   []string   `json:"multi_last,omitempty"`
	Batch    int        `json:"batch"`
	MaxBytes int        `json:"max_bytes,omitempty"`
}

type directPage struct {
	messages []directMessage
	// pending counts what the replica has behind the page.
	pending uint64
}

type directMessage struct {
	*nats.Msg
	seq uint64
}

// direct reads one page. A replica may be behind, so the page may end early or be empty. Each message names its
// position and the one sent before it, and the end of the page names the last one: any doubt is an error, because a
// reader who skips a message is worse off than one who has none.
func (c *Conn) direct(ctx context.Context, stream string, req directRequest) (directPage, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return directPage{}, fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return directPage{}, err
	}
	subject := apiPrefix + "DIRECT.GET." + stream
	watched, done := c.denied.watch(ctx, subject)
	defer done()
	inbox := c.nc.NewInbox()
	// Room for the whole page and its end: nothing is dropped. A channel of the client's own size would cost half a
	// megabyte for each page.
	arrived := make(chan *nats.Msg, req.Batch+2)
	sub, err := c.nc.ChanSubscribe(inbox, arrived)
	if err != nil {
		return directPage{}, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	if err := c.nc.PublishRequest(subject, inbox, body); err != nil {
		return directPage{}, err
	}
	var page directPage
	var last uint64
	for {
		var m *nats.Msg
		select {
		case m = <-arrived:
		case <-watched.Done():
			return directPage{}, fmt.Errorf("after %d messages: %w", len(page.messages), context.Cause(watched))
		}
		// A stored message names its position; one with a status that its publisher gave it does not end the page. The
		// server names a subject also where it says that no one answers there.
		if status := m.Header.Get("Status"); status != "" && stamped(m, "Nats-Sequence") == "" {
			return page.end(m, status, last)
		}
		seq, err := number(m, "Nats-Sequence")
		if err != nil {
			return directPage{}, err
		}
		before, err := number(m, "Nats-Last-Sequence")
		if err != nil {
			return directPage{}, err
		}
		if before != last || seq < req.Seq || seq <= last {
			return directPage{}, fmt.Errorf("%w: position %d follows %d, want it to follow %d", errTorn, seq, before, last)
		}
		page.messages = append(page.messages, directMessage{Msg: m, seq: seq})
		last = seq
	}
}

// end judges the message that ends a page.
func (p directPage) end(m *nats.Msg, status string, last uint64) (directPage, error) {
	switch status {
	case "204":
		sent, err := number(m, "Nats-Last-Sequence")
		if err != nil {
			return directPage{}, err
		}
		if sent != last {
			return directPage{}, fmt.Errorf("%w: it ends with position %d, the last that came is %d", errTorn, sent, last)
		}
		p.pending, err = number(m, "Nats-Num-Pending")
		return p, err
	case "404":
		if len(p.messages) == 0 {
			return directPage{}, nil
		}
		return directPage{}, fmt.Errorf("%w: no more messages after %d", errTorn, last)
	case "503":
		return directPage{}, absent(nats.ErrNoResponders)
	}
	return directPage{}, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
}

// stamped returns what the server says of a stored message in a header. It adds its headers behind those of the
// publisher, who may have used the same names: its value is the last.
func stamped(m *nats.Msg, header string) string {
	if values := m.Header[header]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// number is a stamped header that is a number.
func number(m *nats.Msg, header string) (uint64, error) {
	n, err := strconv.ParseUint(stamped(m, header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: header %s is %q", errTorn, header, stamped(m, header))
	}
	return n, nil
}
