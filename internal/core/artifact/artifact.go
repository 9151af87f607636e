// Package artifact decides which files of a workspace a run keeps, what they are called and for how long.
//
// Promises: a second look finds nothing new: content that the run has under the same key is not said again. Three
// limits hold, each by itself: that of a file that is taken by itself, that of all artifacts of a run, and that of
// anything that is stored at all. What is left out is said, with the reason. An artifact expires only after its run has
// ended; its record stays in the log for ever. No name of a file leaves the folder of its run.
package artifact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The limits where no one says otherwise (ART-5, ART-7), in bytes, and MaxTransfer, above which nothing is ever stored.
const (
	DefaultMaxFile = 10 << 20
	DefaultMaxRun  = 100 << 20
	MaxTransfer    = 100 << 20
	// DefaultTTL is how long artifacts are kept after their run (ART-8).
	DefaultTTL = 24 * time.Hour
	// MaxPath is the longest path of a file that is taken, in bytes.
	MaxPath = 1024
)

// DefaultInclude are the files that are taken where an agent does not say (ART-3).
func DefaultInclude() []string { return []string{"**/*.py", "**/*.md", "**/*.json", "**/*.log"} }

// DefaultExclude are the files that are never taken where an agent does not say (ART-3).
func DefaultExclude() []string { return []string{"node_modules/**", ".git/**", "*.tmp"} }

// Limits of one run, in bytes.
type Limits struct {
	// File bounds what is taken by itself, Run all artifacts of a run.
	File, Run int64
	// Most bounds every file of the station, also one that is saved by name; 0 means MaxTransfer.
	Most int64
}

// Within returns the limits on a station that takes no file above so many bytes; 0 leaves them as they are.
func (l Limits) Within(most int64) Limits {
	if most > 0 {
		l.Most = min(most, MaxTransfer)
		l.File = min(l.File, l.Most)
	}
	return l
}

// LimitsOf are the limits that an agent has.
func LimitsOf(r *events.ArtifactRules) Limits {
	l := Limits{File: DefaultMaxFile, Run: DefaultMaxRun}
	if r != nil && r.MaxFile > 0 {
		l.File = min(r.MaxFile, MaxTransfer)
	}
	if r != nil && r.MaxRun > 0 {
		l.Run = r.MaxRun
	}
	return l
}

// OwnerOf is whose the keys of a run's artifacts are: the orchestrator's run where the task named one (ART-11), else
// the run. A fork has keys of its own.
func OwnerOf(s run.State) string {
	if c := s.Created; c != nil && c.ForkOf == nil && events.ValidID(c.Orchestrator) {
		return c.Orchestrator
	}
	return s.HarnessID
}

// KeyOf is what a file is called where artifacts are stored by name. owner is OwnerOf the run.
func KeyOf(owner, file string) string { return "runs/" + owner + "/output/" + file }

// LogKeyOf is the same for the output of a call.
func LogKeyOf(owner, call string) string { return "runs/" + owner + "/logs/" + call + ".log" }

// TypeOf guesses the type from a name.
func TypeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".log", ".out", ".err":
		return events.ArtifactLog
	case ".md", ".html", ".htm", ".pdf", ".rst", ".adoc":
		return events.ArtifactReport
	case ".png", ".jpg", ".jpeg", ".gif", ".webp":
		return events.ArtifactScreenshot
	case ".json", ".jsonl", ".csv", ".tsv", ".xml", ".yaml", ".yml", ".toml", ".parquet", ".sqlite", ".db":
		return events.ArtifactData
	}
	return events.ArtifactFile
}

// contentTypes of names for which looking at the bytes says less.
var contentTypes = [...][2]string{
	{".md", "text/markdown"}, {".json", "application/json"}, {".jsonl", "application/x-ndjson"}, {".csv", "text/csv"},
	{".py", "text/x-python"}, {".go", "text/x-go"},
	{".html", "text/html"}, {".xml", "application/xml"}, {".yaml", "application/yaml"}, {".yml", "application/yaml"},
	{".log", "text/plain"}, {".txt", "text/plain"},
	{".svg", "image/svg+xml"}, {".pdf", "application/pdf"}, {".sh", "text/x-shellscript"}, {".js", "text/javascript"},
	{".css", "text/css"},
}

