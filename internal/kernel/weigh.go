package kernel

import "slices"

// Estimates of what a state takes: it holds about what its events hold.
const (
	// pageBytes is what a page takes beside its state.
	pageBytes = 2 << 10
	// eventBytes stands for an event that was not seen, because the state came from a snapshot.
	eventBytes = 1 << 10
)

// Limits of what is kept.
const (
	// endedMost is how many bytes the pages of what has ended may take.
	endedMost = DefaultCacheBytes / 4
	// draws is how many pages are drawn to find one to be dropped. The mark of use is taken off all of them when each was
	// asked for so many times on average.
	draws   = 8
	usedFor = 8
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
	more := bytes + pageBytes - p.counted
	c.bytes, p.counted = c.bytes+more, p.counted+more
	if p.ended {
		c.endedBytes += more
	}
	if ended && !p.ended {
		p.ended = true
		c.endedBytes += p.counted
		if c.ended = append(c.ended, p); len(c.ended) > 2*len(c.pages) {
			c.ended = slices.DeleteFunc(c.ended, c.evicted)
		}
	}
	if c.bytes > c.mostBytes || c.endedBytes > endedMost {
		c.shrink(p)
	}
}

// shrink drops pages until the others fit, but the one just used: first those of what has ended, oldest first, for of
// them only the last deliveries are to come. mu is held.
func (c *Pages) shrink(last *page) {
	last.pins++
	defer func() { last.pins-- }()
	fit, fitEnded := c.mostBytes-c.mostBytes/8, endedMost-endedMost/8 // not for each event anew
	if c.bytes <= c.mostBytes {
		fit = c.mostBytes
	}
	c.ended = slices.DeleteFunc(c.ended, func(p *page) bool {
		if (c.bytes > fit || c.endedBytes > fitEnded) && !c.evicted(p) && p.pins == 0 {
			c.drop(p)
		}
		return c.evicted(p)
	})
	for c.bytes > fit && c.turn() {
	}
}

// evicted reports whether a page was dropped. mu is held.
func (c *Pages) evicted(p *page) bool { return c.pages[p.id] != p }

// turn drops a page and reports whether there was one that no one needs. It is one of few that are drawn: where all
// runs that are under way go on in turn and are too many, to drop the one that was used longest ago would drop just the
// one that is needed next, and each would be read again each time. mu is held.
func (c *Pages) turn() bool {
	var found *page
	for range min(draws, len(c.ring)) {
		if p := c.draw(); p.pins == 0 {
			if found = p; !p.used {
				break
			}
		}
	}
	if found == nil {
		i := slices.IndexFunc(c.ring, func(p *page) bool { return p.pins == 0 })
		if i < 0 {
			return false
		}
		found = c.ring[i]
	}
	c.drop(found)
	return true
}

// draw returns any page; the same ones in the same order in each process. mu is held.
func (c *Pages) draw() *page {
	c.drawn = c.drawn*6364136223846793005 + 1442695040888963407 // Knuth, MMIX
	return c.ring[c.drawn>>33%uint64(len(c.ring))]
}

// drop forgets a page. mu is held.
func (c *Pages) drop(p *page) {
	delete(c.pages, p.id)
	c.bytes -= p.counted
	if p.ended {
		c.endedBytes -= p.counted
	}
	last := len(c.ring) - 1
	c.ring[p.place] = c.ring[last]
	c.ring[p.place].place = p.place
	c.ring[last] = nil
	c.ring = c.ring[:last]
}
