// Package work gives prompts to the runtimes of agents, as calls of the tool runtime.
//
// Promises: that a prompt is about to be sent stands in the log before it is sent, with the session of the program where
// that is known. What the program asks to do is put to the gatekeeper, and answered only with what it decided and what
// the log has. A program that asks nobody is started only in a sandbox that isolates. A call whose toolrunner was lost
// goes on in the session that it had; where that is not possible its outcome is unknown.
package work

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/acp"
	"github.com/inspan/inspan/internal/runtime/headless"
	"github.com/inspan/inspan/pkg/events"
)

// DriverOf returns what speaks the protocol of a runtime.
func DriverOf(r events.Runtime) (runtime.Driver, error) {
	switch r.Driver {
	case events.DriverACP:
		return acp.Driver{}, nil
	case events.DriverClaude:
		return headless.Claude{}, nil
	case events.DriverCodex:
		return headless.Codex{}, nil
	}
	return nil, fmt.Errorf("runtime %s: there is no driver %q", r.Name, r.Driver)
}

// uuid is a name of a session that follows from a key, in the form of a random UUID.
func uuid(key string) string {
	sum := sha256.Sum256([]byte("session of a runtime\n" + key))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	s := hex.EncodeToString(sum[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
