package microvm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
)

// maxEvent bounds one line of what QEMU tells of itself, in bytes.
const maxEvent = 64 << 10

// watch reads what QEMU reports of a machine, in the lines of its machine protocol, until QEMU has ended. A machine
// that was stopped because this computer could not write to its disks would stand still for ever: it is ended.
func watch(events net.Conn, engine *process) {
	defer func() { _ = events.Close() }() // QEMU has ended, or says what no one understands
	if _, err := fmt.Fprintln(events, `{"execute": "qmp_capabilities"}`); err != nil {
		return
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var word struct {
			Event string `json:"event"`
			Data  struct {
				Action  string `json:"action"`
				NoSpace bool   `json:"nospace"`
				Reason  string `json:"reason"`
			} `json:"data"`
		}
		if json.Unmarshal(lines.Bytes(), &word) != nil || word.Event != "BLOCK_IO_ERROR" || word.Data.Action != "stop" {
			continue
		}
		why := fmt.Errorf("%w: %.200q", ErrDisks, word.Data.Reason)
		if word.Data.NoSpace {
			why = fmt.Errorf("%w: no space is left: free space in TMPDIR, or set TMPDIR to another directory", ErrDisks)
		}
		engine.fail(why)
	}
	_ = lines.Err() // QEMU has ended, which the engine notices by itself, or says what no one understands
}
