package agentfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/pkg/events"
)

// artifactsShape says what of the workspace is kept.
func artifactsShape() shape {
	glob := list(shape{kinds: []kind{isText}, check: func(n *node) string { return capture.CheckPattern(n.text) }}, 0)
	return mapping(map[string]field{
		"capture":             acts(boolean()),
		"include":             acts(glob),
		"exclude":             acts(glob),
		"max_file_size":       acts(bytesUpTo(artifact.MaxTransfer)),
		"max_total_size":      acts(bytesUpTo(1 << 40)),
		"mode":                acts(shape{kinds: []kind{isText}, check: modeOf}),
		"ttl":                 acts(duration(time.Second, maxTimeout*12)),
		"cleanup_on_complete": acts(boolean()),
	})
}

// modeOf names what is known and not available.
func modeOf(n *node) string {
	if err := capture.CheckMode(n.text); err != nil {
		return "nats or local (cloudship is not available)"
	}
	return ""
}

// bytesUpTo is a size of 1 to most bytes.
func bytesUpTo(most int64) shape {
	s := size()
	check := s.check
	s.check = func(n *node) string {
		if want := check(n); want != "" {
			return want
		}
		if b := n.bytes(); b < 1 || b > most {
			return "a size of 1 to " + strconv.FormatInt(most, 10) + " bytes"
		}
		return ""
	}
	return s
}

// bytes is the size that a value says, 0 where it says none. Units are those of memory: 1k is 1024.
func (n *node) bytes() int64 {
	if n == nil || !quantity.MatchString(n.text) {
		return 0
	}
	digits := strings.TrimRight(n.text, "kKmMgGtTibB")
	shift := 0
	if unit := n.text[len(digits):]; unit != "" {
		shift = map[byte]int{'k': 10, 'm': 20, 'g': 30, 't': 40}[strings.ToLower(unit)[0]]
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || v > 1<<22 && shift > 0 || v > 1<<50 {
		return 1 << 62 // above every limit
	}
	return int64(v * float64(int64(1)<<shift))
}

// artifacts fills what the file says of them; nil where it says nothing.
func (p *parsing) artifacts(n *node) *events.ArtifactRules {
	if n == nil || n.kind != isMap || len(n.pairs) == 0 {
		return nil
	}
	r := &events.ArtifactRules{MaxFile: n.get("max_file_size").bytes(), MaxRun: n.get("max_total_size").bytes(),
		Mode:  n.get("mode").str(),
		TTLMS: n.get("ttl").milliseconds(), Clean: n.get("cleanup_on_complete").yes()}
	if c := n.get("capture"); c != nil {
		r.Off, r.On = !c.yes(), c.yes()
	}
	for key, into := range map[string]*[]string{"include": &r.Include, "exclude": &r.Exclude} {
		if l := n.get(key); l != nil {
			*into = append([]string{}, l.words()...)
		}
	}
	return r
}
