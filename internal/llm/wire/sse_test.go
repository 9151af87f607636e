package wire_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/inspan/inspan/internal/llm/wire"
)

// read is what the events of r are, as "type|data", and the error at their end with what came of the last event.
func read(r io.Reader) (events []string, part string, err error) {
	for e, err := range wire.Events(r) {
		text := e.Type + "|" + string(e.Data)
		if err != nil {
			return events, text, err
		}
		events = append(events, text)
	}
	return events, "", nil
}

func TestEvents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text string
		want []string
		// part is what came of the event that the stream ends in; "" where it ends between events.
		part string
	}{
		"line feeds":                           {"data: a\n\ndata: b\n\n", []string{"|a", "|b"}, ""},
		"carriage returns":                     {"data: a\r\rdata: b\r\r", []string{"|a", "|b"}, ""},
		"both":                                 {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}, ""},
		"each in turn":                         {"data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []string{"|a", "|b", "|c"}, ""},
		"types":                                {"event: x\ndata: a\n\ndata: b\nevent: y\nevent: z\n\ndata: c\n\n", []string{"x|a", "z|b", "|c"}, ""},
		"a type without data is forgotten":     {"event: x\n\ndata: a\n\n", []string{"|a"}, ""},
		"lines of one event":                   {"data: one\ndata:two\ndata:  three\ndata\n\n", []string{"|one\ntwo\n three\n"}, ""},
		"data without a value":                 {"data\n\ndata:\n\n", []string{"|", "|"}, ""},
		"comments, ids, names that are not":    {": c\n:\nid: 7\nretry: 5\ndatax: no\n data: no\nDATA: no\n\ndata: a\n: c\n\n", []string{"|a"}, ""},
		"a byte order mark":                    {"\uFEFFdata: a\n\n\uFEFFdata: no\n\n", []string{"|a"}, ""},
		"nothing":                              {"", nil, ""},
		"blank lines":                          {"\n\r\n\r\n\n", nil, ""},
		"an end inside of a comment":           {"data: a\n\n: keep-ali", []string{"|a"}, ""},
		"an end after a field that is no data": {"data: a\n\nid: 7\n", []string{"|a"}, ""},
		"an end inside of a line":              {"data: a\n\ndata: cu", []string{"|a"}, "|cu"},
		"an end inside of a name":              {"data: a\n\nda", []string{"|a"}, "|"},
		"an end before the blank line":         {"data: a\n\nevent: x\ndata: cut\n", []string{"|a"}, "x|cut"},
		"an end before it, after a comment":    {"data: cut\n: c", nil, "|cut"},
		"an end between CR and LF":             {"data: a\r\n\r", []string{"|a"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text)), iotest.DataErrReader(strings.NewReader(c.text))} {
				got, part, err := read(r)
				if !slices.Equal(got, c.want) || part != c.part || errors.Is(err, wire.ErrCut) != (c.part != "") {
					t.Errorf("got %q, part %q, %v, want %q and %q", got, part, err, c.want, c.part)
				}
			}
		})
	}

	t.Run("an event is given when its blank line is there, not when the next byte is", func(t *testing.T) {
		t.Parallel()
		for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r"} {
			in, out := io.Pipe()
			got := make(chan string)
			go func() {
				defer close(got)
				for e := range wire.Events(in) {
					got <- string(e.Data)
				}
			}()
			for _, data := range []string{"a", "b"} {
				if _, err := io.WriteString(out, "data: "+data+end); err != nil {
					t.Fatal(err)
				}
				if event := <-got; event != data {
					t.Errorf("%q: got %q, want %q", end, event, data)
				}
			}
			_ = out.Close()
			<-got
		}
	})

	t.Run("an error of the reader comes last, and is not taken for the end", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		for _, text := range []string{"data: a\n\n", "data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\n: c"} {
			got, _, err := read(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))
			if !slices.Equal(got, []string{"|a"}) || !errors.Is(err, broken) {
				t.Errorf("%q: got %q, %v, want one event and the reader's error", text, got, err)
			}
		}
	})

	t.Run("whoever breaks off gets no more", func(t *testing.T) {
		t.Parallel()
		n := 0
		for range wire.Events(strings.NewReader("data: a\n\ndata: b\n\ndata: c")) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("got %d events", n)
		}
	})
}

func TestEventLimits(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	half := wire.MaxEventBytes / 2
	cases := map[string]struct {
		parts []string
		fits  bool
	}{
		"a line at the limit":    {[]string{"data:", x(wire.MaxLineBytes - len("data:\n")), "\n\n"}, true},
		"a line above it":        {[]string{"data:", x(wire.MaxLineBytes), "\n\n"}, false},
		"a comment above it":     {[]string{":", x(wire.MaxLineBytes), "\n\n"}, false},
		"an event at the limit":  {[]string{"data:", x(half), "\ndata:", x(wire.MaxEventBytes - half - 1), "\n\n"}, true},
		"an event above it":      {[]string{"data:", x(half), "\ndata:", x(wire.MaxEventBytes - half), "\n\n"}, false},
		"a line without any end": {[]string{x(wire.MaxLineBytes + 1)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var readers []io.Reader
			for _, p := range c.parts {
				readers = append(readers, strings.NewReader(p))
			}
			got, _, err := read(io.MultiReader(readers...))
			if fits := err == nil && len(got) == 1; fits != c.fits || !c.fits && !errors.Is(err, wire.ErrEventTooLarge) {
				t.Errorf("got %d events, %v, want fits %v", len(got), err, c.fits)
			}
		})
	}
}

// plainEvents is the deliberately simple twin of wire.Events, for a text that is all there.
func plainEvents(text string) (events []string, cut bool) {
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	kind, data := "", []string(nil)
	for i, line := range lines {
		last := i == len(lines)-1
		if last && line == "" {
			break // nothing after the last line end
		}
		if line == "" {
			if data != nil {
				events = append(events, kind+"|"+strings.Join(data, "\n"))
			}
			kind, data = "", nil
			continue
		}
		cut = cut || last && line[0] != ':'
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			kind = value
		case "data":
			data = append(data, value)
		}
	}
	return events, cut || data != nil
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "\uFEFFevent: x\r\ndata: a\rdata\r\r\n: c", "data\n\nid: 1\r", "data: cut", "\r\n\r\n\r", "\uFEFF"} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		want, cut := plainEvents(string(text))
		pieces := []io.Reader{}
		for rest := text; len(rest) > 0; {
			n := min(max(step%7, 1), len(rest))
			pieces = append(pieces, bytes.NewReader(rest[:n]))
			rest = rest[n:]
		}
		got, _, err := read(io.MultiReader(pieces...))
		if !slices.Equal(got, want) || errors.Is(err, wire.ErrCut) != cut || err != nil && !cut {
			t.Errorf("%q: got %q, %v, want %q, cut %v", text, got, err, want, cut)
		}
	})
}
