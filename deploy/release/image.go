package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// authorities is where Linux distributions keep the certificates of public authorities.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// image writes a container image with nothing in it but the programs and the certificates, for docker load. A
// toolrunner that works in local sandboxes needs the larger image of the Dockerfile, which has a shell and git.
func (r *release) image(t target, dir string) error {
	certs, err := os.ReadFile(authorities)
	if err != nil {
		return fmt.Errorf("%w: install ca-certificates", err)
	}
	content := []file{{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{authorities[1:], 0o644, certs}, {"tmp/", 0o1777, nil}}
	installed, services := programs(t)
	for _, p := range append(installed, services...) {
		b, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return err
		}
		content = append(content, file{p, 0o755, b})
	}
	var b bytes.Buffer
	if err := writeTar(&b, r.src.date, content); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	id, err := layer.DiffID()
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: t.os, Architecture: t.arch, Created: v1.Time{Time: r.src.date},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}},
		Config: v1.Config{User: "65532:65532", Env: []string{"PATH=/", "INSPAN_HTTP=:8080"}, WorkingDir: "/",
			Entrypoint: []string{"/inspan"}, Cmd: []string{"--help"},
			Labels: map[string]string{"org.opencontainers.image.title": "inspan", "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.licenses": "Apache-2.0"}},
	})
	if err != nil {
		return err
	}
	tag, err := name.NewTag("inspan:" + r.version)
	if err != nil {
		return err
	}
	path := filepath.Join(r.out, r.name(t, "_image.tar"))
	return tarball.WriteToFile(path, tag, img)
}
