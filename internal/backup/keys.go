package backup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/disk"
)

// keyFile has keys of a station outside of its backup.
type keyFile struct {
	Station string            `json:"station"`
	Keys    map[string][]byte `json:"keys"`
}

// WriteKeys writes the keys of a station to a file that only its owner may read. It must not be in the folder of the
// backup, which others may be given.
func WriteKeys(path, dir, station string, keys map[string][]byte) error {
	file, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("file of keys: %w", err)
	}
	folder, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("folder of the backup: %w", err)
	}
	if strings.HasPrefix(file, folder+string(filepath.Separator)) {
		return fmt.Errorf("the file of keys %s is in the folder of the backup: name one outside of it", path)
	}
	b, err := json.MarshalIndent(keyFile{station, keys}, "", "  ")
	if err == nil {
		err = disk.Replace(file, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the file of keys: %w", err)
	}
	return nil
}

// ReadKeys reads what WriteKeys wrote, for the same station.
func ReadKeys(path, station string) (map[string][]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the file of keys: %w", err)
	}
	var f keyFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("file of keys %s: want what inspan backup --keys wrote: %w", path, err)
	}
	if f.Station != station {
		return nil, fmt.Errorf("file of keys %s: it is of station %q, the backup is of %q", path, f.Station, station)
	}
	return f.Keys, nil
}
