package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/disk"
)

// Format is the newest version that this program reads, that of a backup of which content was deleted. A whole one and
// one that was made to make room are written as older programs read them.
const (
	Format       = 3
	prunedFormat = 2
	wholeFormat  = 1
)

// Names in the folder of a backup.
const (
	manifestFile   = "manifest.json"
	incompleteFile = "incomplete"
	inputsFile     = "inputs.jsonl"
	timersFile     = "timers.jsonl"
	valuesFile     = "values.jsonl"
	objectsFile    = "objects.jsonl"
	logFolder      = "log"
	objectsFolder  = "objects"
)

// Manifest says what a backup has. It is written last.
type Manifest struct {
	Format  int    `json:"format"`
	Station string `json:"station"`
	// Version is that of the program that took the backup.
	Version string `json:"version"`
	// Began and Cut are when the backup began and at which moment its point of the log is.
	Began time.Time `json:"began_at"`
	Cut   time.Time `json:"cut_at"`
	// Log is the position of the last event, which is also how many there are. In is the position of the last input that
	// the station had at that point, judged or not.
	Log uint64 `json:"log_last"`
	In  uint64 `json:"in_last"`
	// Runs have at least one event, Open ones have not ended.
	Runs   int `json:"runs"`
	Open   int `json:"open_runs"`
	Inputs int `json:"inputs"`
	// Judged inputs were in the stream although the log has what became of them; they are left out.
	Judged  int    `json:"judged_inputs"`
	Timers  int    `json:"timers"`
	Values  int    `json:"values"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Files   []File `json:"files"`
	// Pruned are the runs of a pruned backup whose events were left out, also those that were before; PrunedFrom is the
	// SHA-256 of the manifest of the backup that has them.
	Pruned     int    `json:"pruned_runs,omitempty"`
	PrunedFrom string `json:"pruned_from_sha256,omitempty"`
	// Forgotten counts what of this backup was deleted on request; nil in a whole one, and where room was made.
	Forgotten *Forgotten `json:"forgotten,omitempty"`
	// Keys of the station that are not in the backup.
	Keys []string `json:"keys_left_out"`
}

// Forgotten counts runs and sessions whose content was deleted.
type Forgotten struct {
	Runs     int `json:"runs"`
	Sessions int `json:"sessions"`
}

// File of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes are written as text where they are text, and else as base64.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string][]byte{"base64": b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var coded struct {
			Base64 []byte `json:"base64"`
		}
		err := json.Unmarshal(data, &coded)
		*b = coded.Base64
		return err
	}
	var text string
	err := json.Unmarshal(data, &text)
	*b = Bytes(text)
	return err
}

// ReadManifest reads that of a backup. A folder without one has no whole backup.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w", dir, ErrNoBackup)
	}
	if err != nil {
		return m, fmt.Errorf("read the manifest of the backup: %w", err)
	}
	var signed struct {
		Manifest json.RawMessage `json:"manifest"`
		SHA256   string          `json:"sha256"`
	}
	if err := json.Unmarshal(b, &signed); err != nil || digest(signed.Manifest) != signed.SHA256 {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, manifestFile), ErrDamaged)
	}
	if err := json.Unmarshal(signed.Manifest, &m); err != nil {
		return m, fmt.Errorf("%s: %w: %w", filepath.Join(dir, manifestFile), ErrDamaged, err)
	}
	if m.Format < 1 || m.Format > Format {
		return m, fmt.Errorf("the backup has format %d, this program reads up to %d: use the version that took it, %s",
			m.Format, Format, m.Version)
	}
	return m, nil
}

// write puts the manifest into the folder, which makes the backup whole.
func (m Manifest) write(dir string) error {
	b, err := json.Marshal(m)
	if err == nil {
		b, err = json.Marshal(map[string]any{"manifest": json.RawMessage(b), "sha256": digest(b)})
	}
	if err == nil {
		err = disk.Replace(filepath.Join(dir, manifestFile), append(b, '\n'), 0o600)
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, incompleteFile))
	}
	if err != nil {
		return fmt.Errorf("write the manifest of the backup: %w", err)
	}
	return nil
}
