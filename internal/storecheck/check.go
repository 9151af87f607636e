package storecheck

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
)

// Config of a check.
type Config struct {
	// Store is the folder of the station, Streams the server's folder in it.
	Store, Streams string
	// Extra are further files of the store that have no checksum of their own.
	Extra []string
	// Views is the stream of the views, empty for ViewsStream.
	Views string
	// Marks of the store; nil where there are none, and nothing can be compared.
	Marks *Marks
	// Known are losses that were found before.
	Known []Finding
	// Now is when this is, for the name of the folder that copies go to.
	Now time.Time
}

// Result of a check.
type Result struct {
	Report
	// Back are the positions that consumers must be put back to, by the Key of the stream and by consumer: their own
	// state is gone, or nothing proves it.
	Back map[string]map[string]uint64
	// Read are the files as they are now, so that they need not be read again at the end.
	Read map[string]File
}

// Names of files and folders in a server's store.
const (
	metaFile     = "meta.inf"
	metaSum      = "meta.sum"
	metaKey      = "meta.key"
	blocksFolder = "msgs"
	consumers    = "obs"
	stateFile    = "o.dat"
	indexFile    = "index.db"
	// CopiesFolder takes what was changed, as it was before.
	CopiesFolder = "damaged"
	// LogPrefix is how the names of streams begin from which nothing is ever removed.
	LogPrefix = "LOG_"
)

// smallMost bounds the files of which each bit is tried against their digest, in bytes.
const smallMost = 4 << 10

type check struct {
	cfg    Config
	result Result
	copies string
	// account is that of the stream that is looked at.
	account string
}

// Run checks a store that no server has open, and repairs what can be repaired. An error means that the files could not
// be read or written.
func Run(cfg Config) (Result, error) {
	c := &check{cfg: cfg, result: Result{Back: map[string]map[string]uint64{}, Read: map[string]File{}},
		copies: filepath.Join(cfg.Store, CopiesFolder, cfg.Now.UTC().Format("20060102T150405.000Z"))}
	if c.cfg.Marks != nil {
		c.cfg.Marks = c.believed(*cfg.Marks)
	}
	for _, rel := range cfg.Extra {
		if err := c.neighbours(rel); err != nil {
			return c.result, err
		}
	}
	streams, err := filepath.Glob(filepath.Join(cfg.Store, cfg.Streams, "jetstream", "*", "streams", "*"))
	if err != nil {
		return c.result, fmt.Errorf("list streams: %w", err)
	}
	for _, dir := range streams {
		if strings.HasPrefix(filepath.Base(dir), ".") { // one that the server was removing
			continue
		}
		if err := c.stream(dir); err != nil {
			return c.result, fmt.Errorf("check stream %s: %w", filepath.Base(dir), err)
		}
	}
	return c.result, c.missing(streams)
}

// believed drops the digests where an earlier program has worked on the store since: it keeps no marks, and what it
// wrote is no damage. A file that has another size was written to.
func (c *check) believed(m Marks) *Marks {
	for rel, f := range m.Files {
		info, err := os.Stat(filepath.Join(c.cfg.Store, rel))
		if m.Clean && filepath.Ext(rel) == ".blk" && err == nil && info.Size() > f.Size {
			m.Clean = false
		}
	}
	return &m
}

// file is one file of the store as it was read.
type file struct {
	rel  string
	b    []byte
	mode fs.FileMode
	// known reports whether the marks have it, same whether its bytes are those of the marks, sized whether its size
	// is.
	known, same, sized bool
}

