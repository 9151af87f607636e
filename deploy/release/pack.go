package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// file is a file of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

// pack writes everything that is published for a system.
func (r *release) pack(t target, dir string) error {
	if err := r.archive(t, dir); err != nil {
		return err
	}
	if err := r.sbom(t, filepath.Join(dir, "inspan")); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.distribution(t, dir, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return r.image(t, dir)
}

// name is the file of a release, without its folder.
func (r *release) name(t target, ending string) string {
	return fmt.Sprintf("inspan_%s_%s_%s%s", r.version, t.os, t.arch, ending)
}

// archive writes the .tar.gz that install.sh and the formula take.
func (r *release) archive(t target, dir string) error {
	var content []file
	installed, _ := programs(t)
	for _, p := range installed {
		b, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		content = append(content, file{p, 0o755, b})
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(filepath.Join(r.src.dir, name))
		if err != nil {
			return err
		}
		content = append(content, file{name, 0o644, b})
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		content = append(content, file{"completions/inspan." + shell, 0o644, r.completions[shell]})
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := writeTar(z, r.src.date, content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(t, ".tar.gz")), b.Bytes(), 0o644)
}

// writeTar writes an archive whose bytes depend on nothing but its content and a date.
func writeTar(w io.Writer, date time.Time, content []file) error {
	t := tar.NewWriter(w)
	for _, f := range content {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: date, Format: tar.FormatPAX}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// distribution writes a package of a Linux distribution.
func (r *release) distribution(t target, dir, format string) error {
	extra := filepath.Join(dir, "extra")
	if err := os.MkdirAll(extra, 0o755); err != nil {
		return err
	}
	var content files.Contents
	add := func(from, to string, mode os.FileMode) {
		content = append(content, &files.Content{Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.src.date}})
	}
	installed, _ := programs(t)
	for _, p := range installed {
		add(filepath.Join(dir, p), "/usr/bin/"+p, 0o755)
	}
	for shell, to := range map[string]string{"bash": "/usr/share/bash-completion/completions/inspan",
		"fish": "/usr/share/fish/vendor_completions.d/inspan.fish", "zsh": "/usr/share/zsh/site-functions/_inspan"} {
		from := filepath.Join(extra, shell)
		if err := os.WriteFile(from, r.completions[shell], 0o644); err != nil {
			return err
		}
		add(from, to, 0o644)
	}
	add(filepath.Join(r.src.dir, "LICENSE"), "/usr/share/doc/inspan/copyright", 0o644)
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "inspan", Arch: t.arch, Platform: t.os, Version: r.version, Release: "1", MTime: r.src.date,
		Section: "utils", Priority: "optional", Maintainer: "Inspan maintainers <maintainers@inspan.dev>",
		Description: "A durable harness for AI agents on NATS JetStream.\nEvery step, tool call and approval of an agent's run is an event in a log.",
		Homepage:    "https://github.com/inspan/inspan", License: "Apache-2.0",
		Overridables: nfpm.Overridables{Depends: []string{"git", "ca-certificates"}, Recommends: []string{"bubblewrap"},
			Contents: content, RPM: nfpm.RPM{BuildHost: "inspan"}},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, r.name(t, "."+format)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