// ContentType guesses a media type from a name; empty where the bytes must tell.
func ContentType(name string) string {
	ext := strings.ToLower(path.Ext(name))
	for _, c := range contentTypes {
		if c[0] == ext {
			return c[1]
		}
	}
	return ""
}

// Deceptive reports whether a reader would be deceived by a character of a name, or a terminal act on it.
func Deceptive(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' ||
		r == utf8.RuneError
}

// CheckPath says what is wrong with the path of a file, or "".
func CheckPath(file string) string {
	switch {
	case len(file) > MaxPath:
		return fmt.Sprintf("its path has %d bytes, the limit is %d", len(file), MaxPath)
	case !utf8.ValidString(file):
		return "its path is not UTF-8"
	case strings.ContainsFunc(file, Deceptive):
		return "its path has control characters"
	case !fs.ValidPath(file) || file == "." || strings.Contains(file, `\`):
		return "its path is not inside the workspace"
	}
	return ""
}

// Shown is a path that is fit for an event, whatever it was.
func Shown(file string) string {
	file = strings.Map(func(r rune) rune {
		if Deceptive(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(file, "?"))
	if len(file) > 256 {
		file = strings.ToValidUTF8(file[:256], "") + "..."
	}
	return file
}

// Tally is how much of its limits a run has used. The zero value is of no use.
type Tally struct {
	limits  Limits
	used    int64
	records int
	// stored are the digests whose bytes are counted.
	stored map[string]bool
	last   map[string]last
}

// last is what a run has under a key, and how often something was stored there.
type last struct {
	digest string
	count  int
}

// NewTally counts what a run has.
func NewTally(s run.State, l Limits) *Tally {
	t := &Tally{limits: l, stored: map[string]bool{}, last: map[string]last{}}
	for _, a := range run.All(s.Artifacts) {
		t.add(a)
	}
	return t
}

func (t *Tally) add(a events.Artifact) {
	t.records++
	if a.Kept != events.StoredWithLog && !t.stored[a.SHA256] {
		t.stored[a.SHA256] = true
		t.used += a.Size
	}
	t.last[a.Key] = last{a.SHA256, t.last[a.Key].count + 1}
}

// Known reports whether the run has this very content under a key already.
func (t *Tally) Known(key, digest string) bool { return t.last[key].digest == digest }

// Has reports whether the run has anything under a key.
func (t *Tally) Has(key string) bool { return t.last[key].count > 0 }

// Refuse says why a file of a size cannot be taken, before it is read; code "" where it may. saved says that the agent
// asked for it by name.
func (t *Tally) Refuse(file string, size int64, saved bool) (code, reason string) {
	limit, what := t.limits.File, "that is taken by itself"
	if saved {
		limit, what = cmp.Or(t.limits.Most, MaxTransfer), "that can be stored"
	}
	switch why := CheckPath(file); {
	case why != "":
		return events.LeftBadName, why
	case size > limit:
		return events.LeftTooLarge, fmt.Sprintf("it has %d bytes, the limit of a file %s is %d", size, what, limit)
	case t.records >= run.MaxArtifacts:
		return events.LeftTooMany, fmt.Sprintf("the run has %d artifacts, which is the limit", t.records)
	}
	return "", ""
}

// Full says why bytes with a digest cannot be added; code "" where there is room.
func (t *Tally) Full(digest string, size int64) (code, reason string) {
	if t.stored[digest] || t.used+size <= t.limits.Run {
		return "", ""
	}
	return events.LeftRunFull, fmt.Sprintf("with its %d bytes the artifacts of the run would have %d, the limit is %d",
		size, t.used+size, t.limits.Run)
}

// Add counts an artifact.
func (t *Tally) Add(a events.Artifact) { t.add(a) }

// Found is what an attempt of a call made.
type Found struct {
	Limits    Limits
	Artifacts []events.Artifact
	Left      []events.LeftOut
}

// Limits of one event.
const (
	maxLeft       = 20
	maxEventBytes = 128 << 10
)

// Saved are the events of what an attempt made, as the run stands now: what it has already is not said again.
func Saved(s run.State, ref events.ToolRef, fence uint64, f Found) []events.Payload {
	if c := s.Open[ref.Call]; c == nil || c.Fence != fence || s.Status.Ended() {
		return nil
	}
	t := NewTally(s, f.Limits)
	var fresh []events.Artifact
	left := slices.Clone(f.Left)
	if c := s.Open[ref.Call]; c != nil && c.Made && c.Fence == fence {
		left = nil // said before something came between this and the end of the call
	}
	for _, a := range f.Artifacts {
		if t.Known(a.Key, a.SHA256) {
			continue
		}
		code, reason := "", ""
		if a.Kept != events.StoredWithLog {
			code, reason = t.Full(a.SHA256, a.Size)
		}
		if code == "" && t.records >= run.MaxArtifacts {
			code, reason = events.LeftTooMany, fmt.Sprintf("the run has %d artifacts, which is the limit", t.records)
		}
		if code != "" {
			left = append(left, events.LeftOut{Path: Shown(cmp.Or(a.Path, a.Name)), Size: a.Size, Code: code, Reason: reason})
			continue
		}
		a.ID = idOf(a, t.last[a.Key].count)
		t.add(a)
		fresh = append(fresh, a)
	}
	if len(fresh) == 0 && len(left) == 0 {
		return nil
	}
	more := max(0, len(left)-maxLeft)
	return parts(events.ArtifactSavedData{Event: "artifact_saved", ToolRef: ref, Fence: fence, Left: left[:len(left)-more],
		LeftMore: more}, fresh)
}

// parts spreads artifacts over as many events as they need; the first one says what was left out.
func parts(first events.ArtifactSavedData, all []events.Artifact) []events.Payload {
	now, bytes := &first, 0
	out := []events.Payload{now}
	for _, a := range all {
		b, err := json.Marshal(a)
		if err != nil {
			continue // a record is plain text and numbers: it can be encoded
		}
		if bytes += len(b); bytes > maxEventBytes && len(now.Artifacts) > 0 {
			now, bytes = &events.ArtifactSavedData{Event: first.Event, ToolRef: first.ToolRef, Fence: first.Fence}, len(b)
			out = append(out, now)
		}
		now.Artifacts = append(now.Artifacts, a)
	}
	return out
}

// idOf names the n-th content under a key.
func idOf(a events.Artifact, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", a.Key, a.SHA256, n))
	return "art-" + hex.EncodeToString(sum[:6])
}

// Latest are the artifacts of a run as they are now: of each path, and of each key of what is no file, the last, sorted
// by key. What a fork made comes before what the run that it was forked from had under that path.
func Latest(s run.State) []events.Artifact {
	type place struct{ path, key string }
	last := map[place]events.Artifact{}
	for _, a := range run.All(s.Artifacts) {
		at := place{path: a.Path}
		if a.Path == "" {
			at.key = a.Key
		}
		last[at] = a
	}
	out := make([]events.Artifact, 0, len(last))
	for _, a := range last {
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// Find returns the artifact of an id, or the last one of a path, key or name that only one path has.
func Find(s run.State, what string) (events.Artifact, bool) {
	for _, a := range run.Backward(s.Artifacts) {
		if a.ID == what {
			return a, true
		}
	}
	var named []events.Artifact
	for _, a := range Latest(s) {
		if a.Path == what || a.Key == what {
			return a, true
		}
		if a.Name == what {
			named = append(named, a)
		}
	}
	if len(named) == 1 {
		return named[0], true
	}
	return events.Artifact{}, false
}

// ExpiresAt is when an artifact of a run expires; zero while the run has not ended, and for what never does (C33).
func ExpiresAt(ended *time.Time, a events.Artifact) time.Time {
	if ended == nil || a.TTLMS <= 0 || a.Kept != events.StoredInBucket {
		return time.Time{}
	}
	return ended.Add(time.Duration(a.TTLMS) * time.Millisecond)
}

// Due reports whether what was stored for a run may be taken away now. ended is nil for a run that has not ended; known
// is false where there is no such run, whose time counts from when it was stored: it is what a crash left.
func Due(now, stored time.Time, ttl time.Duration, known bool, ended *time.Time) bool {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	switch {
	case !known:
		return !now.Before(stored.Add(ttl))
	case ended == nil:
		return false
	}
	from := *ended
	if stored.After(from) { // clocks of two machines differ
		from = stored
	}
	return !now.Before(from.Add(ttl))
}
