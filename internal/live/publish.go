package live

import "bytes"

// Several publishes on each of its publishers, in order.
type Several []Publisher

// Publish implements Publisher.
func (all Several) Publish(run string, data []byte) {
	for _, p := range all {
		p.Publish(run, data)
	}
}

// None publishes nothing.
type None struct{}

// Publish implements Publisher.
func (None) Publish(string, []byte) {}

// Said is a live message on a Go channel: JSON of a Message, see Joiner.
type Said struct {
	Run  string
	Data []byte
}

// Channel publishes on a Go channel, for programs that have a station in their own process. It never waits: what the
// channel has no room for is dropped, which its reader sees by the numbers. Whoever made the channel closes it, after the
// services have ended.
type Channel chan<- Said

// Publish implements Publisher.
func (c Channel) Publish(run string, data []byte) {
	select {
	case c <- Said{Run: run, Data: bytes.Clone(data)}:
	default:
	}
}

var _, _, _ Publisher = Several{}, None{}, Channel(nil)
