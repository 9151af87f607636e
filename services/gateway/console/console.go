// Package console has the files of the web console: pages, style and scripts, as they are sent to browsers.
//
// Promises: the files are those of the program, with nothing made at a build or loaded from elsewhere. No page runs
// what is not a file of its own origin, is shown within another page, or connects elsewhere, whatever text it shows.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var embedded embed.FS

// Files are the files by name.
func Files() (fs.FS, error) { return fs.Sub(embedded, "static") }

// policy lets a page load scripts, style and pictures of its own origin and connect to it, and nothing else. Trusted
// types keep scripts from making elements out of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// types are the media types by the ending of the name: what the machine says of endings does not count.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// file is one that is served.
type file struct {
	kind, etag string
	data       []byte
}

// Handler serves the files by the path of a request, "" as index.html.
func Handler() (http.Handler, error) {
	files := map[string]file{}
	root, err := Files()
	if err != nil {
		return nil, err
	}
	if err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		sum := sha256.Sum256(data)
		files[name] = file{kind: types[path.Ext(name)], etag: `"` + hex.EncodeToString(sum[:16]) + `"`, data: data}
		return err
	}); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "" {
			name = "index.html"
		}
		f, ok := files[name]
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "no-cache") // kept, and asked for whether it changed
		h.Set("ETag", f.etag)
		h.Set("Content-Type", f.kind)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.data))
	}), nil
}