func (c *check) read(path string) (f file, err error) {
	if f.rel, err = filepath.Rel(c.cfg.Store, path); err != nil {
		return f, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	f.mode = info.Mode().Perm()
	if f.b, err = os.ReadFile(path); err != nil {
		return f, err
	}
	is := FileOf(f.b)
	is.Changed = info.ModTime().UnixNano()
	if c.cfg.Marks != nil {
		var was File
		was, f.known = c.cfg.Marks.Files[f.rel]
		f.same, f.sized = f.known && was.same(is), f.known && was.Size == is.Size
		if f.sized && !f.same && f.small(was) {
			if err := c.put(f, f.b, "one flipped bit was repaired, verified by its digest", ""); err != nil {
				return f, err
			}
			f.same, is = true, was
		}
	}
	c.result.Read[f.rel] = is
	return f, nil
}

// small turns back the one bit that makes a small file differ from its digest.
func (f file) small(was File) bool {
	return len(f.b) <= smallMost && filepath.Ext(f.rel) != ".blk" && flip(f.b,
		func() bool { return FileOf(f.b).same(was) })
}

// put writes a repaired file over the damaged one, of which a copy is kept.
func (c *check) put(f file, b []byte, what, stream string) error {
	if err := c.aside(f.rel); err != nil {
		return err
	}
	path := filepath.Join(c.cfg.Store, f.rel)
	if err := disk.Replace(path, b, f.mode); err != nil {
		return fmt.Errorf("repair %s: %w", f.rel, err)
	}
	c.result.Read[f.rel] = FileOf(b)
	c.result.Add(Finding{Outcome: Repaired, File: f.rel, Stream: stream, What: what})
	return nil
}

// aside copies a file before it is changed.
func (c *check) aside(rel string) error {
	to := filepath.Join(c.copies, strings.ReplaceAll(rel, string(filepath.Separator), "_"))
	b, err := os.ReadFile(filepath.Join(c.cfg.Store, rel))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.copies, 0o700); err != nil {
		return fmt.Errorf("folder of damaged files: %w", err)
	}
	if err := disk.Replace(to, b, 0o600); err != nil {
		return fmt.Errorf("keep a copy of %s: %w", rel, err)
	}
	return nil
}

// rebuild removes a file that is made again from others.
func (c *check) rebuild(rel, stream, what string) error {
	if err := c.aside(rel); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.cfg.Store, rel)); err != nil {
		return err
	}
	delete(c.result.Read, rel)
	c.result.Add(Finding{Outcome: Rebuilt, File: rel, Stream: stream, What: what})
	return nil
}

// neighbours compares a file that only its digest speaks for.
func (c *check) neighbours(rel string) error {
	f, err := c.read(filepath.Join(c.cfg.Store, rel))
	if errors.Is(err, fs.ErrNotExist) {
		if m := c.cfg.Marks; m != nil && m.Clean && m.Files[rel].Size > 0 {
			c.result.Add(Finding{Outcome: Lost, File: rel, What: "the file is missing"})
		}
		return nil
	}
	if err == nil && f.known && !f.same && c.cfg.Marks.Clean {
		if slices.Contains(c.cfg.Marks.Spare, rel) {
			return c.rebuild(rel, "", "the file was changed while the station was stopped; it was empty and is created again")
		}
		c.result.Add(Finding{Outcome: Lost, File: rel, What: "the file was changed while the station was stopped"})
	}
	return err
}

// accountOf is the account of the folder of a stream.
func accountOf(dir string) string { return filepath.Base(filepath.Dir(filepath.Dir(dir))) }

// settings are the parts of a stream's configuration that say how its files are to be read.
type settings struct {
	Name        string   `json:"name"`
	Subjects    []string `json:"subjects"`
	Compression string   `json:"compression"`
}

func (c *check) stream(dir string) error {
	name := filepath.Base(dir)
	c.account = accountOf(dir)
	meta, ok, err := c.meta(dir, name, name)
	if err != nil {
		return err
	}
	var s settings
	if !ok || json.Unmarshal(meta, &s) != nil {
		if c.unborn(dir, name) {
			return c.renew(dir, name)
		}
		c.result.Add(Finding{Outcome: costs(name, c.cfg.Views), Stream: name, File: c.rel(filepath.Join(dir, metaFile)),
			What: "its configuration is damaged, so a server does not open it"})
	}
	plain := s.Compression == "" || s.Compression == "none"
	if _, err := os.Stat(filepath.Join(dir, metaKey)); err == nil {
		plain = false
	}
	if err := c.blocks(filepath.Join(dir, blocksFolder), name, s.Subjects, plain); err != nil {
		return err
	}
	if err := c.derived(dir, name); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(dir, consumers, "*"))
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := c.consumer(one, name, filepath.Base(one)); err != nil {
			return err
		}
	}
	return nil
}

// unborn reports whether a stream has no message and was never known: its creation was interrupted.
func (c *check) unborn(dir, name string) bool {
	blocks, err := filepath.Glob(filepath.Join(dir, blocksFolder, "*.blk"))
	if err != nil {
		return false
	}
	for _, b := range blocks { // a server makes the first one before the configuration
		if info, err := os.Stat(b); err != nil || info.Size() > 0 {
			return false
		}
	}
	if c.cfg.Marks == nil {
		return true
	}
	_, known := c.cfg.Marks.Streams[Key(c.account, name)]
	return !known
}

