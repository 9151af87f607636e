package client

import "github.com/inspan/inspan/internal/kernel"

// LookFirst is lookFirst.
const LookFirst = lookFirst

// through is an origin with another journal.
type through struct {
	origin
	journal kernel.Journal
}

func (t through) Journal() kernel.Journal { return t.journal }

// Through returns a client that reads the log of runs by way of a journal.
func Through(c *Client, by func(kernel.Journal) kernel.Journal) *Client {
	other := *c
	other.st = through{c.st, by(c.st.Journal())}
	return &other
}
