package gitwork_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
)

// benchMB names how many MiB the repository of BenchmarkCheckout has, a tenth of it in its newest tree: 4 if it is not
// set.
const benchMB = "INSPAN_BENCH_GIT_MB"

// BenchmarkCheckout measures git_prepare of a workspace where another on the same remote has been prepared before: by
// http from this machine, in seconds, bytes sent by the remote, and bytes on disk below .git.
func BenchmarkCheckout(b *testing.B) {
	mb := 4
	if n, err := strconv.Atoi(os.Getenv(benchMB)); err == nil && n > 0 {
		mb = n
	}
	dir := filepath.Join(b.TempDir(), "remote.git")
	raw(b, "/", "init", "-q", "--bare", dir)
	seed := b.TempDir()
	raw(b, seed, "init", "-q")
	chunk := make([]byte, mb<<20/1000)
	for c := range 10 {
		for f := range 100 {
			if _, err := rand.Read(chunk); err != nil {
				b.Fatal(err)
			}
			put(b, filepath.Join(seed, fmt.Sprintf("d%d/f%d", f%10, f)), string(chunk))
		}
		raw(b, seed, "add", "-A")
		raw(b, seed, "commit", "-qm", strconv.Itoa(c))
	}
	raw(b, seed, "push", "-q", dir, "main")
	var sent atomic.Int64
	backend := &cgi.Handler{Path: filepath.Join(raw(b, "/", "--exec-path"), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		backend.ServeHTTP(&counted{w, &sent}, q)
	}))
	defer server.Close()
	for _, light := range []bool{false, true} {
		name := map[bool]string{false: "persistent", true: "ephemeral"}[light]
		b.Run(name, func(b *testing.B) {
			root := b.TempDir()
			cfg := git.Config{Temp: b.TempDir(), Ignore: gitwork.Own()}
			near(nil)(&cfg)
			cfg.Limits.Time = 0
			g, err := git.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			desk, err := gitwork.New(gitwork.Config{Git: g, Root: root, Locks: filepath.Join(root, ".git-work")})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			prepare := func() string {
				n++
				at := filepath.Join(root, "run", strconv.Itoa(n))
				if err := os.MkdirAll(at, 0o755); err != nil {
					b.Fatal(err)
				}
				if _, err := desk.At(gitwork.Job{Dir: at, Call: strconv.Itoa(n) + "/c1", Ephemeral: light}).Do(b.Context(), gitwork.Prepare, fmt.Appendf(nil, `{"url":%q,"new_branch":"agent/x"}`, server.URL+"/remote.git")); err != nil {
					b.Fatal(err)
				}
				return at
			}
			prepare()
			sent.Store(0)
			disk := int64(0)
			for b.Loop() {
				at := prepare()
				b.StopTimer()
				disk += below(b, filepath.Join(at, ".git"))
				if err := git.RemoveAll(at); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(sent.Load())/float64(n-1), "sent-B/op")
			b.ReportMetric(float64(disk)/float64(n-1), "disk-B/op")
		})
	}
}

// below is how many bytes the files below a directory have.
func below(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// counted counts the bytes of answers.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, bufio.NewReader(r))
}