// renew removes what there is of the configuration of such a stream: a server would neither open it nor write it again.
func (c *check) renew(dir, name string) error {
	const what = "its creation was interrupted before it held anything; it is created again"
	removed := false
	for _, file := range []string{metaFile, metaSum} {
		rel := c.rel(filepath.Join(dir, file))
		err := c.rebuild(rel, name, what)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if !removed {
		c.result.Add(Finding{Outcome: Rebuilt, Stream: name, File: c.rel(filepath.Join(dir, metaFile)), What: what})
	}
	return nil
}

func (c *check) rel(path string) string {
	rel, err := filepath.Rel(c.cfg.Store, path)
	if err != nil {
		return path
	}
	return rel
}

// meta reads a configuration and its checksum, and turns back one bit of either.
func (c *check) meta(dir, key, stream string) (b []byte, ok bool, err error) {
	meta, err := c.read(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	sum, err := c.read(filepath.Join(dir, metaSum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	h := newHash(key)
	of := func() string {
		h.Reset()
		_, _ = h.Write(meta.b)
		return hex.EncodeToString(h.Sum(nil))
	}
	is := of()
	switch {
	case is == string(sum.b):
		return meta.b, true, nil
	case oneBit([]byte(is), sum.b):
		return meta.b, true, c.put(sum, []byte(is), "one flipped bit in the checksum of a configuration was repaired", stream)
	case flip(meta.b, func() bool { return of() == string(sum.b) }):
		return meta.b, true, c.put(meta, meta.b, "one flipped bit in a configuration was repaired", stream)
	}
	return nil, false, nil
}

// oneBit reports whether two texts differ in one bit.
func oneBit(a, b []byte) bool {
	return len(a) == len(b) && hamming(a, b) == 1
}

// derived looks at the state of a stream that the server makes again from the messages.
func (c *check) derived(dir, stream string) error {
	for _, name := range []string{indexFile, "thw.db", "sched.db"} {
		f, err := c.read(filepath.Join(dir, blocksFolder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		clean := c.cfg.Marks != nil && c.cfg.Marks.Clean
		switch {
		case f.same:
		case clean && f.known:
			err = c.rebuild(f.rel, stream, "the state of the stream was changed and is rebuilt from the messages")
		case name != indexFile:
			// No checksum protects it. After a crash it is behind the messages anyway.
			err = os.Remove(filepath.Join(c.cfg.Store, f.rel))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consumer looks at what one consumer has acknowledged. Where that is not certain it goes back to where it is.
func (c *check) consumer(dir, stream, name string) error {
	if _, ok, err := c.meta(dir, stream+"/"+name, stream); err != nil || !ok {
		if err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		c.result.Add(Finding{Outcome: Rebuilt, Stream: stream, File: c.rel(dir), What: "the configuration of consumer " +
			name + " was damaged: the consumer is created again"})
		c.back(stream, name)
		return nil
	}
	path := filepath.Join(dir, stateFile)
	f, err := c.read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.back(stream, name)
		return nil
	case err != nil:
		return err
	case f.same || c.cfg.Marks == nil:
		return nil
	}
	if c.cfg.Marks.Clean && f.known {
		if err := c.rebuild(f.rel, stream, "the state of consumer "+name+
			" was changed: it is reset to the last known acknowledged sequence"); err != nil {
			return err
		}
	}
	c.back(stream, name)
	return nil
}

// back has a consumer put back to its mark.
func (c *check) back(stream, name string) {
	if c.cfg.Marks == nil {
		return
	}
	key := Key(c.account, stream)
	if c.result.Back[key] == nil {
		c.result.Back[key] = map[string]uint64{}
	}
	c.result.Back[key][name] = c.cfg.Marks.Streams[key].Floors[name]
}

// missing finds streams that are not there at all any more.
func (c *check) missing(there []string) error {
	if c.cfg.Marks == nil {
		return nil
	}
	for key, s := range c.cfg.Marks.Streams {
		name := NameOf(key)
		if !slices.ContainsFunc(there, func(dir string) bool {
			return Key(accountOf(dir), filepath.Base(dir)) == key
		}) && s.Messages > 0 {
			c.result.Add(Finding{Outcome: costs(name, c.cfg.Views), Stream: name, From: s.First, To: s.Last,
				What: fmt.Sprintf("the stream is missing; it had %d messages", s.Messages)})
		}
	}
	return nil
}
