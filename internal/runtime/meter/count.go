package meter

import (
	"bytes"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

// maxHeld is the most bytes of an answer, or of a line of an event stream, that are looked at.
const maxHeld = 32 << 20

// counter reads the usage out of an answer while that passes.
type counter struct {
	kind   kind
	events bool
	held   []byte
	over   bool
	found  tool.InnerUse
	final  bool
}

func (c *counter) begin(contentType string) {
	c.events = strings.HasPrefix(contentType, "text/event-stream")
}

func (c *counter) add(b []byte) {
	if c.over = c.over || len(c.held)+len(b) > maxHeld; c.over {
		c.held = nil
		return
	}
	c.held = append(c.held, b...)
	for c.events {
		i := bytes.IndexByte(c.held, '\n')
		if i < 0 {
			return
		}
		c.line(bytes.TrimRight(c.held[:i], "\r"))
		c.held = c.held[i+1:]
	}
}

func (c *counter) line(b []byte) {
	data, ok := bytes.CutPrefix(b, []byte("data:"))
	if ok && c.kind.used(bytes.TrimSpace(data), &c.found) {
		c.final = true
	}
}

// use is what the answer says, once it is whole.
func (c *counter) use() tool.InnerUse {
	if !c.events && !c.over {
		c.final = c.kind.used(c.held, &c.found)
	} else if c.events {
		c.line(c.held)
	}
	u := c.found
	u.Unknown = c.over || !c.final
	return u
}
