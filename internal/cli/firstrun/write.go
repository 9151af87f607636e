package firstrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/service"
)

// empty is the file of a person who chose no model: that it is there is what the next start needs to know.
const empty = "# Made by the first start of inspan. inspan login sets a model, inspan config set any other setting.\n"

// write puts what was chosen into the configuration of this user, and the settings of this process.
func (s *setup) write(got found) error {
	path, err := service.FileOf(service.FromSystem, "")
	if err != nil {
		return app.Usage("nothing was written: %w", err)
	}
	p := s.App.Paint()
	var edits []agentfile.Edit
	if !got.key.Empty() {
		provider, _ := catalog.Find(got.model)
		file := filepath.Join(filepath.Dir(path), "keys", provider.Name)
		if err := writeKey(file, got.key.Reveal()); err != nil {
			return fmt.Errorf("the key was not written: %w", err)
		}
		fmt.Fprintf(s.App.Out, "%s  %s %s\n", p.Green("key    "), file, p.Dim("(only you can read it)"))
		edits = append(edits, agentfile.Edit{Key: "models." + provider.Name + ".api_key", Unset: true},
			agentfile.Edit{Key: "models." + provider.Name + ".api_key_file", Value: filepath.Join("keys", provider.Name)})
	}
	if got.base != "" {
		edits = append(edits, agentfile.Edit{Key: "models.openai.base_url", Value: got.base})
	}
	if got.model != "" {
		edits = append(edits, agentfile.Edit{Key: "default_model", Value: got.model})
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && len(edits) > 0 { // else a person has had a say
		edits = append(edits, agentfile.Edit{Key: "sandbox_build_cache", Value: "auto"})
	}
	if len(edits) == 0 {
		if _, err := app.WriteFile(path, []byte(empty), false); err != nil {
			return err
		}
	} else if _, _, err := service.Change(service.FromSystem, path, edits...); err != nil {
		return app.Usage("the configuration was not changed: %w", err)
	}
	fmt.Fprintf(s.App.Out, "%s  %s\n", p.Green("written"), terminal.Sanitize(path))
	s.App.Layers, err = service.Discover()
	return err
}

// writeKey writes a file that only its owner may read, whole or not at all.
func writeKey(path, key string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs x
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has moved where all went well
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
