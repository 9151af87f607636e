package runtimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/work"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/tool"
)

// maxChecked bounds the file of a result, in bytes.
const maxChecked = 64 << 10

// checked is what the last check of a runtime on this machine found out.
type checked struct {
	work.Checked
	// Digest is that of the file of the runtime that was checked.
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
}

// resultOf is the file of the result of a runtime. It is with what is kept of this user, and not in the directory: that
// may be somebody else's, who would say what they like.
func resultOf(e runtime.Entry) (string, error) {
	home, err := trust.Home()
	return filepath.Join(home, "runtimes", e.Name+".json"), err
}

// keep stores the result of a check, in the place of the one before.
func keep(e runtime.Entry, got work.Checked, at time.Time) error {
	path, err := resultOf(e)
	if err != nil {
		return err
	}
	b, err := json.Marshal(checked{got, e.Digest, at.UTC()})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = disk.Replace(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store the result of the check: %w", err)
	}
	return nil
}

// last returns the result of the last check of just this runtime; ok is false where there is none, or one of another
// file.
func last(e runtime.Entry) (c checked, ok bool, err error) {
	path, err := resultOf(e)
	if err != nil {
		return c, false, nil //nolint:nilerr // without a home nothing was stored
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxChecked || info.Mode().Perm()&0o022 != 0) {
		err = errors.New("it is no file that only its owner can write")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, false, fmt.Errorf("%s: %w (remove it, and check again)", path, err)
	}
	return c, c.Digest == e.Digest && c.Name == e.Name, nil
}

// status says what was shown of a runtime on this machine, else what its file says.
func status(e runtime.Entry) (string, *checked, error) {
	c, ok, err := last(e)
	switch {
	case err != nil:
		return "", nil, err
	case ok && (c.Passed() || c.Canary == work.CanaryUngated):
		return fmt.Sprintf("checked %s: %s (%s, %s)", tool.Visible(c.Version), c.Canary, c.Sandbox,
			c.At.Format(time.DateOnly)), &c, nil
	case ok:
		return fmt.Sprintf("failed %s: %s (%s, %s)", tool.Visible(c.Version), tool.Visible(c.Canary), c.Sandbox,
			c.At.Format(time.DateOnly)), &c, nil
	case e.Verified != "":
		return "verified " + e.Verified, nil, nil
	}
	return "unverified", nil, nil
}
