package kernel

// Size returns how many pages there are and what they take, and recounts the latter.
func (c *Pages) Size() (pages, bytes, recounted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.ring {
		if c.pages[p.id] != p || p.place != i {
			panic("the ring has a page that is gone")
		}
		recounted += p.counted
	}
	if len(c.ring) != len(c.pages) {
		panic("the ring lacks a page")
	}
	return len(c.pages), c.bytes, recounted
}

// Known reports whether there is a page of an aggregate.
func (c *Pages) Known(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages[id] != nil
}
