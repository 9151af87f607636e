package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// begin makes the folder ready. What an interrupted backup left is removed, but for the objects: they are named by
// their digests, and are read again before they count.
func begin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the backup: %w", err)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the folder of the backup: %w", err)
	}
	marker := filepath.Join(dir, incompleteFile)
	if len(there) > 0 {
		if _, err := os.Stat(filepath.Join(dir, manifestFile)); err == nil {
			return fmt.Errorf("%s has a whole backup: name a new folder: %w", dir, ErrExists)
		}
		if _, err := os.Stat(marker); err != nil {
			return fmt.Errorf("%s: %w: name a new folder", dir, ErrExists)
		}
	}
	const says = "A backup is being taken, or was interrupted: this is none.\n"
	if err := os.WriteFile(marker, []byte(says), 0o600); err != nil {
		return fmt.Errorf("begin the backup: %w", err)
	}
	for _, name := range []string{inputsFile, timersFile, valuesFile, objectsFile, logFolder} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what an interrupted backup left: %w", err)
		}
	}
	for _, name := range []string{logFolder, objectsFolder} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("make the folder of the backup: %w", err)
		}
	}
	return nil
}

// lines is a file of a backup with a JSON document in each line.
type lines struct {
	name string
	f    *os.File
	out  *bufio.Writer
	hash hash.Hash
	size int64
}

func create(dir, name string) (*lines, error) {
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	l := &lines{name: name, f: f, hash: sha256.New()}
	l.out = bufio.NewWriterSize(io.MultiWriter(f, l.hash), 1<<20)
	return l, nil
}

func (l *lines) add(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		l.size += int64(len(b)) + 1
		_, err = l.out.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s of the backup: %w", l.name, err)
	}
	return nil
}

// close returns once the file is on disk.
func (l *lines) close() (File, error) {
	err := errors.Join(l.out.Flush(), l.f.Sync(), l.f.Close())
	if err != nil {
		return File{}, fmt.Errorf("write %s of the backup: %w", l.name, err)
	}
	return File{Name: l.name, Size: l.size, SHA256: hex.EncodeToString(l.hash.Sum(nil))}, nil
}

// maxLine bounds a line of a backup: a message with its headers, escaped.
const maxLine = 16 << 20

// each reads a file of lines.
func each[T any](dir, name string, see func(T) error) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 1<<16), maxLine)
	for in.Scan() {
		var v T
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			return fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
		}
		if err := see(v); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
	}
	return nil
}

func objectPath(dir, sum string) string {
	return filepath.Join(dir, objectsFolder, sum[:2], sum)
}

// hasObject reports whether the folder has an object with the right bytes.
func hasObject(dir string, o Object) bool {
	b, err := os.ReadFile(objectPath(dir, o.SHA256))
	return err == nil && int64(len(b)) == o.Size && digest(b) == o.SHA256
}

// putObject writes an object under its digest. A file that is cut off is written again by the next backup.
func putObject(dir string, o Object, data []byte) error {
	path := objectPath(dir, o.SHA256)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err == nil {
			_, err = io.Copy(f, bytes.NewReader(data))
			err = errors.Join(err, f.Sync(), f.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("write object %s of the backup: %w", o.SHA256, err)
	}
	return nil
}

// readObject returns the bytes of an object, which are those of its digest.
func readObject(dir string, o Object) ([]byte, error) {
	if !validDigest(o.SHA256) {
		return nil, fmt.Errorf("%s names %.80q: %w", objectsFile, o.SHA256, ErrDamaged)
	}
	b, err := os.ReadFile(objectPath(dir, o.SHA256))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("object %s is missing: %w", o.SHA256, ErrDamaged)
	case err != nil:
		return nil, fmt.Errorf("object %s: %w", o.SHA256, err)
	case int64(len(b)) != o.Size || digest(b) != o.SHA256:
		return nil, fmt.Errorf("object %s has other bytes: %w", o.SHA256, ErrDamaged)
	}
	return b, nil
}

func validDigest(sum string) bool {
	b, err := hex.DecodeString(sum)
	return err == nil && len(b) == sha256.Size
}
