package topology

import (
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// RequiredBytes is the limit that a stream without one gets in an account that wants one of every stream; 0 where only
// an operator can know it: the log, and the stores of files and artifacts.
func RequiredBytes(st Stream) int64 {
	switch {
	case strings.HasPrefix(st.Name, "TMR_"):
		return requiredTimers
	case strings.HasPrefix(st.Name, "KV_"):
		return requiredBucket
	}
	return 0
}

const (
	// requiredTimers holds 100,000 timers of 600 bytes, requiredBucket as many rows of 2 KiB.
	requiredTimers = 64 << 20
	requiredBucket = 256 << 20
)

// MostConsumers is how many consumers the stream with the most of them has: a server counts them by stream.
func MostConsumers() (most int) {
	of := map[string]int{}
	for _, role := range events.Services() {
		for _, c := range Consumers("s", role) {
			of[c.Stream]++
			most = max(most, of[c.Stream])
		}
	}
	return most
}

// MostPending is the most unacknowledged messages that a consumer of a station may have.
func MostPending() (most int) {
	for _, role := range events.Services() {
		for _, c := range Consumers("s", role) {
			most = max(most, c.MaxPending)
		}
	}
	return most
}

// SetAside is what the streams with a limit set aside of the account's storage, and how many have none.
func SetAside(l Limits) (bytes int64, unlimited int) {
	for _, st := range Streams("s", l) {
		if st.MaxBytes > 0 {
			bytes += st.MaxBytes
		} else {
			unlimited++
		}
	}
	return bytes, unlimited
}

// LeastPayload is the most bytes of one message that a station publishes: a server must take so much.
const LeastPayload = MaxChunk

// MaxChunk is a part of an object with its headers.
const MaxChunk = ChunkBytes + 4<<10
