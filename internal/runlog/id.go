package runlog

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"time"
)

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// IDOf is the id of the run that a task without an id of its own starts, by the place and the time that the task has in
// the stream of inputs. It stays the same where the task is received again.
func IDOf(station string, position uint64, at time.Time) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s|%d|%d", station, position, at.UnixNano()))
	return "run-" + lower.EncodeToString(h[:10])
}
