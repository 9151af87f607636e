package serve_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/serve"
	"github.com/inspan/inspan/pkg/tool/wire"
)

func TestStrangers(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-19 a server whose specification is not the one that was pinned is refused, with what to do", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.serve(serve.Config{}, fake{name: "forecast", effect: tool.Read, run: func(context.Context, tool.Call) (tool.Result, error) {
			t.Error("it was called")
			return tool.Result{}, nil
		}})
		_, err := b.remote(fake{name: "forecast", effect: tool.Once}).Run(t.Context(), call(nil))
		if tool.ClassOf(err) != tool.Denied || !strings.Contains(err.Error(), "inspan tools pin forecast") || !strings.Contains(err.Error(), "another specification") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-11 answers that are none begin nothing, or leave a once call unknown", func(t *testing.T) {
		t.Parallel()
		raw := func(text string) func(*testing.T, *nats.Msg, wire.Request) {
			return func(t *testing.T, m *nats.Msg, _ wire.Request) {
				if err := m.Respond([]byte(text)); err != nil {
					t.Error(err)
				}
			}
		}
		reply := func(r wire.Reply) func(*testing.T, *nats.Msg, wire.Request) {
			return func(t *testing.T, m *nats.Msg, q wire.Request) {
				if r.Digest == "its own" {
					r.Digest = q.Digest
				}
				say(t, m, r)
			}
		}
		type answer = func(*testing.T, *nats.Msg, wire.Request)
		accept := reply(wire.Reply{Type: wire.Accepted, Digest: "its own"})
		flood := func(t *testing.T, m *nats.Msg, _ wire.Request) {
			for range 60 {
				say(t, m, wire.Reply{Type: wire.Output, Chunk: make([]byte, 600<<10)})
			}
		}
		for name, c := range map[string]struct {
			answers []answer
			want    tool.Class
		}{
			"no JSON":               {[]answer{raw("{")}, tool.Transient},
			"nothing":               {[]answer{raw("")}, tool.Transient},
			"another version":       {[]answer{raw(`{"v":2,"type":"accepted"}`)}, tool.Transient},
			"no digest":             {[]answer{reply(wire.Reply{Type: wire.Accepted})}, tool.Permanent},
			"a digest of its own":   {[]answer{reply(wire.Reply{Type: wire.Accepted, Digest: "\x1b[2Jx"})}, tool.Denied},
			"a result at once":      {[]answer{reply(wire.Reply{Type: wire.Ended, Result: &wire.Result{}})}, tool.Permanent},
			"refused, no reason":    {[]answer{reply(wire.Reply{Type: wire.Refused})}, tool.Permanent},
			"refused, no class":     {[]answer{reply(wire.Reply{Type: wire.Refused, Error: &wire.Error{Class: "fine"}})}, tool.Permanent},
			"then no JSON":          {[]answer{accept, raw("[]")}, tool.Unknown},
			"then no type":          {[]answer{accept, reply(wire.Reply{})}, tool.Unknown},
			"then a result without": {[]answer{accept, reply(wire.Reply{Type: wire.Ended})}, tool.Unknown},
			"then refused":          {[]answer{accept, reply(wire.Reply{Type: wire.Refused, Error: &wire.Error{Class: "transient"}})}, tool.Unknown},
			"then a flood":          {[]answer{accept, flood}, tool.Unknown},
			"then lost":             {[]answer{accept, reply(wire.Reply{Type: wire.Lost})}, tool.Unknown},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.raw("odd", func(_ *nats.Conn, r wire.Request, m *nats.Msg) {
					for _, answer := range c.answers {
						answer(t, m, r)
					}
				})
				_, err := b.remote(fake{name: "odd", effect: tool.Once}).Run(t.Context(), call(nil))
				if err == nil || tool.ClassOf(err) != c.want || strings.Contains(err.Error(), "\x1b") {
					t.Errorf("got %v, want %s", err, c.want)
				}
			})
		}
	})
	t.Run("SAFE-11 what a server says is bounded and harmless before a model reads it", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.raw("odd", func(_ *nats.Conn, r wire.Request, m *nats.Msg) {
			say(t, m, wire.Reply{Type: wire.Accepted, Digest: r.Digest})
			say(t, m, wire.Reply{Type: wire.Ended, Result: &wire.Result{Output: "\x1b[2J\u202e" + strings.Repeat("a", 100_000), Images: [][]byte{[]byte("no picture")}}})
		})
		r, err := b.remote(fake{name: "odd", effect: tool.Once}).Run(t.Context(), call(nil))
		if err != nil || len(r.Output) > 1200 || strings.ContainsAny(r.Output, "\x1b\u202e") || len(r.Full) < 100_000 || len(r.Images) != 0 {
			t.Errorf("got %d bytes %.80q, %d in all, %d images, %v", len(r.Output), r.Output, len(r.Full), len(r.Images), err)
		}
	})
	t.Run("TOOL-19 what cannot be served is refused at once", func(t *testing.T) {
		t.Parallel()
		good := fake{name: "good", effect: tool.Read}
		for name, c := range map[string]struct {
			cfg   serve.Config
			tools []tool.Tool
		}{
			"no tools":                   {serve.Config{Server: "w"}, nil},
			"no server name":             {serve.Config{}, []tool.Tool{good}},
			"a name of MCP":              {serve.Config{Server: "w"}, []tool.Tool{fake{name: "mcp__a__b"}}},
			"twice":                      {serve.Config{Server: "w"}, []tool.Tool{good, good}},
			"a station that is no token": {serve.Config{Server: "w", Station: "a.b"}, []tool.Tool{good}},
			"no verifier":                {serve.Config{Server: "w"}, []tool.Tool{struct{ tool.Tool }{fake{name: "r", effect: tool.Reconcilable}}}},
			"no NATS":                    {serve.Config{Server: "w", URL: "nats://user:secret@127.0.0.1:1"}, []tool.Tool{good}},
		} {
			if err := serve.Serve(t.Context(), c.cfg, c.tools...); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("TOOL-19 servers say what they serve, and what does not hold is left out", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.serve(serve.Config{}, fake{name: "one", effect: tool.Read}, fake{name: "two"})
		nc := b.nc()
		if _, err := nc.Subscribe(events.ToolsSubject("s1"), func(m *nats.Msg) {
			_ = m.Respond([]byte(`{"name":"forged","server":"x","digest":"00"}`))
			_ = m.Respond([]byte(`no`))
		}); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		names := map[string]string{}
		for deadline := time.Now().Add(patience); len(names) < 2 && time.Now().Before(deadline); {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			specs, err := b.st.Served(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range specs {
				names[s.Name] = s.Effect
			}
		}
		if len(names) != 2 || names["one"] != "read" || names["two"] != "once" {
			t.Errorf("got %v", names)
		}
	})
}
