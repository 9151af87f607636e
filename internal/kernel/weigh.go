package kernel

import "slices"

// Estimates of what a state takes: it holds about what its events hold.
const (
	// pageBytes is what a page takes beside its state.
	pageBytes = 2 << 10
	// eventBytes stands for an event that was not seen, because the state came from a snapshot.
	eventBytes = 1 << 10
)

// free lets a page go that was held, and counts what it takes now. Where all pages together take too much, others are
// dropped.
func (c *Pages) free(p *page) {
	bytes, loaded := p.bytes, p.loaded
	ended := loaded && c.aggregate.ended(p.state)
	<-p.held
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.evicted(p) {
		return
	}
	if !loaded {
		bytes = 0
	}
	c.bytes += bytes + pageBytes - p.counted
	p.counted = bytes + pageBytes
	if ended && !p.ended {
		p.ended = true
		if c.ended = append(c.ended, p); len(c.ended) > 2*len(c.pages) {
			c.ended = slices.DeleteFunc(c.ended, c.evicted)
		}
	}
	if c.bytes > c.mostBytes {
		c.shrink(p)
	}
}

// shrink drops pages until the others fit, but the one just used: first those of what has ended, oldest first, for of
// them only the last deliveries are to come. mu is held.
func (c *Pages) shrink(last *page) {
	last.pins++
	defer func() { last.pins-- }()
	fit := c.mostBytes - c.mostBytes/8 // not for each event anew
	c.ended = slices.DeleteFunc(c.ended, func(p *page) bool {
		if c.bytes > fit && !c.evicted(p) && p.pins == 0 {
			c.drop(p)
		}
		return c.evicted(p)
	})
	for c.bytes > fit && c.turn() {
	}
}

// evicted reports whether a page was dropped. mu is held.
func (c *Pages) evicted(p *page) bool { return c.pages[p.id] != p }

// turn drops the next page that was not used since the hand passed, and reports whether there was one that no one
// needs. mu is held.
func (c *Pages) turn() bool {
	for range 2 * len(c.ring) {
		c.hand %= len(c.ring)
		p := c.ring[c.hand]
		if !p.used && p.pins == 0 {
			c.drop(p)
			return true
		}
		p.used = false
		c.hand++
	}
	return false
}

// drop forgets a page. mu is held.
func (c *Pages) drop(p *page) {
	delete(c.pages, p.id)
	c.bytes -= p.counted
	last := len(c.ring) - 1
	c.ring[p.place] = c.ring[last]
	c.ring[p.place].place = p.place
	c.ring[last] = nil
	c.ring = c.ring[:last]
}
