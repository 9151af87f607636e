// Command release builds what is published of a version of inspan, from a commit and from nothing else:
//
//	go run -C deploy/release . -version 0.2.0
//
// writes into dist/: a .tar.gz for each system (inspan, its helper, completions, licence), a .deb and an .rpm for each
// Linux, a container image made from scratch, a CycloneDX SBOM of each inspan, a Homebrew formula, install.sh, and
// checksums.txt with the SHA-256 of all of them.
//
// Promises: the programs are static, stripped and name version, commit and date. The same commit and version give the
// same bytes. It ends without an error only when the files are there, their checksums hold, and the program of this
// machine's system says that it is that version.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	version := flag.String("version", "", "version without v, such as 0.2.0 (required)")
	commit := flag.String("commit", "HEAD", "commit that is built")
	out := flag.String("out", "dist", "directory that is written, from the root of the repository; it is emptied first")
	base := flag.String("url", "https://github.com/inspan/inspan/releases/download",
		"where releases are published; /vVERSION/FILE is added")
	only := flag.String("only", "", "build for one system only, such as linux/amd64")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *version, *commit, *out, *base, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, version, commit, out, base, only string) error {
	if !semver.MatchString(version) {
		return fmt.Errorf("-version %q: want a semantic version such as 0.2.0", version)
	}
	targets, err := chosen(only)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "inspan-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	src, err := checkout(ctx, filepath.Join(work, "src"), version, commit)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(src.origin, out)
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	r := &release{version: version, base: base, out: out, src: src}
	if err := r.shell(ctx, filepath.Join(work, "host")); err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Fprintln(os.Stderr, "build", t)
		dir := filepath.Join(work, t.os+"-"+t.arch)
		if err := r.build(ctx, t, dir); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if err := r.pack(t, dir); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if err := r.finish(targets); err != nil {
		return err
	}
	return r.verify(ctx)
}
