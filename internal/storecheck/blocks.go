package storecheck

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/disk"
)

func hamming(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// part is a file of messages with its number.
type part struct {
	path  string
	index int
}

func parts(dir string) (all []part, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.blk"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		p := part{path: path}
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.blk", &p.index); err == nil {
			all = append(all, p)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].index < all[j].index })
	return all, nil
}

// chain is what the blocks of a stream hold, one behind the other.
type chain struct {
	stream string
	// last is the highest position so far, open the gap that nothing was found behind yet.
	last uint64
	open *Finding
	// expected is the position that must come next; 0 where positions may be missing.
	expected uint64
}

// blocks goes through the messages of a stream.
func (c *check) blocks(dir, stream string, subjects []string, plain bool) error {
	all, err := parts(dir)
	if err != nil {
		return err
	}
	ch := chain{stream: stream}
	mark, marked := c.mark(stream)
	log := strings.HasPrefix(stream, LogPrefix)
	for i, p := range all {
		f, err := c.read(p.path)
		if err != nil {
			return err
		}
		if !plain {
			if f.known && !f.same && c.cfg.Marks.Clean {
				c.result.Add(Finding{Outcome: costs(stream, c.cfg.Views), Stream: stream, File: f.rel,
					What: "messages were changed while the station was stopped"})
			}
			continue
		}
		k := newBlock(stream, p.index, subjects)
		r, ok := read{}, false
		if f.same {
			r, ok = k.skim(f.b, ch.last)
		}
		if !ok {
			r = k.read(f.b, ch.last)
		}
		ch.follow(c, f, r, log)
		final := i == len(all)-1
		if err := c.settle(f, r, k, &ch, final, mark, marked); err != nil {
			return err
		}
		ch.last = max(ch.last, r.last)
	}
	if plain && log && marked && ch.last < mark.Last && ch.open == nil {
		c.result.Add(Finding{Outcome: Lost, Stream: stream, From: ch.last + 1, To: mark.Last,
			What: fmt.Sprintf("it ends at sequence %d and had reached %d: %d messages are lost", ch.last, mark.Last,
				mark.Last-ch.last)})
	}
	return nil
}

func (c *check) mark(stream string) (Stream, bool) {
	if c.cfg.Marks == nil {
		return Stream{}, false
	}
	s, ok := c.cfg.Marks.Streams[Key(c.account, stream)]
	return s, ok
}

// follow finds the positions that are missing in a log although every record is whole: a file that is not there any
// more.
func (ch *chain) follow(c *check, f file, r read, log bool) {
	if !log {
		return
	}
	for _, seq := range r.seqs {
		if want := ch.expected; want > 0 && seq > want && len(r.gaps) == 0 && !c.known(ch.stream, want, seq-1) {
			c.result.Add(Finding{Outcome: Lost, Stream: ch.stream, File: f.rel, From: want, To: seq - 1,
				What: fmt.Sprintf("sequences %d to %d are missing", want, seq-1)})
		}
		ch.expected = seq + 1
	}
}

// known reports whether positions are among those that are known to be lost.
func (c *check) known(stream string, from, to uint64) bool {
	for pos := from; pos <= to; pos++ {
		if !slices.ContainsFunc(c.cfg.Known, func(f Finding) bool {
			return f.Stream == stream && f.From <= pos && (pos <= f.To || f.To == 0)
		}) {
			return false
		}
	}
	return true
}

// settle writes a block back without what is wrong with it, and reports that.
func (c *check) settle(f file, r read, k *block, ch *chain, final bool, mark Stream, marked bool) error {
	if len(r.gaps) == 0 && r.healed == 0 {
		if c.changed(f, ch.stream) {
			if f.sized && k.lengths(f, c.cfg.Marks.Files[f.rel]) {
				return c.repair(f, f.b, ch.stream, "a flipped bit in the length of a subject was repaired")
			}
			c.result.Add(Finding{Outcome: costs(ch.stream, c.cfg.Views), Stream: ch.stream, File: f.rel,
				What: "messages were changed, although each checksum is valid"})
		}
		return nil
	}
	what := fmt.Sprintf("%d flipped bits in messages were repaired", r.healed)
	if r.healed == 0 {
		what = ""
	}
	if err := c.repair(f, r.b, ch.stream, what); err != nil {
		return err
	}
	for i, g := range r.gaps {
		torn := final && i == len(r.gaps)-1 && g.to == len(f.b) && (!marked || mark.Last <= r.last)
		finding := Finding{Outcome: costs(ch.stream, c.cfg.Views), Stream: ch.stream, File: f.rel, From: g.after + 1,
			Runs: runsOf(g.subject)}
		switch {
		case torn:
			finding.Outcome, finding.From, finding.Runs = Unfinished, 0, nil
			finding.What = fmt.Sprintf("the last %d bytes are an incomplete message that was never acknowledged", g.to-g.from)
		case g.before > 0:
			finding.To = g.before - 1
			finding.What = fmt.Sprintf("%d bytes are damaged: sequences %d to %d", g.to-g.from, finding.From, finding.To)
		case final && marked && mark.Last > r.last:
			finding.To = mark.Last
			finding.What = fmt.Sprintf("%d bytes are damaged: sequences %d to %d", g.to-g.from, finding.From, finding.To)
		default:
			finding.What = fmt.Sprintf("%d bytes are damaged after sequence %d", g.to-g.from, g.after)
		}
		if !torn && final && i == len(r.gaps)-1 && g.to == len(f.b) {
			ch.open = &finding
		}
		c.result.Add(finding)
	}
	return nil
}

// changed reports whether bytes differ that were written before the marks. A log is only ever appended to; another
// stream is known to be as it was only where the station ended by itself.
func (c *check) changed(f file, stream string) bool {
	if !f.known || f.same {
		return false
	}
	was := c.cfg.Marks.Files[f.rel]
	if strings.HasPrefix(stream, LogPrefix) {
		return int64(len(f.b)) >= was.Size && !FileOf(f.b[:was.Size]).same(was)
	}
	return c.cfg.Marks.Clean && f.sized
}

// repair writes a block, and has the server read it from the beginning.
func (c *check) repair(f file, b []byte, stream, what string) error {
	if what == "" {
		if err := c.aside(f.rel); err != nil {
			return err
		}
		if err := disk.Replace(filepath.Join(c.cfg.Store, f.rel), b, f.mode); err != nil {
			return err
		}
		c.result.Read[f.rel] = FileOf(b)
	} else if err := c.put(f, b, what, stream); err != nil {
		return err
	}
	index := filepath.Join(filepath.Dir(filepath.Join(c.cfg.Store, f.rel)), indexFile)
	if err := os.Remove(index); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// runsOf is the run that a subject of a log is of.
func runsOf(subject string) []string {
	if t := strings.Split(subject, "."); len(t) > 3 && t[0] == "station" && t[2] == "run" {
		return []string{t[3]}
	}
	return nil
}
