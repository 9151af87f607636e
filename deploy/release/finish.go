package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed inspan.rb.tmpl
var formula string

//go:embed install.sh
var install []byte

const sums = "checksums.txt"

// finish writes what is of all systems: the formula, the script and the checksums.
func (r *release) finish(targets []target) error {
	digests := map[string]string{}
	for _, t := range targets {
		d, err := digest(filepath.Join(r.out, r.name(t, ".tar.gz")))
		if err != nil {
			return err
		}
		digests[t.os+"_"+t.arch] = d
	}
	if len(targets) == len(all) {
		var b bytes.Buffer
		if err := template.Must(template.New("").Parse(formula)).Execute(&b, map[string]any{"Version": r.version,
			"URL": r.base + "/v" + r.version, "SHA256": digests}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, "inspan.rb"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	script := bytes.ReplaceAll(install, []byte("@VERSION@"), []byte(r.version))
	script = bytes.ReplaceAll(script, []byte("@URL@"), []byte(r.base))
	if err := os.WriteFile(filepath.Join(r.out, "install.sh"), script, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range files {
		d, err := digest(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", d, f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, sums), []byte(b.String()), 0o644)
}

func digest(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:]), nil
}

// verify looks at what was written, and prints it.
func (r *release) verify(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.out, sums))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got, err := digest(filepath.Join(r.out, name))
		if err != nil || got != want {
			return fmt.Errorf("%s: its digest is %s, and the checksums say %s: %w", name, got, want, err)
		}
		info, err := os.Stat(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Printf("%9.1f MB  %s\n", float64(info.Size())/1e6, name)
	}
	says, err := output(ctx, r.out, r.host, "version")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.FieldsFunc(says, func(c rune) bool { return c == ' ' || c == ',' }), r.version) {
		return fmt.Errorf("the program says %q, not version %s", says, r.version)
	}
	fmt.Println(says)
	return nil
}
