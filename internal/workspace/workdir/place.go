package workdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/pkg/events"
)

// Place is a directory of a person that a run works in itself, not on a copy. It is no directory below the workspace
// root: a file there names it, which only the person's side writes, under an id that no one can guess.
type Place struct {
	// Dir is absolute and leads through no link.
	Dir string `json:"dir"`
	// ReadOnly are paths in it that no tool and no command may change, Denied those that none may see.
	ReadOnly []string `json:"read_only"`
	Denied   []string `json:"denied,omitempty"`
}

// PlacesDir, below the workspace root, has a folder for each registered place; placeFile is in it.
const (
	PlacesDir = ".local"
	placeFile = "place.json"
	// maxPlaceFile bounds it, in bytes.
	maxPlaceFile = 16 << 20
)

// ErrNoPlace means that a directory that a run works in is not registered here, or is another one by now.
var ErrNoPlace = errors.New("the directory of the run is not known on this machine")

// SavePlace registers a directory under an id.
func SavePlace(root, id string, p Place) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	at := filepath.Join(root, PlacesDir, id)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	return disk.Replace(filepath.Join(at, placeFile), append(text, '\n'), 0o600)
}

// PlaceOf gives the directory that a workspace stands for; ok is false where it is a directory below the root.
func PlaceOf(root, rel string) (p Place, ok bool, err error) {
	id, ok := events.PlaceOf(filepath.ToSlash(rel))
	if !ok {
		return p, false, nil
	}
	at, err := Open(root, PlacesDir+"/"+id)
	if err != nil {
		return p, true, err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	text, err := read(at, placeFile, maxPlaceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p, true, fmt.Errorf("%s: %w: dispatch the task again", rel, ErrNoPlace)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && !filepath.IsAbs(p.Dir) {
		err = errors.New("it names no absolute path")
	}
	if err != nil {
		return p, true, fmt.Errorf("place %s: %w", id, err)
	}
	if real, err := filepath.EvalSymlinks(p.Dir); err != nil || real != p.Dir {
		return p, true, fmt.Errorf("%s: %w: %s was moved, or a link is on the way to it", rel, ErrNoPlace, p.Dir)
	}
	return p, true, nil
}

// open opens the directory of a place.
func (p Place) open() (*os.Root, error) {
	r, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlace, err)
	}
	return r, nil
}

// Path is the absolute path of a workspace, which is not made.
func Path(root, rel string) (string, error) {
	if p, ok, err := PlaceOf(root, rel); ok || err != nil {
		return p.Dir, err
	}
	return filepath.Join(root, filepath.FromSlash(rel)), nil
}
