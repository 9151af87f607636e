package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
)

// message is one delivery of a pull consumer.
type message struct {
	nc   *nats.Conn
	m    *nats.Msg
	meta *nats.MsgMetadata
}

var _ kernel.Message = message{}

// errNoDelivery means that a message did not come from a consumer.
var errNoDelivery = errors.New("not a delivery of a consumer")

func newMessage(nc *nats.Conn, m *nats.Msg) (message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return message{}, fmt.Errorf("%w: %w", errNoDelivery, err)
	}
	return message{nc: nc, m: m, meta: meta}, nil
}

func (m message) Subject() string           { return m.m.Subject }
func (m message) Data() []byte              { return m.m.Data }
func (m message) Header(name string) string { return m.m.Header.Get(name) }
func (m message) Seq() uint64               { return m.meta.Sequence.Stream }
func (m message) Time() time.Time           { return m.meta.Timestamp }
func (m message) Deliveries() uint64        { return m.meta.NumDelivered }

// Ack implements kernel.Message. It returns once the ack is on its way and does not wait for the server's word: all
// that the word could prevent is another delivery, and a second look answers nothing. A listener that ends waits
// until the server has got all acks. It returns an error where there is no connection.
func (m message) Ack(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.answer([]byte("+ACK"))
}

// Nak implements kernel.Message.
func (m message) Nak(delay time.Duration) error {
	if delay <= 0 {
		return m.answer([]byte("-NAK"))
	}
	return m.answer(fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds()))
}

// Working implements kernel.Message.
func (m message) Working() error { return m.answer([]byte("+WPI")) }

func (m message) answer(word []byte) error { return m.nc.Publish(m.m.Reply, word) }
