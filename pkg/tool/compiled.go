package tool

import (
	"encoding/json"
	"sync"
)

// mostCompiled is how many schemas are remembered, and mostSchema how many bytes each may have: about 4 MiB of text.
const (
	mostCompiled = 512
	mostSchema   = 8 << 10
)

// compiledSchemas remembers schemas by their text. A process makes many registries of the same tools, one for each
// station, agent and set of tool servers, and compiling is most of the time that takes. A compiled schema never
// changes, so registries share it.
type compiledSchemas struct {
	mu sync.Mutex
	// by text; guarded by mu. It starts anew where it is full.
	by map[string]*checker
}

var schemas = compiledSchemas{by: map[string]*checker{}}

// compile makes a checker of a tool's schema, or returns the one that was made of the same text.
func (c *compiledSchemas) compile(schema json.RawMessage) (*checker, error) {
	c.mu.Lock()
	known, ok := c.by[string(schema)]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	made, err := compile(schema)
	if err != nil || len(schema) > mostSchema {
		return made, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.by) >= mostCompiled {
		clear(c.by)
	}
	c.by[string(schema)] = made
	return made, nil
}
