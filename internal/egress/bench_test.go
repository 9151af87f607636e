package egress_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
)

// BenchmarkRequest sends small requests with and without the proxy, in turns, on connections that are kept: ns/op is of
// the proxied ones, "ratio" how many times longer they take.
func BenchmarkRequest(b *testing.B) {
	w := newWorld(b)
	w.site(b, "a.example", "93.184.215.1", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "hello") })
	g := open(b, w.config(), nil, "a.example")
	direct := &http.Client{Transport: &http.Transport{}}
	at := "http://" + w.at[netip.MustParseAddrPort("93.184.215.1:80")]
	proxied := g.client(b, nil)
	var without, with time.Duration
	for b.Loop() {
		begin := time.Now()
		get(b, direct, at)
		middle := time.Now()
		get(b, proxied, "http://a.example/")
		without, with = without+middle.Sub(begin), with+time.Since(middle)
	}
	b.ReportMetric(float64(with.Nanoseconds())/float64(b.N), "proxied-ns/op")
	b.ReportMetric(float64(without.Nanoseconds())/float64(b.N), "direct-ns/op")
	b.ReportMetric(float64(with)/float64(without), "ratio")
	direct.CloseIdleConnections()
}

// BenchmarkStream carries 16 MiB to a host and back through a tunnel and without one, in turns.
func BenchmarkStream(b *testing.B) {
	w := newWorld(b)
	w.echo(b, "echo.example", "93.184.215.3", 7)
	cfg := w.config()
	cfg.Limits.Bytes = 1 << 50
	g := open(b, cfg, nil, "echo.example:7")
	data := make([]byte, 16<<20)
	through := func(c net.Conn) time.Duration {
		begin := time.Now()
		sent := make(chan error, 1)
		go func() {
			_, err := io.Copy(c, bytes.NewReader(data))
			sent <- err
		}()
		if _, err := io.CopyN(io.Discard, c, int64(len(data))); err != nil {
			b.Fatal(err)
		}
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	var without, with time.Duration
	b.SetBytes(2 * int64(len(data)))
	for b.Loop() {
		c, err := net.Dial("tcp", w.at[netip.MustParseAddrPort("93.184.215.3:7")])
		if err != nil {
			b.Fatal(err)
		}
		without += through(c)
		_ = c.Close()
		t, _ := g.connect(b, "echo.example:7")
		_ = t.SetDeadline(time.Time{})
		with += through(t)
		_ = t.Close()
	}
	b.ReportMetric(float64(with)/float64(without), "ratio")
}

// BenchmarkCommand starts a command in a sandbox with a door and without, in turns: the helper and its port are the
// difference.
func BenchmarkCommand(b *testing.B) {
	backend := bwrap.New("", "")
	if err := backend.Probe(b.Context()); err != nil {
		b.Fatal(err)
	}
	w := newWorld(b)
	with := newCell(b, w.config(), "a.example")
	closed, err := backend.Open(b.Context(), sandbox.Config{ID: "closed", Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = closed.Destroy(b.Context()) }()
	run := func(sb sandbox.Sandbox) time.Duration {
		begin := time.Now()
		if _, err := sb.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	var egress, none time.Duration
	for b.Loop() {
		none += run(closed)
		egress += run(with.sandbox)
	}
	b.ReportMetric(float64(egress.Microseconds())/float64(b.N)/1000, "door-ms/op")
	b.ReportMetric(float64(none.Microseconds())/float64(b.N)/1000, "closed-ms/op")
	b.ReportMetric(float64(egress)/float64(none), "ratio")
}

func TestMany(t *testing.T) {
	const many = 1000
	w := newWorld(t)
	w.echo(t, "echo.example", "93.184.215.3", 7)
	cfg := w.config()
	cfg.Limits.Connections = many
	g := open(t, cfg, nil, "echo.example:7")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := heap()
	t.Run("SBX-13 a thousand connections at once are carried with bounded memory", func(t *testing.T) {
		conns := make([]net.Conn, many)
		for i := range conns {
			c, status := g.connect(t, "echo.example:7")
			if status != "HTTP/1.1 200 Connection established" {
				t.Fatalf("connection %d: %s", i, status)
			}
			conns[i] = c
		}
		for _, c := range conns {
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range conns {
			if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
		each := (heap() - before) / many
		t.Logf("%d bytes for each connection, those of the test's own two ends included", each)
		if each > 160<<10 {
			t.Errorf("%d bytes for each connection, want at most 160 KiB", each)
		}
		if _, status := g.connect(t, "echo.example:7"); status == "HTTP/1.1 200 Connection established" {
			t.Error("one more is let in")
		}
		g.Close()
	})
}
