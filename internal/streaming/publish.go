package streaming

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// The publishers that an option may name.
const (
	// ByNATS publishes for those who watch now, ByJetStream has the server keep it for a while besides, so that those
	// who come later hear it, also when who said it is gone. ToChannel publishes on a Channel of the process.
	ByNATS      = "nats"
	ByJetStream = "jetstream"
	ToChannel   = "channel"
	// ToNone publishes nothing.
	ToNone = "none"
)

// Names reads an option that names publishers: a list separated by commas. Nothing and "true" mean ByNATS, "false" and
// "none" no publisher. No name comes twice.
func Names(option string) ([]string, error) {
	switch option = strings.TrimSpace(option); option {
	case "", "true", "1":
		return []string{ByNATS}, nil
	case "false", "0", ToNone:
		return nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(option, ",") {
		name = strings.TrimSpace(name)
		if name != ByNATS && name != ByJetStream && name != ToChannel {
			return nil, fmt.Errorf("publisher %q is none, want true, false, or some of %s, %s and %s, separated by commas; %s publishes nothing and stands alone",
				name, ByNATS, ByJetStream, ToChannel, ToNone)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Choose returns what publishes on all publishers of an option, see Names: None where it names none. from has those
// that there are; one that is missing is an error.
func Choose(option string, from map[string]Publisher) (Publisher, error) {
	names, err := Names(option)
	if err != nil {
		return nil, err
	}
	var all Several
	for _, name := range names {
		p, ok := from[name]
		if !ok {
			return nil, fmt.Errorf("publisher %s: there is none in this process; name another one", name)
		}
		all = append(all, p)
	}
	switch len(all) {
	case 0:
		return None{}, nil
	case 1:
		return all[0], nil
	}
	return all, nil
}

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

// Replay is a live message on a Go channel: JSON of a Message, see Joiner.
type Replay struct {
	Run  string
	Data []byte
}

// Channel publishes on a Go channel, for programs that have a station in their own process. It never waits: what the
// channel has no room for is dropped, which its reader sees by the numbers. Whoever made the channel closes it, after
// the services have ended.
type Channel chan<- Replay

// Publish implements Publisher.
func (c Channel) Publish(run string, data []byte) {
	select {
	case c <- Replay{Run: run, Data: bytes.Clone(data)}:
	default:
	}
}

var _, _, _ Publisher = Several{}, None{}, Channel(nil)
